//! The promises of docs/GUARANTEES.md and of the pages of the stores, and the tests that check each promise.
//!
//! The pages number their promises, and a comment above a test has the numbers of those that it checks. This task compares
//! both, and writes a list of them to target/guarantees-tests.md.

mod sources;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;

use crate::fault::Fault;

use sources::{MARK, Test};

const PAGE: &str = "docs/GUARANTEES.md";
/// Pages with promises in their section "Promises".
const OTHERS: &[&str] = &[
    "docs/grid.md",
    "docs/caching.md",
    "docs/work.md",
    "docs/redis.md",
    "docs/redis-quorum.md",
    "docs/redisson.md",
    "docs/postgres.md",
    "docs/mysql.md",
    "docs/sqlite.md",
    "docs/zookeeper.md",
    "docs/page.md",
];
const LIST: &str = "target/guarantees-tests.md";

/// Pages that name tests in their text.
const NAMING: &[&str] = &["docs/redisson.md"];

/// Checks that each promise has tests, and that each comment above a test is right. Then writes the list, unless `check` is
/// set.
pub(crate) fn run(check: bool) -> Result<(), Fault> {
    let mut pages = Vec::new();
    for path in [PAGE].iter().chain(OTHERS) {
        pages.push((*path, read(path)?));
    }
    let (promises, mut problems) = promises(&pages);
    let (tests, wrong) = sources::tests()?;
    problems.extend(wrong);
    problems.extend(missing(&promises, &tests));
    for page in NAMING {
        let text = read(page)?;
        let names = sources::names(&text);
        if names.len() <= 10 {
            problems.push(format!("{page} names only {} tests; did its notation change?", names.len()));
        }
        let absent = names.iter().filter(|name| !tests.iter().any(|test| test.name == **name));
        problems.extend(absent.map(|name| format!("{page} names a test that does not exist: {name}")));
    }
    if !problems.is_empty() {
        return Err(Fault::failed(problems.join("\n")));
    }
    if check {
        return Ok(());
    }
    let cannot = |error: std::io::Error| Fault::failed(format!("cannot write {LIST}: {error}"));
    fs::create_dir_all("target").map_err(cannot)?;
    fs::write(LIST, render(&promises, &tests)).map_err(cannot)?;
    println!("{LIST}");
    Ok(())
}

/// One line of a table.
#[derive(Debug, PartialEq, Eq)]
struct Promise<'a> {
    section: &'a str,
    number: &'a str,
    text: &'a str,
    /// The file and the line.
    place: String,
}

/// Returns the promises of these pages with their paths, and a list of problems. A problem is a row without a number, or
/// a row whose number was used before.
///
/// Only tables whose first header cell is empty are lists of promises, and outside of [`PAGE`] only those of the section
/// "Promises". The title of such a page is the section of its promises.
fn promises<'a>(pages: &'a [(&str, String)]) -> (Vec<Promise<'a>>, Vec<String>) {
    let (mut promises, mut problems) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for (path, page) in pages {
        let title = page.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
        let (mut section, mut numbered) = ("", false);
        let mut lines = page.lines().zip(1..).peekable();
        while let Some((line, at)) = lines.next() {
            if let Some(title) = line.strip_prefix("## ") {
                section = title;
            }
            let Some(row) = line.strip_prefix("| ") else { continue };
            if lines.peek().is_some_and(|(next, _)| next.starts_with("|---")) {
                numbered = row.starts_with("| ") && (*path == PAGE || section == "Promises");
                continue;
            }
            if !numbered {
                continue;
            }
            let mut cells = row.trim_end_matches(" |").split(" | ");
            let place = format!("{path}:{at}");
            let (number, text) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
            if !is_number(number) {
                problems.push(format!("{place}: no number: | {row}"));
            } else if !seen.insert(number) {
                problems.push(format!("{place}: the number {number} is used twice"));
            } else {
                let section = if *path == PAGE { section } else { title };
                promises.push(Promise { section, number, text, place });
            }
        }
    }
    (promises, problems)
}

/// Whether a text is a promise's number: capital letters, then digits, such as `L1` or `RD18`.
fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_uppercase());
    let letters = text.len() - digits.len();
    letters > 0 && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Promises without a test, and numbers above tests that are on no page.
fn missing(promises: &[Promise<'_>], tests: &[Test]) -> Vec<String> {
    let mentions = || tests.iter().flat_map(|test| &test.promises);
    let bare = promises.iter().filter(|promise| !mentions().any(|mention| mention.number == promise.number));
    let bare = bare.map(|Promise { place, number, text, .. }| {
        format!("{place}: no test has {number}: write `{MARK}{number}` directly above the attributes of one that checks: {text}")
    });
    let stray = mentions().filter(|mention| !promises.iter().any(|promise| promise.number == mention.number));
    let stray =
        stray.map(|mention| format!("{}: {} is on no page: correct or delete it", mention.place, mention.number));
    bare.chain(stray).collect()
}

fn render(promises: &[Promise<'_>], tests: &[Test]) -> String {
    let mut page = HEAD.to_owned();
    let mut section = "";
    for promise in promises {
        if promise.section != section {
            section = promise.section;
            page += &format!("\n## {section}\n");
        }
        page += &format!("\n### {}\n\n{}\n\n", promise.number, promise.text);
        let tests = tests.iter().filter(|test| test.promises.iter().any(|mention| mention.number == promise.number));
        page.extend(tests.map(|test| format!("- [`{}`](../{})\n", test.name, test.path)));
    }
    page
}

fn read(path: &str) -> Result<String, Fault> {
    fs::read_to_string(path).map_err(|error| Fault::failed(format!("cannot read {path}: {error}")))
}

const HEAD: &str = "\
# The tests behind each promise

Written by `cargo xtask promises` from [GUARANTEES.md](../docs/GUARANTEES.md), the pages of the stores and the comments `// Promise: …` above the tests; do not edit.

A name is an area, a file and a function.
`law/…` is a law in `crates/bandog-conformance/src/laws`, which runs on every backend; a law that a backend cannot have is printed with the reason.
The other areas are the crates (`sync/…` is `bandog-sync`), `interop` for the tests with Java, and `storm`.
";
