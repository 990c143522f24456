//! Checks whether the files that a connection has open are still at their paths.
//!
//! When SQLite opens a database, it finds the log (`-wal`) and its index (`-shm`) by their paths. It never checks these
//! paths again. If one of the two files is deleted, a process that opens the database later creates a new file. Then
//! the processes with the old file and the processes with the new file do not see each other's commits. So each
//! connection remembers which files it has open, and checks them before and after each commit. If the files are still
//! at their paths after a commit, each process that opens the database later sees that commit.
//!
//! The files are identified by their inode numbers: the kernel does not reuse the number of a file that a process has
//! open.

#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::{
    cell::Cell,
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// Minimum age of a directory's change time, in nanoseconds. A more recent change time cannot be relied on: before
/// Linux 6.13, the change time advances in steps of up to 10 ms. So two changes within one step have the same time.
const MIN_AGE_NS: i128 = 50_000_000;

/// The identity of a file, independent of its name: the numbers of its device and of its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

/// The files that a connection has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIds {
    pub(crate) database: FileId,
    pub(crate) log: FileId,
    pub(crate) index: FileId,
}

/// The files that were found at the three paths at one moment. None for a missing file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundFiles {
    pub(crate) database: Option<FileId>,
    pub(crate) log: Option<FileId>,
    pub(crate) index: Option<FileId>,
}

/// The files that a connection has open, and their paths.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    paths: FilePaths,
    pub(crate) ids: FileIds,
    /// The change time of the directory when all files were last found at their paths. None if this time cannot be
    /// relied on.
    unchanged_since: Cell<Option<ChangeTime>>,
    /// The directory of the files, from which the change time is read.
    #[cfg(target_os = "linux")]
    directory: Option<OwnedFd>,
}

/// The paths of the files, without symbolic links. If a path is a symbolic link, SQLite creates the log and the index
/// beside the file to which the link leads.
#[derive(Debug, Clone)]
pub(crate) struct FilePaths {
    pub(crate) database: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) index: PathBuf,
}

/// The time of the last change of a directory, in nanoseconds since 1970.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "it is read on Linux only"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChangeTime(i128);

impl FileId {
    /// The file at this path.
    #[cfg(unix)]
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).map(|file| Self { device: file.dev(), inode: file.ino() })
    }

    #[cfg(not(unix))]
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|_| Self { device: 0, inode: 0 })
    }

    /// The identity of this open file.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_file(file: &fs::File) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        file.metadata().map(|file| Self { device: file.dev(), inode: file.ino() })
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn inode(self) -> u64 {
        self.inode
    }
}

impl FilePaths {
    /// The paths of the files of this database. The database must exist.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let database = fs::canonicalize(path)?;
        let beside = |ending: &str| {
            let mut name = database.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        };
        Ok(Self { log: beside("-wal"), index: beside("-shm"), database })
    }

    /// The files that are at these paths now.
    pub(crate) fn find(&self) -> FoundFiles {
        let [database, log, index] = [&self.database, &self.log, &self.index].map(|path| FileId::of(path).ok());
        FoundFiles { database, log, index }
    }
}

impl FoundFiles {
    /// All three files, if all of them exist.
    pub(crate) fn all(&self) -> Option<FileIds> {
        Some(FileIds { database: self.database?, log: self.log?, index: self.index? })
    }
}

impl OpenFiles {
    /// The files with these ids. They are open, and were found at these paths.
    pub(crate) fn new(paths: FilePaths, ids: FileIds) -> Self {
        #[cfg(target_os = "linux")]
        let directory = open_directory(&paths.database);
        Self {
            paths,
            ids,
            unchanged_since: Cell::new(None),
            #[cfg(target_os = "linux")]
            directory,
        }
    }

    pub(crate) fn paths(&self) -> &FilePaths {
        &self.paths
    }

    /// Whether another file is at one of the paths. If so, a file was deleted, and then another process has opened the
    /// database and created a new file.
    pub(crate) fn are_replaced(&self) -> bool {
        let (found, ours) = (self.paths.find(), self.ids);
        let pairs = [(found.database, ours.database), (found.log, ours.log), (found.index, ours.index)];
        pairs.into_iter().any(|(found, ours)| found.is_some_and(|found| found != ours))
    }

    /// Whether this path leads to the database, and all files are still at their paths.
    pub(crate) fn are_at(&self, path: &Path) -> bool {
        FileId::of(path).is_ok_and(|file| file == self.ids.database) && self.are_in_place()
    }

    /// Whether all files are still at their paths. While nothing changes in their directory, this takes one system
    /// call.
    pub(crate) fn are_in_place(&self) -> bool {
        let changed = self.directory_changed();
        if changed.is_some() && changed == self.unchanged_since.get() {
            return true;
        }
        if self.paths.find().all() != Some(self.ids) {
            return false;
        }
        // The change time was read before the files were checked. So if the directory changes after the check, the next
        // call reads a different change time.
        self.unchanged_since.set(changed.filter(ChangeTime::is_reliable));
        true
    }

    #[cfg(target_os = "linux")]
    fn directory_changed(&self) -> Option<ChangeTime> {
        let found = rustix::fs::fstat(self.directory.as_ref()?).ok()?;
        Some(ChangeTime(i128::from(found.st_ctime) * 1_000_000_000 + i128::from(found.st_ctime_nsec)))
    }

    #[cfg(not(target_os = "linux"))]
    fn directory_changed(&self) -> Option<ChangeTime> {
        None
    }
}

impl ChangeTime {
    /// Whether each later change of the directory certainly has a different change time. A change time in the future is
    /// not reliable, because the clock may have been set back.
    fn is_reliable(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i128::try_from(now.as_nanos()).is_ok_and(|now| now - self.0 >= MIN_AGE_NS)
    }
}

/// Opens the directory, so that its change time can be read. This needs no permission to read the directory.
#[cfg(target_os = "linux")]
fn open_directory(database: &Path) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    open(database.parent()?, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Whether this process has these files open. True if this cannot be determined.
#[cfg(target_os = "linux")]
pub(crate) fn are_open_here(files: [FileId; 2]) -> bool {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return true };
    let mut missing = files.to_vec();
    for each in open.flatten() {
        // The files are examined by their paths and not opened, because closing any descriptor of the index would
        // release our locks on the index.
        if let Ok(file) = FileId::of(&each.path()) {
            missing.retain(|id| *id != file);
        }
    }
    missing.is_empty()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn are_open_here(_: [FileId; 2]) -> bool {
    true
}
