//! The bell file: whoever frees a wanted key, or swaps a record whose readers are to hear of it, writes to it after the
//! commit.
//!
//! It is one page of slots. A key, of a lock or of a record, has the slot of its hash, and ringing writes a new number into the slot, so that
//! only those who wait for a key of that slot are woken: the kernel wakes every process that watches the file, but
//! only those with a changed slot of theirs ask the database. The file never grows.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use bandog_core::Key;

use crate::disk;

const SLOTS: usize = 512;
const WIDTH: usize = size_of::<u64>();

/// The bell file of a database.
#[derive(Debug)]
pub(crate) struct NotificationFile {
    path: PathBuf,
    database: PathBuf,
}

/// What the slots were at a moment.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slots(Vec<u8>);

impl NotificationFile {
    /// The bell file at this path, which gets the rights of the database.
    pub(crate) fn new(path: PathBuf, database: PathBuf) -> Self {
        Self { path, database }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Notifications for these keys. `number` is new each time: nanoseconds of the boot's clock.
    pub(crate) fn ring(&self, keys: &[Key], number: i64) -> io::Result<()> {
        // Opened anew each time, so that a file that was deleted and made again is found.
        let file = self.open()?;
        for key in keys {
            write_at(&file, &number.to_ne_bytes(), slot(key) * WIDTH)?;
        }
        Ok(())
    }

    /// The slots as they are.
    #[cfg(target_os = "linux")]
    pub(crate) fn slots(&self) -> io::Result<Slots> {
        let mut bytes = std::fs::read(&self.path)?;
        bytes.resize(SLOTS * WIDTH, 0);
        Ok(Slots(bytes))
    }

    /// Opens it to be written, and makes it if it is not there.
    pub(crate) fn open(&self) -> io::Result<File> {
        match OpenOptions::new().write(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk::create_like(&self.path, &self.database),
            done => done,
        }
    }
}

#[cfg(target_os = "linux")]
impl Slots {
    /// Whether the key's slot is another than before: somebody may have rung for it.
    pub(crate) fn differ_at(&self, before: &Self, key: &Key) -> bool {
        let at = slot(key) * WIDTH;
        self.0[at..at + WIDTH] != before.0[at..at + WIDTH]
    }
}

/// The slot of a key: FNV-1a, since all processes and versions must agree on it.
fn slot(key: &Key) -> usize {
    let hash = key
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
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
