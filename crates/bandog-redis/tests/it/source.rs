//! Rules for the source files and the manifests. The `redis` crate is the client library that this crate uses.

use std::{fs, path::Path};

#[test]
fn no_public_signature_names_a_type_of_the_redis_crate() {
    let mut files = 0;
    each_source(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut |path, text| {
        files += 1;
        for item in public_items(text) {
            for word in ["redis::", "Value", "RedisError", "ServerError", "Multiplexed", "PushInfo", "Cmd", "Pipeline"]
            {
                assert!(!item.contains(word), "{}: {item}", path.display());
            }
        }
    });
    assert!(files >= 10);
    assert_eq!(public_items("pub(crate) fn a(\n) -> redis::Value {\n pub fn b(\n x: redis::Value,\n) {\n").len(), 1);
}

#[test]
fn the_redis_crate_is_built_with_only_the_features_that_we_use() {
    let workspace = manifest("/../../Cargo.toml");
    let line = workspace.lines().find(|line| line.starts_with("redis = ")).unwrap();
    assert!(line.contains("default-features = false"), "{line}");
    assert!(line.contains("features = [\"tokio-comp\", \"script\"]"), "{line}");
    assert!(manifest("/Cargo.toml").contains("\nredis.workspace = true\n"));
}

#[test]
fn the_minimum_version_of_rust_can_build_the_redis_crate() {
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
