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
    /// Options for the database at this path. If the database is missing, it is created at its first use, with access
    /// for its owner only (0600). Missing directories above it are created as well (0700). A relative path is relative
    /// to the working directory at the call of [`crate::Sqlite::new`].
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), timeout: Duration::from_secs(3), may_create: true }
    }

    /// Sets the timeout of a request. It must be at least 10 ms; the default is 3 s. After the timeout, the request
    /// fails with `ErrorKind::Unavailable`.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Forbids creating the database. While the database does not exist, every call fails with
    /// `ErrorKind::Unavailable`, and nothing is written to the disk. Without this option, a claim or a ping creates the
    /// database, but queries (`list`, `show`) do not.
    #[must_use]
    pub fn must_exist(mut self) -> Self {
        self.may_create = false;
        self
    }

    /// Checks the system, the timeout and the form of the path, without I/O.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the path is not the path of a file, or the timeout is less than 10 ms.
    /// - `ErrorKind::Unsupported`: the system is not Linux.
    pub fn check(&self) -> Result<()> {
        check_system(std::env::consts::OS)?;
        if self.timeout < Duration::from_millis(10) {
            return Err(Error::misused(format!("the timeout is {:?}; it must be at least 10 ms", self.timeout)));
        }
        if self.path.file_name().is_none() || self.path == Path::new(":memory:") {
            return Err(Error::misused(format!("{:?} is not the path of a file for the database", self.path)));
        }
        Ok(())
    }

    /// The same options with an absolute path. Fails if the options are not valid.
    pub(crate) fn checked(mut self) -> Result<Self> {
        self.check()?;
        self.path = std::path::absolute(&self.path)
            .map_err(|cause| Error::misused(format!("{:?} cannot be used as a path", self.path)).caused_by(cause))?;
        Ok(self)
    }

    /// The path of the database followed by this ending. It is the path of a file beside the database.
    pub(crate) fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        name.into()
    }
}

/// Refuses systems other than Linux. Leases need a clock that all processes share, that no program can set, and that
/// has an id for each boot. Only Linux has such a clock.
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
