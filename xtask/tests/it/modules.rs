//! Compares the table of modules in ARCHITECTURE.md with the files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::house::root;

/// Files that the table does not have to name: tests, and files that every crate has.
const PLAIN: &[&str] = &["fuzz", "lib", "main", "mod", "tests"];

#[test]
fn the_table_names_every_module_of_a_crate_and_nothing_else() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = table(&page);
    assert!(table.len() >= 9, "ARCHITECTURE.md has rows for {:?} only", table.keys());
    let mut wrong = Vec::new();
    for (name, words) in table {
        let folder = if name == "bandog" { "crates/bandog".to_owned() } else { format!("crates/bandog-{name}") };
        let (direct, all) = modules(&root().join(&folder));
        wrong.extend(direct.difference(&words).map(|module| format!("no row of {name} names its module {module}")));
        wrong.extend(
            words.difference(&all).map(|word| format!("a row of {name} names {word}, which {folder} does not have")),
        );
    }
    assert!(wrong.is_empty(), "ARCHITECTURE.md: {wrong:#?}");
}

#[test]
fn rows_of_one_crate_are_read_together() {
    let page = "| crate | modules |\n|---|---|\n| a | `b c/` (`d`) |\n| a, `c/` | `e/*.lua` |\n| other | text |\n";
    let table = table(page);
    assert_eq!(table["a"].iter().collect::<Vec<_>>(), ["b", "c", "d", "e"]);
}

/// The crates of the table, with the modules that their rows name.
fn table(page: &str) -> BTreeMap<&str, BTreeSet<String>> {
    let mut table: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let rows = page.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    for row in rows.take_while(|line| line.starts_with("| ")) {
        let name = row.trim_start_matches("| ").split([' ', ',']).next().unwrap();
        let quoted = row.split('`').skip(1).step_by(2);
        let words =
            quoted.flat_map(|words| words.split([' ', '/'])).filter(|word| !word.is_empty() && !word.contains('*'));
        table.entry(name).or_default().extend(words.map(str::to_owned));
    }
    table
}

/// The modules directly under `src`, and the names of all files and folders of a crate.
fn modules(folder: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut all = BTreeSet::new();
    collect(folder, &mut all);
    let mut direct = BTreeSet::new();
    collect_one(&folder.join("src"), &mut direct);
    (direct.into_iter().filter(|name| !PLAIN.contains(&name.as_str())).collect(), all)
}

fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    collect_one(folder, found);
    let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    folders.for_each(|folder| collect(&folder, found));
}

fn collect_one(folder: &Path, found: &mut BTreeSet<String>) {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    found.extend(names.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()));
}
