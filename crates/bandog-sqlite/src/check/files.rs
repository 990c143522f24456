//! The files and the disk that they lie on.

use std::path::Path;

use bandog_core::Finding;

use super::not_local;
use crate::{
    SqliteOptions,
    disk::{self, FileSystem, Kind},
};

/// With less room than this, the WAL of a busy day may fill the disk.
const LITTLE: u64 = 64 << 20;

/// What the file system is to locks.
pub(super) fn file_system(path: &Path, found: Option<FileSystem>) -> Finding {
    const SUBJECT: &str = "filesystem";
    let Some(found) = found else {
        let says = "the kind of the file system cannot be known here";
        return Finding::advice(SUBJECT, says, "make sure that it is a disk of this machine");
    };
    let name = found.called();
    match found.kind {
        Kind::Local => {
            Finding::fine(SUBJECT, format!("the database lies on {name}, which this machine keeps to itself"))
        }
        Kind::Memory => Finding::advice(
            SUBJECT,
            format!("the database lies on {name}, which is empty after a restart of the machine"),
            "if holds must outlive a restart, name a file on a disk",
        ),
        Kind::Layered => Finding::advice(
            SUBJECT,
            format!("the database lies on {name}, so every container, and the host, has a file of its own there"),
            "mount one volume for all who share the locks, and name a file in it",
        ),
        Kind::Network => Finding::danger(
            SUBJECT,
            not_local(path, name),
            "name a file on a local disk, or use a server: redis://HOST",
        ),
    }
}

/// Whether there is room to write.
pub(super) fn space(path: &Path) -> Finding {
    const SUBJECT: &str = "space";
    let room = match disk::room(path) {
        Ok(room) => room,
        Err(error) => {
            return Finding::advice(
                SUBJECT,
                format!("the room on the disk cannot be known: {error}"),
                "look at it by hand",
            );
        }
    };
    let mib = room.bytes >> 20;
    if room.is_read_only {
        let says = "the file system is mounted read-only, so nothing can be locked";
        return Finding::danger(SUBJECT, says, "mount it to be written, or name a file elsewhere");
    }
    if room.bytes == 0 || !room.has_inodes {
        let what = if room.bytes == 0 { "space" } else { "inode" };
        let says = format!("no {what} is left on the disk: nothing is granted, renewed or released");
        return Finding::danger(SUBJECT, says, "free some");
    }
    if room.bytes < LITTLE {
        return Finding::advice(SUBJECT, format!("only {mib} MiB are free on the disk"), "free some");
    }
    Finding::fine(SUBJECT, format!("{mib} MiB are free on the disk"))
}

/// Who else may touch the files.
#[cfg(unix)]
pub(super) fn rights(options: &SqliteOptions) -> Vec<Finding> {
    use std::{fs, os::unix::fs::MetadataExt};
    const SUBJECT: &str = "rights";
    let mut findings = Vec::new();
    let files = ["", "-wal", "-shm", "-bell"].map(|ending| options.beside(ending));
    let is_open = |path: &&std::path::PathBuf| fs::metadata(path).is_ok_and(|file| file.mode() & 0o007 != 0);
    let open: Vec<String> = files.iter().filter(is_open).map(|path| quoted(path)).collect();
    if !open.is_empty() {
        let says = format!(
            "everybody on the machine may read or write {}: who can write can take and free locks",
            open.join(" ")
        );
        findings.push(Finding::advice(SUBJECT, says, format!("chmod o= {}", open.join(" "))));
    }
    if let Some(directory) = options.path.parent()
        && fs::metadata(directory).is_ok_and(|found| found.mode() & 0o002 != 0 && found.mode() & 0o1000 == 0)
    {
        let name = quoted(directory);
        let says = format!("everybody on the machine may delete and replace files in {name}, and so the database");
        findings.push(Finding::advice(SUBJECT, says, format!("chmod o-w {name}, or at least chmod +t {name}")));
    }
    if options.path.exists()
        && let Err(error) = disk::may_write(&options.path)
    {
        let says = format!("this process may not write the database and the files beside it: {error}");
        findings.push(Finding::danger(SUBJECT, says, "give it the right, or run it as their owner"));
    }
    if findings.is_empty() {
        findings.push(Finding::fine(SUBJECT, "only the owner and the group of the files may touch them"));
    }
    findings
}

#[cfg(not(unix))]
pub(super) fn rights(_: &SqliteOptions) -> Vec<Finding> {
    vec![Finding::advice("rights", "the rights of the files cannot be judged here", "look at them by hand")]
}

/// A path as a shell takes it.
#[cfg(unix)]
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = path.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
    if is_plain { path } else { format!("'{}'", path.replace('\'', "'\\''")) }
}
