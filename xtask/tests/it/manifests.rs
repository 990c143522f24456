//! The fields of manifests that a registry requires, and the versions of our crates.

use std::fs;

use crate::house::root;

#[test]
fn published_crates_have_all_fields_and_licences() {
    for (name, manifest) in published() {
        let fields =
            ["description", "license", "repository", "readme", "keywords", "categories", "rust-version", "include"];
        for field in fields {
            assert!(manifest.lines().any(|line| line.starts_with(field)), "{name} has no {field}");
        }
        for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let text = fs::read_to_string(root().join("crates").join(&name).join(file));
            let ours = fs::read_to_string(root().join(file)).unwrap();
            assert_eq!(text.ok(), Some(ours), "{name} has no copy of {file}");
        }
    }
}

#[test]
fn our_crates_require_each_other_in_the_present_version() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = ")).unwrap();
    for (name, _) in published() {
        if name == "bandog-cli" {
            continue; // No crate imports the command.
        }
        let wanted = format!("{name} = {{ path = \"crates/{name}\", version = {version} }}");
        assert!(manifest.lines().any(|line| line == wanted), "Cargo.toml has no line {wanted}");
    }
}

#[test]
fn each_example_has_a_page_and_a_test() {
    let table = fs::read_to_string(root().join("examples/README.md")).unwrap();
    let entries = fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap());
    let folders: Vec<_> = entries.filter(|entry| entry.path().is_dir()).collect();
    assert!(folders.len() >= 7);
    for folder in folders {
        let (name, folder) = (folder.file_name().into_string().unwrap(), folder.path());
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for line in ["publish = false", "[lints]"] {
            assert!(manifest.lines().any(|other| other == line), "examples/{name}/Cargo.toml has no line {line}");
        }
        assert!(folder.join("README.md").is_file(), "examples/{name} has no README.md");
        assert!(folder.join("tests/it.rs").is_file(), "examples/{name} has no tests/it.rs");
        assert!(table.contains(&format!("]({name}/README.md)")), "examples/README.md has no row for {name}");
    }
}

/// Name and manifest of each crate that is published.
fn published() -> Vec<(String, String)> {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap());
    let manifests = crates.map(|entry| {
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).unwrap();
        (entry.file_name().into_string().unwrap(), manifest)
    });
    let published: Vec<_> = manifests.filter(|(_, text)| !text.lines().any(|line| line == "publish = false")).collect();
    assert!(published.len() >= 6);
    published
}
