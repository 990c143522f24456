//! The files of a history: one file of events for each client, and for locks also a log of the writes that each lock
//! protects. Several processes append to the log of one name. The kernel decides the order of the lines in this log.
//!
//! A process first records an event, and only then acts on the event. The line of the event is one `write` to an
//! append-only file. So the line survives `kill -9`, and an event without a line had no consequences. Each line is JSON.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use bandog::backend::Clock;
use serde::{Serialize, de::DeserializeOwned};

/// Nanoseconds of the machine's clock, which all processes of one boot share.
pub(crate) type Nanos = u64;

/// The number of a call. Each client counts its own calls.
pub(crate) type CallId = u64;

/// The time by which the clock of this process is ahead of the machine's clock.
static AHEAD: OnceLock<Nanos> = OnceLock::new();

/// An append-only file of lines.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    /// # Panics
    /// If the file cannot be opened.
    pub(crate) fn open(path: &Path) -> Self {
        let file = OpenOptions::new().append(true).create(true).open(path);
        Self(file.expect("the history's directory can be written to"))
    }

    /// Appends a line. Each line is one `write`, so that lines of several threads and processes never mix.
    ///
    /// # Panics
    /// If the line cannot be written, for example because the disk is full. Without a complete history, nothing can be
    /// checked.
    pub(crate) fn write(&self, line: &impl Serialize) {
        let mut text = serde_json::to_vec(line).expect("an event can be written as JSON");
        text.push(b'\n');
        (&self.0).write_all(&text).expect("the history can be written");
    }
}

/// Parses each line of a file, and passes the values to `take`. The last line can be incomplete if its process was
/// killed. An incomplete line is ignored. A missing file counts as empty.
///
/// # Errors
/// If the file cannot be read, or has another line that cannot be parsed.
pub(crate) fn lines<T: DeserializeOwned>(path: &Path, mut take: impl FnMut(T)) -> io::Result<()> {
    if !fs::exists(path)? {
        return Ok(());
    }
    let mut file = BufReader::new(File::open(path)?);
    let mut line = String::new();
    while file.read_line(&mut line)? > 0 {
        if line.ends_with('\n') {
            let bad = |error| io::Error::other(format!("{}: {error}: {line:?}", path.display()));
            take(serde_json::from_str(&line).map_err(bad)?);
        }
        line.clear();
    }
    Ok(())
}

/// The directory that contains the history's files.
#[derive(Debug, Clone)]
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.0
    }

    /// The events of one client.
    pub(crate) fn client(&self, client: u32) -> PathBuf {
        self.0.join(format!("client-{client}"))
    }

    /// The times of the heartbeats of one process. A heartbeat shows that the process can run and can write.
    pub(crate) fn pulse(&self, process: u32) -> PathBuf {
        self.0.join(format!("pulse-{process}"))
    }

    /// The writes that were made under the lock with this name, in the order in which they were made.
    pub(crate) fn resource(&self, name: usize) -> PathBuf {
        self.0.join(format!("resource-{name}"))
    }

    /// The faults of the run.
    pub(crate) fn faults(&self) -> PathBuf {
        self.0.join("faults")
    }
}

/// A duration in nanoseconds.
pub(crate) fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

/// The time of the machine's clock.
pub(crate) fn now() -> Nanos {
    Clock::system().now().as_nanos().saturating_sub(AHEAD.get().copied().unwrap_or_default())
}

/// This process runs in a time namespace whose clock is ahead of the machine's clock by this number of seconds.
pub(crate) fn set_ahead(seconds: u64) {
    AHEAD.get_or_init(|| seconds * 1_000_000_000);
}
