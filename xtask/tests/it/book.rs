//! Checks the book: each page is a chapter, and each Chinese page has the parts of its English one.

use std::{collections::BTreeSet, fs};

use crate::house::root;

/// The chapters that are generated.
const GENERATED: [&str; 4] = ["help.md", "exit-codes.md", "url-options.md", "metrics.md"];

#[test]
fn each_page_is_a_chapter() {
    for (language, folder) in [("en", "docs"), ("zh", "book/zh/src")] {
        let summary = fs::read_to_string(root().join("book").join(language).join("SUMMARY.md")).unwrap();
        let chapters: Vec<_> = summary.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
        let named: BTreeSet<_> =
            chapters.iter().filter(|name| !GENERATED.contains(name)).map(|name| (*name).to_owned()).collect();
        assert_eq!(named, pages(folder), "the chapters of the book {language:?} (left), and the pages of {folder}");
        let mut seen = BTreeSet::new();
        assert!(chapters.iter().all(|name| seen.insert(name)), "the book {language:?} has a chapter twice");
    }
}

#[test]
fn each_chinese_page_has_the_parts_of_the_english_one() {
    let mut other = Vec::new();
    let translated = pages("book/zh/src").intersection(&pages("docs")).cloned().collect::<Vec<_>>();
    let translated = translated.iter().map(|name| (format!("docs/{name}"), format!("book/zh/src/{name}")));
    for (name, chinese) in translated.chain([("README.md".to_owned(), "README.zh-CN.md".to_owned())]) {
        let [english, chinese] = [&name, &chinese].map(|page| parts(&fs::read_to_string(root().join(page)).unwrap()));
        let differs = english.iter().zip(&chinese).position(|(one, two)| one != two);
        let at = differs.or_else(|| (english.len() != chinese.len()).then(|| english.len().min(chinese.len())));
        other.extend(at.map(|at| format!("{name}: {:?} is {:?}", english.get(at), chinese.get(at))));
    }
    assert!(other.is_empty(), "translate what has changed in docs: {other:#?}");
}

#[test]
fn parts_of_pages_are_found() {
    let page = "# T\n\n## A b {#x}\n| a |\n|---|\n- l\n```rust\nlet a = 1; // one\n// two\n```\n";
    assert_eq!(parts(page), ["#", "##", "|", "|", "```rust", "let a = 1;", "```"]);
}

/// What a translation keeps: the levels of the headings, the rows of tables, and the code without its comments.
fn parts(page: &str) -> Vec<String> {
    let (mut parts, mut in_code) = (Vec::new(), false);
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if is_fence {
            parts.push(line.trim().to_owned());
        } else if in_code {
            let code = code(line);
            parts.extend((!code.is_empty()).then(|| code.to_owned()));
        } else if line.starts_with('|') {
            parts.push("|".to_owned());
        } else if line.starts_with('#') {
            parts.push(line.split(' ').next().unwrap().to_owned());
        }
    }
    parts
}

/// A line of code without its comment.
fn code(line: &str) -> &str {
    let starts = ["//", "///", "#", "--"].iter().filter_map(|mark| {
        let begins = line.trim_start().strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        if begins { Some(0) } else { line.find(&format!(" {mark} ")) }
    });
    line[..starts.min().unwrap_or(line.len())].trim()
}

fn pages(folder: &str) -> BTreeSet<String> {
    let names =
        fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".md")).collect()
}
