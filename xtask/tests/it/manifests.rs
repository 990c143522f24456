//! What a registry asks of a manifest, and what release-check leaves to a test.

use std::fs;

use crate::house::root;

#[test]
fn published_crates_say_what_readers_look_for() {
    for (name, manifest) in published() {
        let fields =
            ["description", "license", "repository", "readme", "keywords", "categories", "rust-version", "include"];
        for field in fields {
            assert!(manifest.lines().any(|line| line.starts_with(field)), "{name} has no {field}");
        }
        for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let text = fs::read_to_string(root().join("crates").join(&name).join(file));
            let ours = fs::read_to_string(root().join(file)).unwrap();
            assert_eq!(text.ok(), Some(ours), "{name} carries no {file}");
        }
    }
}

#[test]
fn our_crates_ask_for_each_other_in_the_version_that_they_have() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = ")).unwrap();
    for (name, _) in published() {
        if name == "bandog-cli" {
            continue; // Nobody imports it.
        }
        let wanted = format!("{name} = {{ path = \"crates/{name}\", version = {version} }}");
        assert!(manifest.lines().any(|line| line == wanted), "the workspace does not say {wanted}");
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
