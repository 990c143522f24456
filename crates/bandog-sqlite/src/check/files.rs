//! Checks of the files and of their disk.

use std::path::Path;

use bandog_core::Finding;

use super::not_local;
use crate::{
    SqliteOptions,
    disk::{self, FileSystem, FileSystemKind},
};

/// Minimum free space of the disk, in bytes. If less is free, a finding reports this, because the write-ahead log of a
/// busy day might fill the disk.
const MIN_FREE_SPACE: u64 = 64 << 20;

/// Checks the kind of the file system.
pub(super) fn file_system(path: &Path, found: Option<FileSystem>) -> Finding {
    const SUBJECT: &str = "filesystem";
    let Some(found) = found else {
        let says = "the kind of the file system is unknown on this system";
        return Finding::advice(SUBJECT, says, "make sure that the file is on a disk of this machine");
    };
    let name = found.display_name();
    match found.kind {
        FileSystemKind::Local => {
            Finding::fine(SUBJECT, format!("the database is on {name}, which only this machine uses"))
        }
        FileSystemKind::Memory => Finding::advice(
            SUBJECT,
            format!("the database is on {name}, which is empty after a restart of the machine"),
            "if holds must survive a restart, name a file on a disk",
        ),
        FileSystemKind::Layered => Finding::advice(
            SUBJECT,
            format!("the database is on {name}, so each container, and the host, has its own file there"),
            "mount one volume into all containers that share the locks, and name a file in it",
        ),
        FileSystemKind::Network => Finding::danger(
            SUBJECT,
            not_local(path, name),
            "name a file on a local disk, or use a server: redis://HOST",
        ),
    }
}

/// Checks the free space.
pub(super) fn space(path: &Path) -> Finding {
    const SUBJECT: &str = "space";
    let space = match disk::space(path) {
        Ok(space) => space,
        Err(error) => {
            return Finding::advice(
                SUBJECT,
                format!("the free space of the disk cannot be determined: {error}"),
                "check the free space manually",
            );
        }
    };
    let mib = space.bytes >> 20;
    if space.is_read_only {
        let says = "the file system is mounted read-only, so no lock can be taken";
        return Finding::danger(SUBJECT, says, "mount it read-write, or name a file elsewhere");
    }
    if space.bytes == 0 || !space.has_inodes {
        let what = if space.bytes == 0 { "space" } else { "inode" };
        let says = format!("no {what} is left on the disk: nothing is granted, renewed or released");
        return Finding::danger(SUBJECT, says, "delete files that are not needed");
    }
    if space.bytes < MIN_FREE_SPACE {
        return Finding::advice(SUBJECT, format!("only {mib} MiB are free on the disk"), "free some space");
    }
    Finding::fine(SUBJECT, format!("{mib} MiB are free on the disk"))
}

/// Checks the permissions of the files and of their directory.
#[cfg(unix)]
pub(super) fn rights(options: &SqliteOptions) -> Vec<Finding> {
    use std::{fs, os::unix::fs::MetadataExt};
    const SUBJECT: &str = "rights";
    let mut findings = Vec::new();
    let files = ["", "-wal", "-shm", "-bell"].map(|ending| options.beside(ending));
    // Whether users other than the owner and the group may access the file.
    let is_open = |path: &&std::path::PathBuf| fs::metadata(path).is_ok_and(|file| file.mode() & 0o007 != 0);
    let open: Vec<String> = files.iter().filter(is_open).map(|path| quoted(path)).collect();
    if !open.is_empty() {
        let says = format!(
            "every user of the machine may read or write {}: a user who can write can take and free locks",
            open.join(" ")
        );
        findings.push(Finding::advice(SUBJECT, says, format!("chmod o= {}", open.join(" "))));
    }
    // The finding if every user can write to the directory, and the directory has no sticky bit.
    if let Some(directory) = options.path.parent()
        && fs::metadata(directory).is_ok_and(|found| found.mode() & 0o002 != 0 && found.mode() & 0o1000 == 0)
    {
        let name = quoted(directory);
        let says = format!("every user of the machine may delete and replace files in {name}, including the database");
        findings.push(Finding::advice(SUBJECT, says, format!("chmod o-w {name}, or at least chmod +t {name}")));
    }
    if options.path.exists()
        && let Err(error) = disk::check_writable(&options.path)
    {
        let says = format!("this process may not write the database and the files beside it: {error}");
        findings.push(Finding::danger(
            SUBJECT,
            says,
            "give this process the permission, or run it as the owner of the files",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::fine(SUBJECT, "only the owner and the group of the files may read or write them"));
    }
    findings
}

#[cfg(not(unix))]
pub(super) fn rights(_: &SqliteOptions) -> Vec<Finding> {
    vec![Finding::advice(
        "rights",
        "the permissions of the files cannot be checked on this system",
        "check them manually",
    )]
}

/// A path, quoted for a shell.
#[cfg(unix)]
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = path.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
    if is_plain { path } else { format!("'{}'", path.replace('\'', "'\\''")) }
}
