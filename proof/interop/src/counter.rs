//! A counter in a file that only the lock under test protects: the counterpart of `Counter.java`.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path, thread, time::Duration};

/// Time between the two reads of [`Counter::check`], so that an addition by a second holder falls between them.
const BETWEEN_READS: Duration = Duration::from_micros(200);

/// Two big-endian numbers in a file: the count, and the fence of the last addition. The fence is 0 if the last addition
/// had none.
#[derive(Debug)]
pub struct Counter(File);

impl Counter {
    /// Opens the counter's file.
    ///
    /// # Errors
    /// If the file cannot be opened for reads and writes.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        File::options().read(true).write(true).open(path).map(Self)
    }

    /// The count, and the fence of the last addition.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self) -> io::Result<(u64, u64)> {
        let mut halves = [[0; 8]; 2];
        self.0.read_exact_at(halves.as_flattened_mut(), 0)?;
        let [count, last] = halves.map(u64::from_be_bytes);
        Ok((count, last))
    }

    /// Adds one. The fence is 0 if the lock has none.
    ///
    /// # Errors
    /// If the file cannot be read or written, or if the fence is not greater than the last one.
    pub fn add(&self, fence: u64) -> io::Result<()> {
        let (count, last) = self.read()?;
        if fence != 0 && fence <= last {
            return Err(io::Error::other(format!("fence {fence} came after {last}")));
        }
        let halves = [count + 1, fence].map(u64::to_be_bytes);
        self.0.write_all_at(halves.as_flattened(), 0)
    }

    /// Checks that nothing adds to the counter for a moment.
    ///
    /// # Errors
    /// If the file cannot be read, or if the counter changes.
    pub fn check(&self) -> io::Result<()> {
        let (before, _) = self.read()?;
        thread::sleep(BETWEEN_READS);
        let (after, _) = self.read()?;
        if before == after {
            Ok(())
        } else {
            Err(io::Error::other(format!("the counter changed from {before} to {after}")))
        }
    }
}
