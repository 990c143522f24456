//! Whether the files that a connection has open still lie at their names.
//!
//! SQLite finds the log (`-wal`) and its index (`-shm`) by their names when it opens a database, and never looks again.
//! A process that opens the database after one of them was deleted makes a new one. It does not see what is written into
//! the old one, and its own commits are not seen there. So each connection remembers which files it has open, and checks
//! them before and after it commits. If they lay at their names after a commit, each process that opens the database
//! later sees that commit.
//!
//! The number of an inode is not used again while a process has it open, so the numbers tell these files apart.

#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::{
    cell::Cell,
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// A directory must be unchanged for so many nanoseconds before its time of change is trusted to differ after the next
/// change: before Linux 6.13 that time is counted in ticks of the kernel, of 10 ms at most.
const SETTLED: i128 = 50_000_000;

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

/// The files that a connection has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) database: FileId,
    pub(crate) log: FileId,
    pub(crate) index: FileId,
}

/// What lies at the names of these files at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) database: Option<FileId>,
    pub(crate) log: Option<FileId>,
    pub(crate) index: Option<FileId>,
}

/// Where the files of a connection lie.
#[derive(Debug)]
pub(crate) struct Place {
    names: Names,
    pub(crate) files: Files,
    /// As the directory was when all files lay there, if that can be told from it.
    unchanged: Cell<Option<Stamp>>,
    #[cfg(target_os = "linux")]
    directory: Option<OwnedFd>,
}

/// The names of the files, without symbolic links: SQLite makes the others beside the file to which they lead.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) database: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) index: PathBuf,
}

/// When a directory was changed last, in nanoseconds since 1970.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "it is asked for on Linux only"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp(i128);

impl FileId {
    /// The file at this path.
    #[cfg(unix)]
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).map(|file| Self(file.dev(), file.ino()))
    }

    #[cfg(not(unix))]
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|_| Self(0, 0))
    }

    /// This open file.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_file(file: &fs::File) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        file.metadata().map(|file| Self(file.dev(), file.ino()))
    }

    /// Its number on its disk.
    #[cfg(target_os = "linux")]
    pub(crate) fn inode(self) -> u64 {
        self.1
    }
}

impl Names {
    /// The names of this database, which must be there.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let database = fs::canonicalize(path)?;
        let beside = |ending: &str| {
            let mut name = database.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        };
        Ok(Self { log: beside("-wal"), index: beside("-shm"), database })
    }

    /// What lies there now.
    pub(crate) fn look(&self) -> Found {
        let [database, log, index] = [&self.database, &self.log, &self.index].map(|name| FileId::of(name).ok());
        Found { database, log, index }
    }
}

impl Found {
    /// All three, if all are there.
    pub(crate) fn files(&self) -> Option<Files> {
        Some(Files { database: self.database?, log: self.log?, index: self.index? })
    }
}

impl Place {
    /// The place of these files, which were found at these names.
    pub(crate) fn new(names: Names, files: Files) -> Self {
        #[cfg(target_os = "linux")]
        let directory = open_directory(&names.database);
        Self {
            names,
            files,
            unchanged: Cell::new(None),
            #[cfg(target_os = "linux")]
            directory,
        }
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Whether other files than ours lie at their names: somebody has opened the database anew.
    pub(crate) fn is_taken(&self) -> bool {
        let (found, ours) = (self.names.look(), self.files);
        let pairs = [(found.database, ours.database), (found.log, ours.log), (found.index, ours.index)];
        pairs.into_iter().any(|(found, ours)| found.is_some_and(|found| found != ours))
    }

    /// Whether this path leads to the database, and all files still lie at their names.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        FileId::of(path).is_ok_and(|file| file == self.files.database) && self.stands()
    }

    /// Whether all files still lie at their names. While nothing changes in their directory, this is one system call.
    pub(crate) fn stands(&self) -> bool {
        let stamp = self.stamp();
        if stamp.is_some() && stamp == self.unchanged.get() {
            return true;
        }
        if self.names.look().files() != Some(self.files) {
            return false;
        }
        // The stamp is older than the look, so whatever comes after the look changes it.
        self.unchanged.set(stamp.filter(Stamp::is_settled));
        true
    }

    #[cfg(target_os = "linux")]
    fn stamp(&self) -> Option<Stamp> {
        let found = rustix::fs::fstat(self.directory.as_ref()?).ok()?;
        Some(Stamp(i128::from(found.st_ctime) * 1_000_000_000 + i128::from(found.st_ctime_nsec)))
    }

    #[cfg(not(target_os = "linux"))]
    fn stamp(&self) -> Option<Stamp> {
        None
    }
}

impl Stamp {
    /// Whether a later change would have another time. The clock may be set, so the future is not believed.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i128::try_from(now.as_nanos()).is_ok_and(|now| now - self.0 >= SETTLED)
    }
}

/// To be asked when it was changed, for which no right to read it is needed.
#[cfg(target_os = "linux")]
fn open_directory(database: &Path) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    open(database.parent()?, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Whether this process has these files open; true where it cannot be known.
#[cfg(target_os = "linux")]
pub(crate) fn are_open_here(files: [FileId; 2]) -> bool {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return true };
    let mut missing = files.to_vec();
    for each in open.flatten() {
        // Asked about and not opened: closing any descriptor of the index would give up our locks of it.
        if let Ok(file) = FileId::of(&each.path()) {
            missing.retain(|other| *other != file);
        }
    }
    missing.is_empty()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn are_open_here(_: [FileId; 2]) -> bool {
    true
}
