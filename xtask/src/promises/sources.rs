//! The tests in the code, and the promises in the comments above them.

use std::fs;
use std::process::Command;

use crate::fault::Fault;
use crate::step;

use super::is_number;

/// Before the numbers in a comment, such as `L5, RD18`.
pub(super) const MARK: &str = "// Promise: ";

/// The areas of the laws: the folder of each, and the file that lists them. A law that is not in the list does not run.
const LAWS: &[(&str, &str, &str)] = &[
    ("law", "crates/bandog-conformance/src/laws/", "crates/bandog-conformance/src/run.rs"),
    ("object", "crates/bandog-conformance/src/objects/", "crates/bandog-conformance/src/objects.rs"),
    ("queue", "crates/bandog-conformance/src/queues/", "crates/bandog-conformance/src/queues.rs"),
];

/// A test in the code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// The area, the file and the function: `area/file::function`.
    pub(super) name: String,
    pub(super) path: String,
    pub(super) promises: Vec<Mention>,
}

/// The number of a promise in a comment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mention {
    pub(super) number: String,
    /// The file and the line.
    pub(super) place: String,
}

/// All tests, sorted by their names, and a list of problems.
pub(super) fn tests() -> Result<(Vec<Test>, Vec<String>), Fault> {
    let args = ["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"];
    let paths = step::output(Command::new("git").args(args))?;
    let mut lists = Vec::new();
    for (_, folder, list) in LAWS {
        let text = super::read(list)?;
        let (_, laws) = text.split_once("macro_rules! each_").unwrap_or_default();
        lists.push((*folder, laws.split_whitespace().map(str::to_owned).collect::<Vec<_>>()));
    }
    let (mut tests, mut problems) = (Vec::new(), Vec::new());
    for path in paths.lines() {
        // Git lists a file that was just deleted.
        let Ok(text) = fs::read_to_string(path) else { continue };
        let laws = lists.iter().find(|(folder, _)| path.starts_with(folder)).map(|(_, laws)| &laws[..]);
        let (found, wrong) = of_file(path, &text, laws);
        tests.extend(found);
        problems.extend(wrong);
    }
    tests.sort_by(|one, other| one.name.cmp(&other.name));
    for pair in tests.windows(2) {
        let [one, other] = pair else { continue };
        if one.name == other.name && !(one.promises.is_empty() && other.promises.is_empty()) {
            problems.push(format!("{} and {} have two tests {}: rename one", one.path, other.path, one.name));
        }
    }
    Ok((tests, problems))
}

/// The tests in a file, and a problem for each wrong comment. In a file of laws, those in the list `laws` are tests.
pub(super) fn of_file(path: &str, text: &str, laws: Option<&[String]>) -> (Vec<Test>, Vec<String>) {
    let (mut tests, mut problems) = (Vec::new(), Vec::new());
    let mut promises: Vec<Mention> = Vec::new();
    let (mut in_attribute, mut is_test, mut in_pairs) = (false, false, false);
    for (at, line) in text.lines().map(str::trim).chain([""]).enumerate() {
        if is_comment(line) {
            let place = format!("{path}:{}", at + 1);
            for number in line.strip_prefix(MARK).unwrap_or_default().split(", ") {
                if !is_number(number) {
                    problems.push(format!("{place}: write `{MARK}L5, RD18`, not `{line}`"));
                } else if promises.iter().any(|earlier| earlier.number == number) {
                    problems.push(format!("{place}: {number} is above this test twice: delete one"));
                } else {
                    promises.push(Mention { number: number.to_owned(), place: place.clone() });
                }
            }
        } else if in_attribute || line.starts_with("#[") {
            in_attribute = !line.contains(']');
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        } else {
            in_pairs = (in_pairs || line == "for_pairs! {") && line != "}";
            let named = match laws {
                Some(_) => line.strip_prefix("pub async fn ").and_then(|law| law.split_once('<')),
                None if is_test => line.split_once("fn ").and_then(|(_, test)| test.split_once('(')),
                None if in_pairs => line.split_once(':'),
                None => None,
            };
            let is_listed = |name: &str| laws.is_none_or(|laws| laws.iter().any(|law| law == name));
            match named.filter(|(name, _)| is_listed(name)) {
                Some((function, _)) => {
                    let name = format!("{}::{function}", area_and_file(path));
                    tests.push(Test { name, path: path.to_owned(), promises });
                }
                None => problems.extend(promises.first().map(|Mention { place, .. }| {
                    format!("{place}: below is no test and no law in the list: move `{MARK}…` directly above the attributes of a test")
                })),
            }
            (promises, is_test) = (Vec::new(), false);
        }
    }
    (tests, problems)
}

/// Whether a comment says, in any spelling, which promises a test checks.
fn is_comment(line: &str) -> bool {
    let word = line.strip_prefix("//").and_then(|comment| comment.split_once(':')).map(|(word, _)| word);
    let word = word.map(|word| word.trim_start_matches(['/', '!', ' ']).trim_end().to_ascii_lowercase());
    matches!(word.as_deref(), Some("promise" | "promises"))
}

/// The first part of the names of tests in this file: `crates/bandog-sync/tests/it/renew.rs` is `sync/renew`.
fn area_and_file(path: &str) -> String {
    let path = path.trim_end_matches(".rs");
    for (area, folder, _) in LAWS {
        if let Some(file) = path.strip_prefix(folder) {
            return format!("{area}/{file}");
        }
    }
    let path = ["crates/bandog-", "crates/", "proof/"].iter().find_map(|root| path.strip_prefix(root)).unwrap_or(path);
    let (area, file) = path.split_once('/').unwrap_or(("", path));
    let file = ["tests/it/", "tests/"].iter().find_map(|tests| file.strip_prefix(tests)).unwrap_or(file);
    format!("{area}/{file}")
}

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
