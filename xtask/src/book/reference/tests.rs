//! Tests of the generated chapters.

use super::*;

/// The tests of a package run in its directory, and the paths begin at the root.
fn read_source(path: &str) -> String {
    fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn each_exit_code_has_a_description() {
    let source = read_source(CODES);
    let codes = documented_codes(&source);
    let numbers = numbers(&source);
    assert!(
        ["0", "64", "69", "70", "71", "75", "76", "77"].iter().all(|number| numbers.contains(number)),
        "{numbers:?}"
    );
    for number in numbers {
        assert!(codes.iter().any(|(code, _)| code.split(' ').next() == Some(number)), "{number} in {codes:?}");
    }
    assert!(
        codes.iter().any(|(code, meaning)| code == "64 (`EX_USAGE`)" && meaning.starts_with("a wrong command line"))
    );
    assert!(codes.iter().any(|(code, _)| code == "128 + N") && codes.iter().any(|(code, _)| code == "CMD's"));
}

#[test]
fn each_option_is_described_by_a_page() {
    let (source, databases) = (read_source(OPTIONS), read_source(OF_DATABASES));
    let arms = part(&source, "fn of_backend", "\n}", OPTIONS).unwrap();
    let mut schemes = Vec::new();
    for store in STORES {
        let mut page = read_source(&format!("docs/{}", store.page));
        assert!(!tables(&page, store.section, store.page).is_empty(), "{}: no table of options", store.page);
        page.extend(store.also.map(|page| read_source(&format!("docs/{page}"))));
        for scheme in store.schemes {
            schemes.push(format!("\"{scheme}\" =>"));
            let names = [of_backend(arms, scheme), of_database(&databases, store.client).unwrap()].concat();
            assert!(!names.is_empty() || *scheme == "sqlite", "{scheme} has no options");
            let missing: Vec<_> = names.iter().filter(|name| !describes(&page, name)).collect();
            assert!(missing.is_empty(), "{}: {missing:?} of {scheme}", store.page);
        }
    }
    let known =
        arms.lines().filter_map(|line| Some(line.trim().split_once("=>")?.0)).filter(|arm| arm.starts_with('"'));
    let other: Vec<_> = known.filter(|arm| !schemes.contains(&format!("{arm}=>"))).collect();
    assert!(other.is_empty(), "no store has the schemes {other:?}");
}

#[test]
fn options_are_found_in_sources() {
    let arms = "match word {\n \"a\" => &[\"x\", \"y\"],\n \"a+b\" => &[\n \"z\",\n ],\n _ => &[],\n";
    assert_eq!(of_backend(arms, "a"), ["x", "y"]);
    assert_eq!(of_backend(arms, "a+b"), ["z"]);
    assert!(of_backend(arms, "b").is_empty());
    let arms = "Scheme::Redis => &[\"p\"],\nScheme::MySql | Scheme::Sqlite => &[],\n";
    assert_eq!(of_client(arms, "Redis"), ["p"]);
    assert!(of_client(arms, "Sqlite").is_empty());
    let source = "const OWN: &[&str] = &[\"host\", \"tables\", \"socket\"];\nfn need() {\nmatch (dialect, option) {\n\
                  (Dialect::Postgres, \"socket\") => Need::OtherServer(\"MySQL\"),\n\
                  (Dialect::MySql, \"host\" | \"port\") => Need::OtherServer(\"PostgreSQL\"),\n}\n}\n";
    assert_eq!(of_database(source, "Postgres").unwrap(), ["host", "tables"]);
    assert_eq!(of_database(source, "MySql").unwrap(), ["tables", "socket"]);
    assert!(of_database(source, "Redis").unwrap().is_empty());
}

#[test]
fn tables_are_found_in_a_section() {
    let page =
        "# T\n\n| a |\n|---|\n\n## URL\n\nWords.\n\n| b |\n|---|\n| [c](#d) |\n\n| e |\n|---|\n\n## F\n\n| g |\n";
    assert_eq!(tables(page, "", "p.md"), ["| a |\n|---|"]);
    assert_eq!(tables(page, "URL", "p.md"), ["| b |\n|---|\n| [c](p.md#d) |", "| e |\n|---|"]);
    assert!(tables(page, "X", "p.md").is_empty());
    assert!(one_of(tables(page, "URL", "p.md"), "p").is_err() && one_of(tables(page, "F", "p.md"), "p").is_ok());
}
