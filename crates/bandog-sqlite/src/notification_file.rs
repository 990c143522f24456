//! The notification file (`-bell`). A process writes to the file in two cases: after a commit that frees a lock with
//! waiters, and after a commit of a swap that notifies the subscribers of its record.
//!
//! The file is one page of slots. The hash of a topic selects its slot. Most topics are keys of locks and of records,
//! which share the slots. A notification writes a new number into the slot of its topic. Then the kernel wakes every
//! process that watches the file. But only a process that has a subscriber for a topic of a changed slot queries the
//! database. The file never grows.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use crate::{disk, subscribers::Topic};

/// Number of slots in the file.
const SLOTS: usize = 512;
/// Size of a slot in bytes.
const SLOT_BYTES: usize = size_of::<u64>();

/// The notification file of a database.
#[derive(Debug)]
pub(crate) struct NotificationFile {
    path: PathBuf,
    /// The path of the database. The notification file gets the permissions of the database.
    database: PathBuf,
}

/// The contents of all slots at one moment.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slots(Vec<u8>);

impl NotificationFile {
    /// The file at this path. When it is created, it gets the permissions of the database.
    pub(crate) fn new(path: PathBuf, database: PathBuf) -> Self {
        Self { path, database }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes notifications for these topics. `number` must be different at each call. So callers pass the time of the
    /// boot clock in nanoseconds.
    pub(crate) fn notify(&self, topics: &[Topic], number: i64) -> io::Result<()> {
        // The file is opened each time, because it may have been deleted and created again.
        let file = self.open()?;
        for topic in topics {
            write_at(&file, &number.to_ne_bytes(), slot(topic) * SLOT_BYTES)?;
        }
        Ok(())
    }

    /// Reads the present slots.
    #[cfg(target_os = "linux")]
    pub(crate) fn slots(&self) -> io::Result<Slots> {
        let mut bytes = std::fs::read(&self.path)?;
        bytes.resize(SLOTS * SLOT_BYTES, 0);
        Ok(Slots(bytes))
    }

    /// Opens the file for writing, and creates it if it does not exist.
    pub(crate) fn open(&self) -> io::Result<File> {
        match OpenOptions::new().write(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk::create_like(&self.path, &self.database),
            done => done,
        }
    }
}

#[cfg(target_os = "linux")]
impl Slots {
    /// Whether the topic's slot has changed since `before`. If so, this topic or another topic of the same slot was
    /// notified. A claim in a queue is also notified with its key, because the release of a mutex notifies the key only.
    pub(crate) fn differ_at(&self, before: &Self, topic: &Topic) -> bool {
        let differs = |topic: &Topic| {
            let at = slot(topic) * SLOT_BYTES;
            self.0[at..at + SLOT_BYTES] != before.0[at..at + SLOT_BYTES]
        };
        differs(topic) || topic.queued.is_some() && differs(&Topic::of(&topic.key))
    }
}

/// The slot of a topic. The hash function is FNV-1a, because all processes and versions must select the same slot.
fn slot(topic: &Topic) -> usize {
    let queued = topic.queued.map(|id| format!("\n{id}")).unwrap_or_default(); // No key contains a newline.
    let bytes = topic.key.as_str().bytes().chain(queued.bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    usize::try_from(hash % SLOTS as u64).unwrap_or(0)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: usize) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at as u64)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], at: usize) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(at as u64))?;
    file.write_all(bytes)
}
