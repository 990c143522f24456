//! Where the database is, and how long a request may take.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bandog_core::{Error, ErrorKind, Result};

/// Where the database is, and how long a request may take.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub(crate) path: PathBuf,
    pub(crate) timeout: Duration,
    pub(crate) may_create: bool,
}

impl SqliteOptions {
    /// The database at this path. It is created when it is first used: for its owner only (0600), as is a missing
    /// directory above it (0700). A relative path is taken from the directory in which the process is when
    /// [`crate::Sqlite::new`] is called.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), timeout: Duration::from_secs(3), may_create: true }
    }

    /// How long one request may take before it ends with `Unavailable`: 3 s, unless said otherwise.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Never creates the database: every call ends with `Unavailable` as long as there is none, and nothing is written
    /// to the disk. Without this a look creates nothing either, but a claim or a ping does.
    #[must_use]
    pub fn must_exist(mut self) -> Self {
        self.may_create = false;
        self
    }

    /// The same, with an absolute path, or why it cannot work.
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

    /// The file beside the database with this ending.
    pub(crate) fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        name.into()
    }
}

/// Leases need a clock that all processes share and that nobody sets, and only Linux has one with a name for each boot.
pub(crate) fn check_system(system: &str) -> Result<()> {
    if system == "linux" {
        return Ok(());
    }
    let message = format!(
        "SQLite as a store needs Linux, and this system is {system}: here the processes have no common clock that nobody \
         sets, so a lease could end early and a lock could have two holders. Use a server (redis://HOST), or memory: for \
         the locks of one process"
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}
