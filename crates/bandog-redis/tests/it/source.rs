//! Rules for the sources and the manifests.

use std::{fs, path::Path};

#[test]
fn no_public_signature_names_a_type_of_the_client_crate() {
    let mut looked_at = 0;
    each_source(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut |path, text| {
        looked_at += 1;
        for item in public_items(text) {
            for word in ["redis::", "Value", "RedisError", "ServerError", "Multiplexed", "PushInfo", "Cmd", "Pipeline"]
            {
                assert!(!item.contains(word), "{}: {item}", path.display());
            }
        }
    });
    assert!(looked_at >= 10);
    assert_eq!(public_items("pub(crate) fn a(\n) -> redis::Value {\n pub fn b(\n x: redis::Value,\n) {\n").len(), 1);
}

#[test]
fn the_client_crate_is_built_with_what_we_use_and_no_more() {
    let workspace = manifest("/../../Cargo.toml");
    let line = workspace.lines().find(|line| line.starts_with("redis = ")).unwrap();
    assert!(line.contains("default-features = false"), "{line}");
    assert!(line.contains("features = [\"tokio-comp\", \"script\"]"), "{line}");
    assert!(manifest("/Cargo.toml").contains("\nredis.workspace = true\n"));
}

#[test]
fn the_oldest_rust_is_one_that_the_client_crate_builds_with() {
    let workspace = manifest("/../../Cargo.toml");
    let version = workspace.lines().find_map(|line| line.strip_prefix("rust-version = \"1.")).unwrap();
    let minor: u32 = version.trim_end_matches('"').parse().unwrap();
    assert!(minor >= 88, "1.{minor}");
}

/// Every public item without its body, on one line.
fn public_items(text: &str) -> Vec<String> {
    let starts = text.match_indices("pub ").map(|(at, _)| &text[at..]);
    let ends = |item: &str| item.find(['{', ';']).unwrap_or(item.len());
    starts.map(|item| item[..ends(item)].replace('\n', " ")).collect()
}

fn each_source(dir: &Path, check: &mut dyn FnMut(&Path, &str)) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_source(&path, check);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            check(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}

fn manifest(path: &str) -> String {
    fs::read_to_string(format!("{}{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}
