//! A wall clock of servers that tests set.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tempfile::TempDir;

/// The wall clock of the Redis, PostgreSQL and MariaDB servers that this process starts while this exists. If it is dropped, they
/// keep the time that they have, and cannot be started again.
///
/// The machine's own clock does not change, and neither do monotonic clocks. The servers load a small library before the C
/// library, which the compiler `cc` makes.
#[derive(Debug)]
pub struct ServerClock {
    library: PathBuf,
    path: PathBuf,
    /// The file, and the nanoseconds in it.
    difference: Mutex<(File, i64)>,
    _dir: TempDir,
}

const SOURCE: &str = include_str!("clock/wall.c");
/// The name by which the library finds its file.
const FILE: &str = "BANDOG_TEST_CLOCK";

static CLOCK: Mutex<Weak<ServerClock>> = Mutex::new(Weak::new());

impl ServerClock {
    /// The clock of servers that this process starts from now on.
    ///
    /// # Errors
    /// The library cannot be made, for example because there is no compiler.
    pub fn of_new_servers() -> io::Result<Arc<Self>> {
        let mut present = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clock) = present.upgrade() {
            return Ok(clock);
        }
        let clock = Arc::new(Self::make()?);
        *present = Arc::downgrade(&clock);
        Ok(clock)
    }

    fn make() -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("bandog-clock-").tempdir()?;
        let [source, library, path] = ["wall.c", "wall.so", "difference"].map(|name| dir.path().join(name));
        fs::write(&source, SOURCE)?;
        let output = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        fs::write(&path, 0_i64.to_ne_bytes())?;
        // Servers may run as another user.
        for path in [dir.path(), &library, &path] {
            fs::set_permissions(path, Permissions::from_mode(0o755))?;
        }
        let file = File::options().write(true).open(&path)?;
        Ok(Self { library, path, difference: Mutex::new((file, 0)), _dir: dir })
    }

    /// Sets the clock back.
    ///
    /// # Errors
    /// The difference cannot be written.
    pub fn set_back(&self, by: Duration) -> io::Result<()> {
        let mut difference = self.difference.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, nanos) = &mut *difference;
        *nanos = nanos.saturating_sub(i64::try_from(by.as_nanos()).unwrap_or(i64::MAX));
        file.write_all_at(&nanos.to_ne_bytes(), 0)
    }
}

/// Gives the clock to a server, if there is one.
pub(crate) fn set_for(command: &mut Command) {
    if let Some(clock) = CLOCK.lock().unwrap_or_else(PoisonError::into_inner).upgrade() {
        command.env("LD_PRELOAD", &clock.library).env(FILE, &clock.path);
    }
}
