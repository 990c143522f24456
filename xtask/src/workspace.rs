//! The crates of the workspace, as cargo describes them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fault::Fault;
use crate::step;

/// The output of `cargo metadata`.
#[derive(Debug)]
pub(crate) struct Workspace {
    metadata: Value,
}

/// A crate, by its manifest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crate<'a> {
    manifest: &'a Value,
}

impl Workspace {
    pub(crate) fn read() -> Result<Self, Fault> {
        let text = step::output(&mut step::cargo(&["metadata", "--no-deps", "--locked", "--format-version", "1"]))?;
        let metadata = serde_json::from_str(&text);
        let metadata = metadata.map_err(|error| Fault::failed(format!("cannot read cargo metadata: {error}")))?;
        Ok(Self { metadata })
    }

    /// All crates, sorted by their names.
    pub(crate) fn crates(&self) -> Vec<Crate<'_>> {
        let packages = self.metadata["packages"].as_array().into_iter().flatten();
        let mut crates: Vec<_> = packages.map(|manifest| Crate { manifest }).collect();
        crates.sort_by_key(|one| one.name());
        crates
    }

    /// The crates that are published: those without `publish = false`.
    pub(crate) fn published(&self) -> Vec<Crate<'_>> {
        self.crates().into_iter().filter(|one| one.manifest["publish"].is_null()).collect()
    }

    /// The names of the published crates, as arguments of cargo.
    pub(crate) fn published_args(&self) -> Vec<String> {
        self.published().iter().flat_map(|one| ["--package".to_owned(), one.name().to_owned()]).collect()
    }

    /// The crate of the command.
    pub(crate) fn command(&self) -> Result<Crate<'_>, Fault> {
        let found = self.crates().into_iter().find(|one| one.name() == COMMAND);
        found.ok_or_else(|| Fault::failed(format!("the workspace has no crate {COMMAND}")))
    }

    /// The build directory.
    pub(crate) fn target(&self) -> PathBuf {
        self.text("target_directory").into()
    }

    fn text(&self, key: &str) -> &str {
        self.metadata[key].as_str().unwrap_or_default()
    }
}

/// The crate of the command.
pub(crate) const COMMAND: &str = "bandog-cli";

impl<'a> Crate<'a> {
    pub(crate) fn name(self) -> &'a str {
        self.text("name")
    }

    pub(crate) fn version(self) -> &'a str {
        self.text("version")
    }

    pub(crate) fn rust_version(self) -> &'a str {
        self.text("rust_version")
    }

    /// The features, without `default`.
    pub(crate) fn features(self) -> Vec<&'a str> {
        let features = self.manifest["features"].as_object().into_iter().flatten();
        features.map(|(name, _)| name.as_str()).filter(|name| *name != "default").collect()
    }

    /// Whether the pages on docs.rs have all features.
    pub(crate) fn shows_all_features(self) -> bool {
        self.features().is_empty() || self.manifest["metadata"]["docs"]["rs"]["all-features"] == true
    }

    /// Name and required version of each dependency on a crate of the workspace. A dependency for tests only may have no
    /// version.
    pub(crate) fn own_dependencies(self) -> Vec<(&'a str, &'a str)> {
        let all = self.manifest["dependencies"].as_array().into_iter().flatten();
        let own = all.filter(|one| one["path"].is_string() && one["kind"] != "dev");
        own.map(|one| (one["name"].as_str().unwrap_or_default(), one["req"].as_str().unwrap_or_default())).collect()
    }

    /// The folder of the crate, relative to the root.
    pub(crate) fn folder(self) -> Result<PathBuf, Fault> {
        let manifest = Path::new(self.text("manifest_path"));
        let here = std::env::current_dir().and_then(|here| here.canonicalize());
        let here = here.map_err(|error| Fault::failed(format!("cannot find the root: {error}")))?;
        let folder = manifest.parent().and_then(|folder| folder.strip_prefix(&here).ok());
        let outside = || Fault::failed(format!("{} is not below {}", manifest.display(), here.display()));
        folder.map(Path::to_owned).ok_or_else(outside)
    }

    /// The crates of the workspace that the library imports.
    pub(crate) fn imports(self) -> Vec<&'a str> {
        self.own_dependencies().into_iter().map(|(name, _)| name).collect()
    }

    /// Name and main file of each target below `tests` that a run of all tests has.
    pub(crate) fn test_targets(self) -> Vec<(&'a str, PathBuf)> {
        let tests = self.targets().filter(|target| target["kind"][0] == "test" && target["test"] == true);
        let text = |target: &'a Value, key: &str| target[key].as_str().unwrap_or_default();
        tests.map(|target| (text(target, "name"), text(target, "src_path").into())).collect()
    }

    /// Whether a library, a program or an example has tests of its own.
    pub(crate) fn has_unit_tests(self) -> bool {
        self.targets().any(|target| target["kind"][0] != "test" && target["test"] == true)
    }

    /// Whether `cargo test --doc` has tests of this crate.
    pub(crate) fn has_doctests(self) -> bool {
        self.targets().any(|target| target["doctest"] == true)
    }

    fn targets(self) -> impl Iterator<Item = &'a Value> {
        self.manifest["targets"].as_array().into_iter().flatten()
    }

    fn text(self, key: &str) -> &'a str {
        self.manifest[key].as_str().unwrap_or_default()
    }
}
