//! Bytes as the standard input of a command.

use std::{
    fs::File,
    io::{self, Seek, Write},
};

use rustix::fs::{MemfdFlags, memfd_create};

/// A file in memory with these bytes. The command takes no longer to read it than a pipe, and cannot block bandog.
pub(crate) fn file_of(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("element", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
