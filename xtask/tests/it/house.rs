//! Reads the sources and manifests of the project.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The names of the crates in the folder `crates`.
pub(crate) fn crates() -> Vec<String> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let mut names: Vec<_> = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A source file without its comments and its test modules.
pub(crate) struct Source {
    /// The path, relative to the root.
    pub(crate) path: String,
    pub(crate) code: String,
}

/// Every Rust source under `crates/*/src` of these crates.
pub(crate) fn sources(crates: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    for name in crates {
        collect(&root().join("crates").join(name).join("src"), &mut found);
    }
    assert!(!found.is_empty(), "no sources of {crates:?}");
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs")
            && path.file_stem().is_none_or(|name| name != "tests")
        {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let path = path.strip_prefix(root()).unwrap().display().to_string();
            found.push(Source { path, code: code.collect::<Vec<_>>().join("\n") });
        }
    }
}

/// Every Rust file of a folder and of the folders in it.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let each = entries.map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    each.flatten().filter(|path| path.extension().is_some_and(|kind| kind == "rs")).collect()
}

/// The paths of the sources that contain any of these words.
pub(crate) fn containing(sources: &[Source], words: &[&str]) -> Vec<String> {
    let says = |source: &&Source| words.iter().any(|word| source.code.contains(word));
    let mut paths: Vec<_> = sources.iter().filter(says).map(|source| source.path.clone()).collect();
    paths.sort();
    paths
}

/// The names in one table of a crate's manifest.
pub(crate) fn table(name: &str, table: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
    let lines = manifest.lines().skip_while(|line| *line != format!("[{table}]")).skip(1);
    let entries = lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    let mut names: Vec<_> = entries
        .filter_map(|line| Some(line.split(['.', '=', ' ']).next()?.to_owned()))
        .filter(|n| !n.is_empty())
        .collect();
    names.sort();
    names
}
