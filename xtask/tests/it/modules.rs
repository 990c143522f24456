//! Compares the floors of ARCHITECTURE.md with the manifests, and checks that each module says what it is.

use std::{collections::BTreeSet, fs};

use crate::house::{files, root, table};

/// Crates of the picture that are not in the folder `crates`.
const ELSEWHERE: [&str; 2] = ["proof/*", "xtask"];

/// The crates that import a crate of their own floor, with that crate. The page lists them.
const SAME_FLOOR: [(&str, &str); 8] = [
    ("bandog-grid", "bandog-sync"),
    ("bandog-macros", "bandog-cron"),
    ("bandog-net", "bandog-core"),
    ("bandog-redis", "bandog-redis-data"),
    ("bandog-redis", "bandog-redis-net"),
    ("bandog-redis-data", "bandog-redis-net"),
    ("bandog-schedule", "bandog-sync"),
    ("bandog-work", "bandog-sync"),
];

#[test]
fn each_crate_has_one_floor() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut shown: Vec<_> = floors(&page, &crates()).into_iter().map(|(name, _)| name).collect();
    shown.sort();
    assert_eq!(shown, crates().into_iter().collect::<Vec<_>>());
}

#[test]
fn crates_import_lower_floors_only() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let floors = floors(&page, &crates());
    let floor = |name: &str| floors.iter().find(|(known, _)| known == name).unwrap().1;
    let mut wrong = Vec::new();
    for (name, own) in floors.iter().filter(|(name, _)| !ELSEWHERE.contains(&name.as_str())) {
        let ours = table(name, "dependencies").into_iter().filter(|name| name.starts_with("bandog"));
        let higher =
            ours.filter(|import| floor(import) >= *own && !SAME_FLOOR.contains(&(name.as_str(), import.as_str())));
        wrong.extend(higher.map(|import| format!("{name} (floor {own}) imports {import}")));
    }
    assert!(wrong.is_empty(), "ARCHITECTURE.md: {wrong:#?}");
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
    let page = "# A\n## Floors\n```\n2  a-b   c      the tools of a\n   d            for tests\n1  a            a: it imports c  d\n```\n## B\n3  c\n";
    let crates = ["a", "a-b", "c", "d"].map(str::to_owned).into();
    let expected = [("a-b", 2), ("c", 2), ("d", 2), ("a", 1)].map(|(name, floor)| (name.to_owned(), floor));
    assert_eq!(floors(page, &crates), expected);
}

/// The names of all crates.
fn crates() -> BTreeSet<String> {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().file_name());
    folders.map(|name| name.into_string().unwrap()).chain(ELSEWHERE.map(str::to_owned)).collect()
}

/// The crates of the picture with their floors. A line without a number belongs to the floor above it. The names come
/// first; two spaces or more separate them from each other and from the text.
fn floors(page: &str, crates: &BTreeSet<String>) -> Vec<(String, u32)> {
    let section = page.split("\n## ").find(|section| section.starts_with("Floors\n")).unwrap();
    let picture = section.split("```").nth(1).unwrap();
    let (mut floors, mut floor) = (Vec::new(), 0);
    for line in picture.lines().filter(|line| !line.is_empty()) {
        let (number, rest) = line.split_at(line.find("  ").unwrap());
        floor = number.parse().unwrap_or(floor);
        let parts = rest.split("  ").map(str::trim).filter(|part| !part.is_empty());
        floors.extend(parts.take_while(|part| crates.contains(*part)).map(|name| (name.to_owned(), floor)));
    }
    floors
}
