//! The file of the counter of the contended tests.

use std::{fs, path::PathBuf};

use bandog_interop::counter::Counter;
use tempfile::TempDir;

/// A counter that is deleted when this value is dropped.
pub(crate) struct CounterFile {
    pub(crate) path: PathBuf,
    _dir: TempDir,
}

impl CounterFile {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("counter");
        fs::write(&path, [0; 16]).expect("a file");
        Self { path, _dir: dir }
    }

    /// The path as a word of a command.
    pub(crate) fn path(&self) -> &str {
        self.path.to_str().expect("a path in UTF-8")
    }

    /// Number of additions.
    pub(crate) fn count(&self) -> u64 {
        let counter = Counter::open(&self.path).expect("the counter's file");
        counter.read().expect("read the counter").0
    }
}
