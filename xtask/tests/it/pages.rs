//! Checks every page of Markdown: lines are short, and links lead to existing pages.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::house::root;

/// Maximum length of a line of prose, in characters. Lines of code and generated pages are exempt.
const LONGEST: usize = 400;

/// The folder of the Chinese pages.
const CHINESE: &str = "book/zh/src";

/// Maximum number of lines of README.md.
const README: usize = 150;

#[test]
fn the_readme_is_short() {
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= README, "README.md has {lines} lines; at most {README} are allowed");
}

#[test]
fn the_readme_has_the_figures_of_the_page_of_figures() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let figures = fs::read_to_string(root().join("docs/PERFORMANCE.md")).unwrap();
    let speed = readme.split("\n## ").find(|section| section.starts_with("Speed")).unwrap();
    let rows: Vec<_> = speed.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert_eq!(rows.len(), 5, "README.md does not have five rows of figures");
    let words = rows.iter().flat_map(|row| row.split([' ', '(', ')', ';']));
    let numbers = words.map(|word| word.trim_end_matches(',')).filter(|word| word.contains(['.', ',', '×']));
    let unknown: Vec<_> = numbers.filter(|number| !figures.contains(number.split("/s").next().unwrap())).collect();
    assert!(unknown.is_empty(), "docs/PERFORMANCE.md does not have these figures of README.md: {unknown:?}");
}

#[test]
fn the_recipes_show_the_code_of_the_example() {
    let example = flush(&fs::read_to_string(root().join("crates/bandog/examples/axum_service.rs")).unwrap());
    let recipes = fs::read_to_string(root().join("docs/recipes.md")).unwrap();
    let recipes = recipes.replace("\n### ", "\n## ");
    let sections = ["An axum service\n", "Shutdown and probes on Kubernetes\n", "A singleton task\n", "Jobs\n"];
    let shown = recipes.split("\n## ").filter(|part| sections.iter().any(|title| part.starts_with(title)));
    let blocks: Vec<_> = shown.flat_map(|part| part.split("```rust\n").skip(1)).collect();
    assert_eq!(blocks.len(), 7, "docs/recipes.md does not have seven blocks of code");
    let parts = blocks.iter().flat_map(|block| block.split("```").next().unwrap().split("\n\n"));
    let other: Vec<_> = parts.filter(|part| !example.contains(&flush(part))).collect();
    assert!(other.is_empty(), "docs/recipes.md has other code than crates/bandog/examples/axum_service.rs: {other:#?}");
}

#[test]
fn the_readme_shows_the_code_of_the_example_of_transactions() {
    let example = flush(&fs::read_to_string(root().join("crates/bandog-sqlx/examples/orders.rs")).unwrap());
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let section = readme.split("\n## ").find(|part| part.starts_with("A lock in your own transaction")).unwrap();
    let block = section.split("```").nth(1).unwrap();
    let function = block.split_once("async fn ").unwrap().1;
    assert!(example.contains(&flush(function)), "README.md has other code than crates/bandog-sqlx/examples/orders.rs");
}

#[test]
fn no_line_of_prose_is_long() {
    let mut long = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        let prose = prose(&text).filter(|(_, line)| line.chars().count() > LONGEST);
        long.extend(prose.map(|(at, line)| format!("{}:{}: {}", page.display(), at + 1, line.chars().count())));
    }
    assert!(long.is_empty(), "lines above {LONGEST} characters: {long:#?}");
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let texts: BTreeMap<_, _> =
        pages.iter().map(|page| (page.clone(), fs::read_to_string(root().join(page)).unwrap())).collect();
    let mut dead = Vec::new();
    for (page, text) in &texts {
        for (at, link) in prose(text).flat_map(|(at, line)| links(line).into_iter().map(move |link| (at, link))) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match page.parent().unwrap() {
                _ if path.is_empty() => page.clone(),
                folder => flat(&folder.join(path)),
            };
            let leads = match texts.get(&target) {
                Some(text) => anchor.is_empty() || anchors(text).iter().any(|known| known == anchor),
                None => anchor.is_empty() && root().join(&target).exists(),
            };
            if !leads {
                dead.push(format!("{}:{}: {link}", page.display(), at + 1));
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere: {dead:#?}");
}

/// `proof/bench/runs` has the newest run of each topic only.
#[test]
fn a_page_names_each_raw_run() {
    let texts: String = pages().iter().map(|page| fs::read_to_string(root().join(page)).unwrap()).collect();
    let named = texts.split("`proof/bench/runs/").skip(1).map(|rest| rest.split('`').next().unwrap().to_owned());
    let named: BTreeSet<_> = named.filter(|name| !name.is_empty()).collect();
    let files = fs::read_dir(root().join("proof/bench/runs")).unwrap();
    let files: BTreeSet<_> = files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, named, "the files of proof/bench/runs (left), and those that the pages name (right)");
}

#[test]
fn links_and_anchors_are_found() {
    assert_eq!(
        links("[a](b.md#c), ![d](e.png), [f](https://g), `[h](i)` <img src=\"j.png\">"),
        ["b.md#c", "e.png", "j.png"]
    );
    assert_eq!(anchors("# A `b`, c: D-e\n## A\n```sh\n# no\n```\n## A\n"), ["a-b-c-d-e", "a", "a-1"]);
    assert_eq!(anchors("## 甲 {#a-b}\n"), ["a-b"]);
    assert_eq!(flat(Path::new("docs/../crates/./a")), Path::new("crates/a"));
}

/// The paths of all pages, relative to the root of the project.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let inner = ["crates", "examples"].into_iter().flat_map(|folder| {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap());
        let folders = entries.filter(|entry| entry.path().is_dir());
        folders.map(move |entry| Path::new(folder).join(entry.file_name()))
    });
    for folder in [PathBuf::new(), "docs".into(), "examples".into(), CHINESE.into()].into_iter().chain(inner) {
        let files = fs::read_dir(root().join(&folder)).unwrap().map(|entry| folder.join(entry.unwrap().file_name()));
        pages.extend(files.filter(|file| file.extension().is_some_and(|kind| kind == "md")));
    }
    assert!(pages.len() > 15, "only {} pages", pages.len());
    pages.sort();
    pages
}

/// The text without the indentation of its lines.
fn flush(text: &str) -> String {
    text.lines().map(str::trim_start).collect::<Vec<_>>().join("\n")
}

/// The lines outside of blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The targets of links and pictures that are files of the project.
fn links(line: &str) -> Vec<&str> {
    let plain = line.split('`').step_by(2);
    let targets = plain.flat_map(|part| {
        let links = part.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let pictures = part.split("src=\"").skip(1).chain(part.split("srcset=\"").skip(1));
        links.chain(pictures.filter_map(|rest| rest.split('"').next()))
    });
    targets.filter(|target| !target.contains("://")).collect()
}

/// The anchors that GitHub gives to the headings of a page.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        if let Some((_, id)) = title.split_once(" {#") {
            anchors.push(id.trim_end_matches('}').to_owned());
            continue;
        }
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect();
        let same = |known: &&String| {
            known.as_str() == anchor
                || known.strip_prefix(&format!("{anchor}-")).is_some_and(|n| n.parse::<u32>().is_ok())
        };
        match anchors.iter().filter(same).count() {
            0 => anchors.push(anchor),
            times => anchors.push(format!("{anchor}-{times}")),
        }
    }
    anchors
}

/// The path without `.` and `..`.
fn flat(path: &Path) -> PathBuf {
    let mut flat = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(flat.pop()),
            std::path::Component::CurDir => {}
            part => flat.push(part),
        }
    }
    flat
}
