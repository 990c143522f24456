//! Compares the floors of ARCHITECTURE.md with the manifests, and checks that each module says what it is.

use std::{collections::BTreeMap, fs};

use crate::house::{crates, files, root, table};

/// The column of the picture where the text about a crate begins.
const TEXT: usize = 23;

#[test]
fn the_picture_has_each_crate_with_its_imports_on_the_lowest_floor() {
    let floors = floors(&fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap());
    assert_eq!(floors.keys().cloned().collect::<Vec<_>>(), crates(), "the crates of ARCHITECTURE.md");
    for (name, (floor, shown)) in &floors {
        let imports: Vec<_> =
            table(name, "dependencies").into_iter().filter(|name| name.starts_with("bandog")).collect();
        assert_eq!(*shown, imports, "ARCHITECTURE.md (left): the crates of bandog that {name} imports");
        let lowest = imports.iter().map(|import| floors[import].0 + 1).max().unwrap_or_default();
        assert_eq!(*floor, lowest, "ARCHITECTURE.md (left): the floor of {name}, above all of its imports");
    }
}

#[test]
fn each_module_says_what_it_is() {
    let mut silent = Vec::new();
    for path in files(&root().join("crates")) {
        let path = path.strip_prefix(root()).unwrap().to_owned();
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        let is_test = parts.iter().any(|part| part == "tests" || part == "tests.rs");
        if parts.get(2).is_some_and(|folder| folder == "src") && !is_test {
            let text = fs::read_to_string(root().join(&path)).unwrap();
            silent.extend((!text.starts_with("//! ")).then_some(path));
        }
    }
    assert!(silent.is_empty(), "these modules do not begin with a line `//! …`: {silent:#?}");
}

#[test]
fn floors_are_read_from_the_picture() {
    let page = "# A\n## Floors\n```\n\
                2  bandog-a            the tools of b; imports b,\n                       bandog, it\n   \
                   bandog-b            for tests\n\
                1  bandog              none; imports c-d\n```\n## B\n";
    let expected = [
        ("bandog-a", 2, vec!["bandog", "bandog-b", "bandog-it"]),
        ("bandog-b", 2, vec![]),
        ("bandog", 1, vec!["bandog-c-d"]),
    ];
    let expected = expected
        .map(|(name, floor, imports)| (name.to_owned(), (floor, imports.into_iter().map(str::to_owned).collect())));
    assert_eq!(floors(page), expected.into());
}

/// The crates of the picture, with their floors and imports. A line without a number belongs to the floor above it, and
/// one without a name continues the line above it.
fn floors(page: &str) -> BTreeMap<String, (u32, Vec<String>)> {
    let section = page.split("\n## ").find(|section| section.starts_with("Floors\n")).unwrap();
    let (mut rows, mut floor) = (Vec::<(&str, u32, String)>::new(), 0);
    for line in section.split("```").nth(1).unwrap().lines().filter(|line| !line.is_empty()) {
        let (left, text) = line.split_at(TEXT);
        let (number, name) = left.split_at(3);
        floor = number.trim().parse().unwrap_or(floor);
        match rows.last_mut() {
            Some((_, _, above)) if name.trim().is_empty() => *above += &format!(" {text}"),
            _ => rows.push((name.trim(), floor, text.to_owned())),
        }
    }
    let full = |name: &str| if name == "bandog" { name.to_owned() } else { format!("bandog-{name}") };
    let imports = |text: &str| {
        let names = text.split_once("; imports ").map_or("", |(_, names)| names).split(", ");
        let mut names: Vec<_> = names.filter(|name| !name.is_empty()).map(full).collect();
        names.sort();
        names
    };
    rows.into_iter().map(|(name, floor, text)| (name.to_owned(), (floor, imports(&text)))).collect()
}
