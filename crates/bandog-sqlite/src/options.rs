//! The options of a handle.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bandog_core::{Error, ErrorKind, Result};

/// The path of the database, the timeout of a request, and whether the database may be created.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub(crate) path: PathBuf,
    pub(crate) timeout: Duration,
    pub(crate) may_create: bool,
}

impl SqliteOptions {
    /// The database at this path. It is created at its first use, for its owner only (0600), and so are missing
    /// directories above it (0700). A relative path is relative to the working directory at the call of
    /// [`crate::Sqlite::new`].
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), timeout: Duration::from_secs(3), may_create: true }
    }

    /// Timeout of a request, after which it fails with `Unavailable`. The default is 3 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Never creates the database: while it does not exist, every call fails with `Unavailable`, and nothing is written
    /// to the disk. Without this option, queries (`list`, `show`) do not create it either, but a claim or a ping does.
    #[must_use]
    pub fn must_exist(mut self) -> Self {
        self.may_create = false;
        self
    }

    /// The same options with an absolute path, or an error if they cannot work.
    pub(crate) fn checked(mut self) -> Result<Self> {
        check_system(std::env::consts::OS)?;
        if self.timeout < Duration::from_millis(10) {
            return Err(Error::misused(format!("the timeout is {:?}; it takes at least 10 ms", self.timeout)));
        }
        if self.path.file_name().is_none() || self.path == Path::new(":memory:") {
            return Err(Error::misused(format!("{:?} names no file for the database", self.path)));
        }
        self.path = std::path::absolute(&self.path)
            .map_err(|cause| Error::misused(format!("{:?} is no usable path", self.path)).caused_by(cause))?;
        Ok(self)
    }

    /// The path of the database followed by this ending.
    pub(crate) fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        name.into()
    }
}

/// Leases need a clock that all processes share and that cannot be set. Only Linux has one with an id for each boot.
pub(crate) fn check_system(system: &str) -> Result<()> {
    if system == "linux" {
        return Ok(());
    }
    let message = format!(
        "SQLite as a store needs Linux, and this system is {system}: here the processes have no common clock that \
         cannot be set, so a lease could expire early and a lock could have two holders. Use a server \
         (redis://HOST), or memory: for the locks of one process"
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}
