//! The pages that promise something name the tests that hold it.

use std::fs;

use crate::house::root;

/// A page, and whether each line of its tables has to name a test.
const PAGES: [(&str, bool); 2] = [("docs/GUARANTEES.md", true), ("docs/redisson.md", false)];

#[test]
fn every_test_that_is_named_exists() {
    for (page, _) in PAGES {
        let text = read(page);
        let named = names(&text);
        assert!(named.len() > 10, "{page} names only {} tests; is its notation another one now?", named.len());
        let absent: Vec<_> = named.into_iter().filter(|name| !exists(name)).collect();
        assert!(absent.is_empty(), "{page} names tests that do not exist: {absent:#?}");
    }
}

#[test]
fn every_line_that_promises_names_a_test() {
    for (page, _) in PAGES.iter().filter(|(_, each)| *each) {
        let text = read(page);
        let lines: Vec<_> = text.lines().collect();
        // What stands over a rule is the head of a table.
        let is_head = |at: usize| lines.get(at + 1).is_some_and(|next| next.starts_with("|---"));
        let rows = lines.iter().enumerate().filter(|(at, line)| line.starts_with("| ") && !is_head(*at));
        let bare: Vec<_> = rows.map(|(_, line)| *line).filter(|line| names(line).is_empty()).collect();
        assert!(bare.is_empty(), "{page} promises without a test: {bare:#?}");
    }
}

#[test]
fn a_name_that_is_wrong_is_found() {
    assert!(exists("law/basics::acquire_release"));
    assert!(exists("sync/blocking/threads::a_crowd_is_served"));
    assert!(exists("sqlite/src/tests/boots::a_release_by_another_boot_frees_at_once"));
    assert!(!exists("law/basics::acquire_releases"));
    assert!(!exists("law/nothing::acquire_release"));
    assert!(!exists("sync/kit::held"), "a helper is no test");
    assert_eq!(names("`law/a::b`, `Client::show`, `redis/x` and `sync/c/d::e_1`"), ["law/a::b", "sync/c/d::e_1"]);
}

/// What stands between backticks and reads `crate/file::test`.
fn names(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_name = |word: &&str| {
        word.split_once("::").is_some_and(|(file, test)| {
            let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            file.contains('/')
                && file.split('/').all(plain)
                && test.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        })
    };
    quoted.filter(is_name).collect()
}

fn exists(name: &str) -> bool {
    let Some((file, test)) = name.split_once("::") else { return false };
    let Some((area, file)) = file.split_once('/') else { return false };
    if area == "law" {
        let listed = read("crates/bandog-conformance/src/run.rs").contains(&format!(", {test} }}"));
        return listed && says(&format!("crates/bandog-conformance/src/laws/{file}.rs"), &format!("async fn {test}<"));
    }
    let home = match area {
        "interop" => "interop".to_owned(),
        "bandog" => "crates/bandog".to_owned(),
        other => format!("crates/bandog-{other}"),
    };
    let folders = ["tests/it/", "tests/", "tests/servers/", ""];
    folders.iter().any(|folder| is_test(&format!("{home}/{folder}{file}.rs"), test))
}

/// Whether this file has a function of this name under an attribute that makes it a test.
fn is_test(path: &str, name: &str) -> bool {
    let Ok(text) = fs::read_to_string(root().join(path)) else { return false };
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let is_it = |line: &str| line.split_once("fn ").is_some_and(|(_, rest)| rest.starts_with(&format!("{name}(")));
    lines.iter().enumerate().filter(|(_, line)| is_it(line)).any(|(at, _)| {
        let above = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        above.into_iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}

fn says(path: &str, words: &str) -> bool {
    fs::read_to_string(root().join(path)).is_ok_and(|text| text.contains(words))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}
