//! Names of tests: `area/file::function`.

use std::fs;

const LAWS: &str = "crates/bandog-conformance/src";

/// The names of tests between the backticks of a text.
pub(super) fn names(text: &str) -> Vec<&str> {
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

/// The file that contains the test, if the test exists.
pub(super) fn home(name: &str) -> Option<String> {
    let (file, test) = name.split_once("::")?;
    let (area, file) = file.split_once('/')?;
    if area == "law" {
        let path = format!("{LAWS}/laws/{file}.rs");
        let listed = says(&format!("{LAWS}/run.rs"), &format!(", {test} }}"));
        return (listed && says(&path, &format!("async fn {test}<"))).then_some(path);
    }
    if let "object" | "queue" = area {
        let path = format!("{LAWS}/{area}s/{file}.rs");
        let list = fs::read_to_string(format!("{LAWS}/{area}s.rs")).unwrap_or_default();
        let listed = list.split_whitespace().any(|word| word == test);
        return (listed && says(&path, &format!("async fn {test}<"))).then_some(path);
    }
    let home = match area {
        "interop" | "storm" | "bench" => format!("proof/{area}"),
        "bandog" => "crates/bandog".to_owned(),
        other => format!("crates/bandog-{other}"),
    };
    let folders = ["tests/it/", "tests/", "tests/servers/", ""];
    folders.iter().map(|folder| format!("{home}/{folder}{file}.rs")).find(|path| is_test(path, test))
}

/// Whether the file has a function of this name under an attribute that makes it a test, or in the list of `for_pairs!`,
/// which declares a test of the function for each pair of programs.
fn is_test(path: &str, name: &str) -> bool {
    let Ok(text) = fs::read_to_string(path) else { return false };
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let list = lines.iter().skip_while(|line| **line != "for_pairs! {").take_while(|line| **line != "}");
    if list.into_iter().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'))) {
        return true;
    }
    let is_it = |line: &str| line.split_once("fn ").is_some_and(|(_, rest)| rest.starts_with(&format!("{name}(")));
    lines.iter().enumerate().filter(|(_, line)| is_it(line)).any(|(at, _)| {
        let above = lines.iter().take(at).rev().take_while(|line| line.starts_with("#["));
        above.into_iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}

/// Whether the file contains this text.
fn says(path: &str, words: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains(words))
}
