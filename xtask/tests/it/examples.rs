//! Examples in docs use only the crates that users depend on.

use std::fs;

use crate::house::{files, root};

/// Crates that users add by name, because the facade does not re-export them.
const BY_NAME: [&str; 3] = ["bandog-cron", "bandog-redis", "bandog-sqlite"];

#[test]
fn examples_in_docs_name_no_inner_crate() {
    let mut wrong = Vec::new();
    for crate_of in ["bandog", "bandog-core", "bandog-macros", "bandog-schedule", "bandog-sync"].iter().chain(&BY_NAME)
    {
        let folder = root().join("crates").join(crate_of).join("src");
        let own = BY_NAME.contains(crate_of).then(|| crate_of.replace('-', "_"));
        for path in files(&folder) {
            let text = fs::read_to_string(&path).unwrap();
            let lines = examples(&text).into_iter().filter(|line| inner(line).any(|name| Some(name) != own.as_deref()));
            wrong.extend(lines.map(|line| format!("{}: {line}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "write bandog:: instead: {wrong:#?}");
}

/// Without `doc(inline)`, rustdoc shows a re-export as one line that leads to another crate.
#[test]
fn the_docs_of_the_facade_show_what_it_re_exports() {
    for path in files(&root().join("crates/bandog/src")) {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().map(str::trim_start).collect();
        let bare =
            lines.windows(2).filter(|pair| pair[1].starts_with("pub use bandog_") && pair[0] != "#[doc(inline)]");
        let bare: Vec<_> = bare.map(|pair| pair[1]).collect();
        assert!(bare.is_empty(), "{}: write #[doc(inline)] above {bare:?}", path.display());
    }
}

#[test]
fn lines_of_examples_and_names_of_inner_crates_are_found() {
    let text = "//! [`bandog_core::Swap`] is text.\n//! ```\n//! use bandog_sync::Client;\n//! ```\nuse bandog_core::Key;\n\
                /// ```no_run\n    /// # bandog_core::ok();\n    /// ```\n";
    assert_eq!(examples(text), ["use bandog_sync::Client;", "# bandog_core::ok();"]);
    assert_eq!(inner("use bandog_core::{Key}; let bandog_id = 3;").collect::<Vec<_>>(), ["bandog_core"]);
    assert_eq!(inner("use bandog::Client;").count(), 0);
}

/// The lines of code in doc comments.
fn examples(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start);
        match comment {
            Some(line) if line.starts_with("```") => is_inside = !is_inside,
            Some(line) if is_inside => found.push(line),
            Some(_) => {}
            None => is_inside = false,
        }
    }
    found
}

/// The inner crates of bandog that a line names.
fn inner(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| {
        ["core", "cron", "macros", "redis", "schedule", "sqlite", "sync"]
            .iter()
            .any(|part| word.strip_prefix("bandog_") == Some(part))
    })
}
