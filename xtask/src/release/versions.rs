//! Checks of the versions, of the changelog, and of the pages on docs.rs.

use std::fs;
use std::process::Command;

use crate::fault::Fault;
use crate::step;
use crate::workspace::Workspace;

use super::checks::{Outcome, last_release};

const CHANGELOG: &str = "CHANGELOG.md";
/// The words before a version in a file. The version may be a short one, such as 0.1.
const NAMED: &[(&str, &str)] = &[
    ("README.md", "The version is "),
    ("README.zh-CN.md", "当前版本是 "),
    ("deploy/Dockerfile", "registry.example/bandog:"),
    ("docs/deploy.md", "registry.example/bandog:"),
    ("docs/deploy.md", "bandog_"),
];

/// Checks that all crates, what they require of each other, the changelog and the pages have one version.
pub(super) fn same() -> Outcome {
    let workspace = Workspace::read()?;
    let version = workspace.command()?.version();
    let mut wrong = Vec::new();
    let mut note = |place: String, found: &str| wrong.push(format!("{place} has {found}"));
    for one in workspace.crates().iter().filter(|one| one.version() != version) {
        note(one.name().to_owned(), one.version());
    }
    for one in workspace.published() {
        for (name, required) in one.own_dependencies() {
            if required.strip_prefix('^') != Some(version) {
                note(format!("{}: {name}", one.name()), required);
            }
        }
    }
    let newest = newest(&read(CHANGELOG)?)?.version;
    if newest != version && !newest.eq_ignore_ascii_case("unreleased") {
        note(CHANGELOG.to_owned(), &newest);
    }
    for (file, words) in NAMED {
        let named = after(&read(file)?, words);
        if named.is_empty() {
            note((*file).to_owned(), &format!("no version after {words:?}"));
        }
        for found in named.iter().filter(|found| !is_short_of(found, version)) {
            note((*file).to_owned(), found);
        }
    }
    let crates = workspace.crates().len();
    if wrong.is_empty() {
        return Ok(format!("{version} in {crates} crates"));
    }
    Err(Fault::failed(format!("the version is {version}, but {}", wrong.join("; "))))
}

/// Checks that the newest entry has content, and that it was changed if a published crate was.
pub(super) fn changelog() -> Outcome {
    let entry = newest(&read(CHANGELOG)?)?;
    if entry.lines == 0 {
        return Err(Fault::failed(format!("the entry {} of {CHANGELOG} is empty", entry.version)));
    }
    let note = format!("{}, {}: {} lines", entry.version, entry.day, entry.lines);
    let Some(last) = last_release() else { return Ok(note) };
    let range = format!("{last}..HEAD");
    let changed = step::output(Command::new("git").args(["diff", "--name-only", &range]))?;
    let sources = changed.lines().filter(|path| path.starts_with("crates/") && path.contains("/src/")).count();
    if sources > 0 && last == format!("v{}", entry.version) {
        return Err(Fault::failed(format!(
            "{sources} sources have changed since {last}, and {CHANGELOG} has no newer entry"
        )));
    }
    Ok(format!("{note}; {sources} sources have changed since {last}"))
}

/// Checks that the pages of each crate on docs.rs have all its features.
pub(super) fn docs_rs() -> Outcome {
    let workspace = Workspace::read()?;
    let crates = workspace.published();
    let hidden: Vec<_> = crates.iter().filter(|one| !one.shows_all_features()).map(|one| one.name()).collect();
    if !hidden.is_empty() {
        let line = "[package.metadata.docs.rs] all-features = true";
        return Err(Fault::failed(format!("{} without {line}", hidden.join(", "))));
    }
    let shown = crates.iter().filter(|one| !one.features().is_empty());
    let shown: Vec<_> = shown.map(|one| format!("{} ({})", one.name(), one.features().join(", "))).collect();
    Ok(format!("{} crates; all features of {}", crates.len(), shown.join(", ")))
}

/// The newest entry of the changelog.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    version: String,
    /// A day, or `unreleased`.
    day: String,
    /// The number of changes.
    lines: usize,
}

fn newest(changelog: &str) -> Result<Entry, Fault> {
    let section = changelog.split("\n## ").nth(1);
    let section = section.ok_or_else(|| Fault::failed(format!("{CHANGELOG} has no entry")))?;
    let (title, text) = section.split_once('\n').unwrap_or((section, ""));
    let (version, day) = title.split_once(", ").unwrap_or((title, "unreleased"));
    let lines = text.lines().filter(|line| line.starts_with("- ")).count();
    Ok(Entry { version: version.to_owned(), day: day.to_owned(), lines })
}

/// The versions that stand directly after these words.
fn after(text: &str, words: &str) -> Vec<String> {
    let is_part = |c: &char| c.is_ascii_digit() || *c == '.';
    let found = text.split(words).skip(1).map(|rest| rest.chars().take_while(is_part).collect::<String>());
    found.map(|found| found.trim_end_matches('.').to_owned()).filter(|found| !found.is_empty()).collect()
}

/// Whether a version is the whole one, or its beginning.
fn is_short_of(found: &str, version: &str) -> bool {
    version.strip_prefix(found).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn read(path: &str) -> Result<String, Fault> {
    fs::read_to_string(path).map_err(|error| Fault::failed(format!("cannot read {path}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entry_is_found() {
        let entry = |version: &str, day: &str, lines| Entry { version: version.into(), day: day.into(), lines };
        let log =
            "# Changelog\n\nWords.\n\n## 0.2.0, 2026-03-04\n\n### Locks\n- a\n- b\n  c\n\n## 0.1.0, 2026-01-02\n- d\n";
        assert_eq!(newest(log).unwrap(), entry("0.2.0", "2026-03-04", 2));
        assert_eq!(newest("# C\n\n## Unreleased\n\n## 0.1.0\n- d\n").unwrap(), entry("Unreleased", "unreleased", 0));
        assert!(newest("# Changelog\n").is_err());
    }

    #[test]
    fn versions_are_found_in_a_text() {
        assert_eq!(
            after("The version is 0.1 and not. The version is new. The version is 2.", "The version is "),
            ["0.1", "2"]
        );
        assert!(is_short_of("0.1", "0.1.0") && is_short_of("0.1.0", "0.1.0"));
        assert!(["0.1.1", "0.10", "0.1.0.0", "1"].iter().all(|found| !is_short_of(found, "0.1.0")));
    }
}
