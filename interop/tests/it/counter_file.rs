//! The counter of the contended tests.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// Two big-endian numbers in a file: the count, and the fence of the last addition. The fence is 0 if the last addition
/// had none.
pub(crate) struct Counter {
    pub(crate) path: PathBuf,
    _dir: TempDir,
}

impl Counter {
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

    pub(crate) fn read(&self) -> (u64, u64) {
        Open::at(&self.path).read()
    }
}

pub(crate) struct Open(File);

impl Open {
    pub(crate) fn at(path: &Path) -> Self {
        Self(File::options().read(true).write(true).open(path).expect("the counter's file"))
    }

    fn read(&self) -> (u64, u64) {
        let mut halves = [[0; 8]; 2];
        self.0.read_exact_at(halves.as_flattened_mut(), 0).expect("read the counter");
        let [count, last] = halves.map(u64::from_be_bytes);
        (count, last)
    }

    pub(crate) fn add(&self, fence: u64) {
        let (count, last) = self.read();
        assert!(fence == 0 || fence > last, "fence {fence} came after {last}");
        let halves = [count + 1, fence].map(u64::to_be_bytes);
        self.0.write_all_at(halves.as_flattened(), 0).expect("write the counter");
    }
}
