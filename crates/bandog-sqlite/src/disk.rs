//! The file system of the database: its kind, its free space, and whether this process may write there.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

/// The kinds of file systems. The kind of a file system decides which processes see a file and its locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux reports the kind"))]
pub(crate) enum FileSystemKind {
    /// All processes of this machine see the same file and its locks.
    Local,
    /// An overlay: each container has its own files there.
    Layered,
    /// The file system is empty after a restart of the machine.
    Memory,
    /// Other machines may see the file, but not its locks. This includes file systems that a program serves (FUSE).
    Network,
}

/// A file system, identified by the kernel's number for its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSystem {
    pub(crate) kind: FileSystemKind,
    /// The common name of the file system. None if its number is not in our list.
    pub(crate) name: Option<&'static str>,
}

/// The free space of a disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskSpace {
    /// Number of free bytes.
    pub(crate) bytes: u64,
    /// Whether one more file can be created.
    pub(crate) has_inodes: bool,
    /// Whether the file system is mounted read-only.
    pub(crate) is_read_only: bool,
}

impl FileSystem {
    /// The file system with this number in `statfs(2)`. An unknown number counts as local, because most file systems
    /// are local.
    #[cfg(any(target_os = "linux", test))]
    pub(crate) fn of_magic(magic: u32) -> Self {
        let (kind, name) = match magic {
            0x0000_ef53 => (FileSystemKind::Local, "ext4"),
            0x5846_5342 => (FileSystemKind::Local, "xfs"),
            0x9123_683e => (FileSystemKind::Local, "btrfs"),
            0x2fc1_2fc1 => (FileSystemKind::Local, "zfs"),
            0xf2f5_2010 => (FileSystemKind::Local, "f2fs"),
            0xca45_1a4e => (FileSystemKind::Local, "bcachefs"),
            0x794c_7630 => (FileSystemKind::Layered, "overlay"),
            0x6175_6673 => (FileSystemKind::Layered, "aufs"),
            0x0102_1994 => (FileSystemKind::Memory, "tmpfs"),
            0x8584_58f6 => (FileSystemKind::Memory, "ramfs"),
            0x0000_6969 => (FileSystemKind::Network, "nfs"),
            0x0000_517b | 0xfe53_4d42 => (FileSystemKind::Network, "smb"),
            0xff53_4d42 => (FileSystemKind::Network, "cifs"),
            0x0102_1997 => (FileSystemKind::Network, "9p"),
            0x6573_5546 => (FileSystemKind::Network, "fuse"),
            0x00c3_6400 => (FileSystemKind::Network, "ceph"),
            0x5346_414f | 0x6b41_4653 => (FileSystemKind::Network, "afs"),
            0x7375_7245 => (FileSystemKind::Network, "coda"),
            0x0000_564c => (FileSystemKind::Network, "ncp"),
            0x0bd0_0bd0 => (FileSystemKind::Network, "lustre"),
            0x4750_4653 => (FileSystemKind::Network, "gpfs"),
            0x1983_0326 => (FileSystemKind::Network, "beegfs"),
            0x0116_1970 => (FileSystemKind::Network, "gfs2"),
            0x7461_636f => (FileSystemKind::Network, "ocfs2"),
            0xaad7_aaea => (FileSystemKind::Network, "panfs"),
            0x786f_4256 => (FileSystemKind::Network, "vboxsf"),
            0xbacb_acbc => (FileSystemKind::Network, "vmhgfs"),
            0x7c7c_6673 => (FileSystemKind::Network, "prl_fs"),
            _ => return Self { kind: FileSystemKind::Local, name: None },
        };
        Self { kind, name: Some(name) }
    }

    /// The file system of this path, or of the nearest directory above it that exists. None if the system does not
    /// report it.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        let found = nearest(path, |path| rustix::fs::statfs(path))?;
        // The number has 32 bits. The width and the sign of the field depend on the platform.
        let mut magic = [0; 4];
        magic.copy_from_slice(&found.f_type.to_le_bytes()[..4]);
        Ok(Some(Self::of_magic(u32::from_le_bytes(magic))))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of(_: &Path) -> io::Result<Option<Self>> {
        Ok(None)
    }

    /// The name of the file system, for messages.
    pub(crate) fn display_name(self) -> &'static str {
        self.name.unwrap_or("a file system that bandog does not know")
    }
}

/// The result of `query` for this path. If the path does not exist, this is the result for the nearest existing
/// directory above the path. A missing file will be created below this directory.
#[cfg(target_os = "linux")]
fn nearest<T>(path: &Path, query: impl Fn(&Path) -> rustix::io::Result<T>) -> io::Result<T> {
    let mut last = Err(io::ErrorKind::NotFound.into());
    for ancestor in path.ancestors() {
        last = query(ancestor).map_err(io::Error::from);
        if last.is_ok() {
            break;
        }
    }
    last
}

/// The free space on the disk of this file.
#[cfg(target_os = "linux")]
pub(crate) fn space(path: &Path) -> io::Result<DiskSpace> {
    use rustix::fs::StatVfsMountFlags;
    let found = nearest(path, |path| rustix::fs::statvfs(path))?;
    Ok(DiskSpace {
        bytes: found.f_bavail.saturating_mul(found.f_frsize),
        has_inodes: found.f_files == 0 || found.f_favail > 0,
        is_read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn space(_: &Path) -> io::Result<DiskSpace> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Checks that this process has the permissions to read and write the file, and to create files beside it.
#[cfg(target_os = "linux")]
pub(crate) fn check_writable(path: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    access(path, Access::READ_OK | Access::WRITE_OK)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn check_writable(path: &Path) -> io::Result<()> {
    std::fs::metadata(path).map(drop)
}

/// Opens a file for reading and writing. If the file does not exist, it is created with the permissions of the
/// database.
#[cfg(unix)]
pub(crate) fn create_like(path: &Path, database: &Path) -> io::Result<File> {
    use std::{
        fs::{Permissions, metadata},
        os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    };
    let database = metadata(database)?;
    let mode = database.mode() & 0o666;
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(mode).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    let ours = file.metadata()?;
    if (ours.uid(), ours.gid()) != (database.uid(), database.gid()) {
        // If root creates the file, the owner of the database could not use it. So the file gets the owner and the
        // group of the database. For users other than root this fails, and the error is ignored.
        let _ = fchown(&file, Some(database.uid()), Some(database.gid()));
    }
    Ok(file)
}

#[cfg(not(unix))]
pub(crate) fn create_like(path: &Path, _: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}
