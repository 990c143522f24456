//! The file system under the database: what it is, how much room it has, and who may write there.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

/// What a file system is to a file of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux tells by a number"))]
pub(crate) enum Kind {
    /// All processes of this machine see the same file, and its locks.
    Local,
    /// The upper layer of a container, which has files of its own there.
    Layered,
    /// It ends with the machine's next start.
    Memory,
    /// Other machines may see the file, but not its locks. So may a program that serves the files (FUSE).
    Network,
}

/// A file system, by the number that the kernel gives to its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSystem {
    pub(crate) kind: Kind,
    /// What people call it; none when the number is not known here.
    pub(crate) name: Option<&'static str>,
}

/// How much room a disk has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    /// Whether one more file can be made.
    pub(crate) has_inodes: bool,
    pub(crate) is_read_only: bool,
}

impl FileSystem {
    /// By its number in `statfs(2)`. What is not known is taken for local: there are more of those, and new ones.
    #[cfg(any(target_os = "linux", test))]
    pub(crate) fn of_magic(magic: u32) -> Self {
        let (kind, name) = match magic {
            0x0000_ef53 => (Kind::Local, "ext4"),
            0x5846_5342 => (Kind::Local, "xfs"),
            0x9123_683e => (Kind::Local, "btrfs"),
            0x2fc1_2fc1 => (Kind::Local, "zfs"),
            0xf2f5_2010 => (Kind::Local, "f2fs"),
            0xca45_1a4e => (Kind::Local, "bcachefs"),
            0x794c_7630 => (Kind::Layered, "overlay"),
            0x6175_6673 => (Kind::Layered, "aufs"),
            0x0102_1994 => (Kind::Memory, "tmpfs"),
            0x8584_58f6 => (Kind::Memory, "ramfs"),
            0x0000_6969 => (Kind::Network, "nfs"),
            0x0000_517b | 0xfe53_4d42 => (Kind::Network, "smb"),
            0xff53_4d42 => (Kind::Network, "cifs"),
            0x0102_1997 => (Kind::Network, "9p"),
            0x6573_5546 => (Kind::Network, "fuse"),
            0x00c3_6400 => (Kind::Network, "ceph"),
            0x5346_414f | 0x6b41_4653 => (Kind::Network, "afs"),
            0x7375_7245 => (Kind::Network, "coda"),
            0x0000_564c => (Kind::Network, "ncp"),
            0x0bd0_0bd0 => (Kind::Network, "lustre"),
            0x4750_4653 => (Kind::Network, "gpfs"),
            0x1983_0326 => (Kind::Network, "beegfs"),
            0x0116_1970 => (Kind::Network, "gfs2"),
            0x7461_636f => (Kind::Network, "ocfs2"),
            0xaad7_aaea => (Kind::Network, "panfs"),
            0x786f_4256 => (Kind::Network, "vboxsf"),
            0xbacb_acbc => (Kind::Network, "vmhgfs"),
            0x7c7c_6673 => (Kind::Network, "prl_fs"),
            _ => return Self { kind: Kind::Local, name: None },
        };
        Self { kind, name: Some(name) }
    }

    /// That of this path, or of the nearest directory above it of which anything can be seen; none where it cannot be
    /// known.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        let found = nearest(path, |place| rustix::fs::statfs(place))?;
        // The number has 32 bits in fields of other widths and signs.
        let mut magic = [0; 4];
        magic.copy_from_slice(&found.f_type.to_le_bytes()[..4]);
        Ok(Some(Self::of_magic(u32::from_le_bytes(magic))))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of(_: &Path) -> io::Result<Option<Self>> {
        Ok(None)
    }

    /// Its name for people.
    pub(crate) fn called(self) -> &'static str {
        self.name.unwrap_or("a file system that bandog does not know")
    }
}

/// What this path answers, or the nearest directory above it that answers: a file that is not there will lie there.
#[cfg(target_os = "linux")]
fn nearest<T>(path: &Path, ask: impl Fn(&Path) -> rustix::io::Result<T>) -> io::Result<T> {
    let mut last = Err(io::ErrorKind::NotFound.into());
    for place in path.ancestors() {
        last = ask(place).map_err(io::Error::from);
        if last.is_ok() {
            break;
        }
    }
    last
}

/// The room on the disk of this file.
#[cfg(target_os = "linux")]
pub(crate) fn room(path: &Path) -> io::Result<Room> {
    use rustix::fs::StatVfsMountFlags;
    let found = nearest(path, |place| rustix::fs::statvfs(place))?;
    Ok(Room {
        bytes: found.f_bavail.saturating_mul(found.f_frsize),
        has_inodes: found.f_files == 0 || found.f_favail > 0,
        is_read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn room(_: &Path) -> io::Result<Room> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether this process may read and write the file, and make others beside it.
#[cfg(target_os = "linux")]
pub(crate) fn may_write(path: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    access(path, Access::READ_OK | Access::WRITE_OK)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn may_write(path: &Path) -> io::Result<()> {
    std::fs::metadata(path).map(drop)
}

/// Opens a file to read and write it, and makes it with the rights of the database if it is not there.
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
        // Root's file would shut out those to whom the database belongs; others may not give files away.
        let _ = fchown(&file, Some(database.uid()), Some(database.gid()));
    }
    Ok(file)
}

#[cfg(not(unix))]
pub(crate) fn create_like(path: &Path, _: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}
