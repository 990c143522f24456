//! Opens the database, and creates it if it does not exist. Several processes can do this at the same time.

use std::{cell::Cell, fs, io, path::Path, sync::Once};

use bandog_core::{Error, ErrorKind};
use rusqlite::{Connection, MAIN_DB, OpenFlags, Transaction, TransactionBehavior, config::DbConfig};

use crate::{
    SqliteOptions, busy_wait,
    disk::{FileSystem, FileSystemKind},
    fault::Fault,
    open_files::{self, FileIds, FilePaths, OpenFiles},
    other_connections::{RegisteredConnection, RequestFileCheck},
    rescue::{self, RescueOutcome},
    sql,
};

/// The application id `bdog` in the header of the database. The command `file` and other programs read it.
const APPLICATION: i64 = 0x6264_6f67;
/// The version of the tables that this program writes.
const VERSION: i64 = 5;

/// The version of a database without tables.
const NO_TABLES: i64 = 0;
/// The first version of the tables.
const FIRST_VERSION: i64 = 1;
/// The first version with the registry of clients.
const REGISTRY: i64 = 2;
/// The first version with records.
const RECORDS: i64 = 3;
/// The first version with locks that are not mutexes.
const LOCKS: i64 = 4;
/// The first version with work queues.
const QUEUES: i64 = 5;

/// The purpose for which a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A missing database is not created, and tables of an older version stay as they are.
    Inspect,
    /// A missing database is created, unless the options forbid it, and older tables are upgraded.
    Use,
}

/// The kinds of failures that a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The commit survives the end of the process. A power failure might lose the last commits. This is enough for
    /// leases, because a power failure also ends the processes that hold the leases.
    Process,
    /// The commit also survives a power failure: it is on the disk before the requests are answered.
    Power,
}

/// A connection that is ready for use, and the files that it has open.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) conn: Connection,
    /// The durability that the connection is set to now.
    durability: Cell<Durability>,
    /// The files that the connection has open.
    files: OpenFiles,
    /// The version of the tables.
    version: Cell<i64>,
    /// The layout of the work queues, as far as this connection has seen it.
    layout: Cell<u8>,
    /// Whether SQLite has opened the database for reading only.
    is_read_only: bool,
    /// The registration of the connection. Fields are dropped in order, and this is the last field. So the registration
    /// ends after the connection is closed.
    _registered: RegisteredConnection,
}

impl Store {
    /// Opens the database. If other processes block this, the call waits, but not longer than until the deadline of
    /// this thread: see [`busy_wait::set_deadline`].
    pub(crate) fn open(options: &SqliteOptions, purpose: Purpose) -> Result<Self, Fault> {
        Self::open_shared(options, purpose, None)
    }

    /// Does the same as [`Self::open`], for a connection that stays open. If files that this connection has open are
    /// deleted, no other connection of this process can be opened until this connection is closed. An attempt to open
    /// another connection calls `request_check`. This function makes the owner of this connection check its files.
    pub(crate) fn open_shared(
        options: &SqliteOptions,
        purpose: Purpose,
        request_check: Option<RequestFileCheck>,
    ) -> Result<Self, Fault> {
        loop {
            // While another process changes the journal mode or recovers the log, SQLite fails without calling the busy
            // handler. So the busy handler is called here.
            match Self::try_open(options, purpose, request_check.clone()) {
                Err(fault) if fault.is_busy() && busy_wait::handle_busy(i32::MAX) => {}
                done => return done,
            }
        }
    }

    /// Whether the path still leads to the files that this connection has open. If not, other processes may have other
    /// files open.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        self.files.are_at(path)
    }

    /// Whether the files are still at their paths.
    pub(crate) fn is_in_place(&self) -> bool {
        self.files.are_in_place()
    }

    /// Copies the contents of a deleted log into the database.
    pub(crate) fn rescue(&self) -> Result<RescueOutcome, Fault> {
        if self.is_read_only { Ok(RescueOutcome::Lost) } else { rescue::copy(&self.conn, &self.files) }
    }

    /// Whether this connection can be used for this purpose.
    pub(crate) fn serves(&self, purpose: Purpose) -> bool {
        purpose == Purpose::Inspect || (self.is_current() && !self.is_read_only)
    }

    /// Reads the version of the tables again, if they had an older version: another process might have upgraded them.
    pub(crate) fn refresh_version(&self, path: &Path) -> Result<(), Fault> {
        if !self.is_current() {
            self.version.set(version(&self.conn, path)?);
        }
        Ok(())
    }

    /// Whether the tables have this program's version.
    pub(crate) fn is_current(&self) -> bool {
        self.version.get() == VERSION
    }

    /// Whether the database has the registry of clients.
    pub(crate) fn has_registry(&self) -> bool {
        self.version.get() >= REGISTRY
    }

    /// Whether the database has records.
    pub(crate) fn has_records(&self) -> bool {
        self.version.get() >= RECORDS
    }

    /// Whether the database has the tables of the locks that are not mutexes.
    pub(crate) fn has_locks(&self) -> bool {
        self.version.get() >= LOCKS
    }

    /// The layout of the work queues, as far as this connection has seen it.
    pub(crate) fn layout(&self) -> &Cell<u8> {
        &self.layout
    }

    /// Whether the database has work queues.
    pub(crate) fn has_queues(&self) -> bool {
        self.version.get() >= QUEUES
    }

    /// Begins a transaction that reads one consistent state.
    pub(crate) fn begin_read(&self) -> Result<Transaction<'_>, Fault> {
        Ok(Transaction::new_unchecked(&self.conn, TransactionBehavior::Deferred)?)
    }

    /// Begins a transaction that writes.
    pub(crate) fn begin_write(&self, durability: Durability) -> Result<Transaction<'_>, Fault> {
        if self.durability.get() != durability {
            set_durability(&self.conn, durability)?;
            self.durability.set(durability);
        }
        Ok(Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate)?)
    }

    fn try_open(
        options: &SqliteOptions,
        purpose: Purpose,
        request_check: Option<RequestFileCheck>,
    ) -> Result<Self, Fault> {
        let path = &options.path;
        check_file_system(path)?;
        let may_create = purpose == Purpose::Use && options.may_create;
        if may_create {
            create(path).map_err(Fault::Files)?;
        }
        let paths = match FilePaths::of(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !may_create => return Err(Fault::NoDatabase),
            found => found.map_err(Fault::Files)?,
        };
        check_single_name(path)?;
        let before = paths.find();
        let database = before.database.ok_or(Fault::FilesReplaced(None))?;
        let registered = RegisteredConnection::open(database, before, request_check)?;
        rescue::remove_leftovers(&paths);
        #[allow(unused_mut, reason = "rusqlite before 0.41 sets the handler without it")]
        let mut conn = Connection::open_with_flags(path, flags(may_create))?;
        conn.busy_handler(Some(busy_wait::handle_busy as fn(i32) -> bool))?;
        conn.set_prepared_statement_cache_capacity(64);
        let mut version = version(&conn, path)?;
        if version == NO_TABLES && !may_create {
            return Err(Fault::NoDatabase);
        }
        // If the process cannot write to the file, SQLite opens it for reading. This is enough to inspect the database,
        // if the log and the index exist.
        let is_read_only = conn.is_readonly(MAIN_DB)?;
        if is_read_only && purpose == Purpose::Use {
            return Err(Fault::ReadOnly);
        }
        use_wal(&conn, path)?;
        if version < VERSION && purpose == Purpose::Use {
            make_tables(&conn, path)?;
            version = VERSION;
        }
        // The connection has executed a statement. So the other processes see that the database is in use, and from now
        // on, they delete neither the log nor the index when they close the database. The files at the paths are the
        // files of this connection in three cases: they were at the paths before the connection was opened, another
        // connection of this process has the same files open, or `/proc` shows that this process has them open.
        let is_ours = |files: &FileIds| {
            let is_known = before.all() == Some(*files) || !registered.is_alone(database);
            files.database == database
                && registered.opened(*files)
                && (is_known || open_files::are_open_here([files.log, files.index]))
        };
        let Some(files) = paths.find().all().filter(is_ours) else {
            close_untouched(conn);
            return Err(Fault::FilesReplaced(None));
        };
        let files = OpenFiles::new(paths, files);
        let (durability, version) = (Cell::new(Durability::Process), Cell::new(version));
        let layout = Cell::new(1);
        Ok(Self { conn, durability, files, version, layout, is_read_only, _registered: registered })
    }
}

impl Drop for Store {
    /// When the last connection to a database is closed, SQLite copies the log into the database and deletes the file
    /// at the log's path. If another log is at that path now, this would destroy commits of other processes. So SQLite
    /// is configured to skip both steps.
    fn drop(&mut self) {
        if self.files.are_replaced() {
            let _ = self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

/// Closes a connection and changes no file.
fn close_untouched(conn: Connection) {
    let _ = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    drop(conn);
}

/// The flags with which SQLite opens the file. On Linux, [`create_file`] creates the file, and SQLite never does.
fn flags(may_create: bool) -> OpenFlags {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let is_created_by_us = cfg!(target_os = "linux") || !may_create;
    if is_created_by_us { flags } else { flags | OpenFlags::SQLITE_OPEN_CREATE }
}

/// Refuses a file system on which some processes do not see the locks of the file. There, a lock of bandog could have
/// two holders.
fn check_file_system(path: &Path) -> Result<(), Fault> {
    static WARNED: Once = Once::new();
    let Ok(Some(found)) = FileSystem::of(path) else {
        return Ok(()); // If this call has failed, opening the file reports the error.
    };
    match found.kind {
        FileSystemKind::Local | FileSystemKind::Memory => Ok(()),
        FileSystemKind::Layered => {
            WARNED.call_once(|| {
                let (database, name) = (path.display(), found.display_name());
                tracing::warn!(%database, "the database is on {name}, so other containers have their own file \
                    there; mount a volume into all containers that share the locks");
            });
            Ok(())
        }
        FileSystemKind::Network => {
            Err(Fault::Described(Error::new(ErrorKind::Unsupported, not_local(path, found.display_name()))))
        }
    }
}

/// The error text for a file system that is not local.
pub(crate) fn not_local(path: &Path, name: &str) -> String {
    let what = match name {
        "fuse" => "a file system that another program serves, possibly from a network",
        _ => "a file system that other machines may share",
    };
    format!(
        "{path:?} is on {name}, {what}: SQLite's locks may not exclude other machines there, so one lock could have \
         two holders. Name a file on a local disk, or use a server (redis://HOST)"
    )
}

/// The version of the tables, or [`NO_TABLES`]. Fails if this program cannot use the database.
fn version(conn: &Connection, path: &Path) -> Result<i64, Fault> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    match conn.query_row(sql::IDENTITY, [], read)? {
        (0, 0, 0) => Ok(NO_TABLES),
        (APPLICATION, version @ FIRST_VERSION..=VERSION, _) => Ok(version),
        (APPLICATION, version, _) => Err(Fault::Described(Error::new(
            ErrorKind::Unsupported,
            format!("{path:?} has tables of version {version}, and this program supports at most {VERSION}: update it"),
        ))),
        (_, _, _) => Err(Fault::Described(Error::new(
            ErrorKind::Corrupt,
            format!("{path:?} is the database of another program and was not changed: name another file"),
        ))),
    }
}

/// Switches to the write-ahead log. With this log, readers see the last commit while another process writes.
fn use_wal(conn: &Connection, path: &Path) -> Result<(), Fault> {
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        let message =
            format!("the file system of {path:?} has no shared memory, so SQLite cannot share the file there");
        return Err(Fault::Described(Error::new(ErrorKind::Unsupported, message)));
    }
    conn.pragma_update(None, "fullfsync", true)?; // On Apple systems, fsync alone leaves the data in the disk's cache.
    set_durability(conn, Durability::Process)
}

/// Sets the durability of the next transactions. SQLite accepts this only between transactions.
fn set_durability(conn: &Connection, durability: Durability) -> Result<(), Fault> {
    let level = match durability {
        Durability::Process => "normal",
        Durability::Power => "full",
    };
    Ok(conn.pragma_update(None, "synchronous", level)?)
}

/// Creates the missing tables in one transaction.
fn make_tables(conn: &Connection, path: &Path) -> Result<(), Fault> {
    let transaction = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    let version = version(&transaction, path)?; // Read again: another process may have just created the tables.
    if version == NO_TABLES {
        transaction.execute_batch(sql::SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
    }
    if version < REGISTRY {
        transaction.execute_batch(sql::REGISTRY)?;
    }
    if version < RECORDS {
        transaction.execute_batch(sql::RECORDS)?;
    }
    if version < LOCKS {
        transaction.execute_batch(sql::LOCKS)?;
    }
    if version < QUEUES {
        transaction.execute_batch(sql::WORK)?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit().map_err(Fault::Commit)
}

/// Creates the directory and an empty file if they do not exist. Only the owner gets access to them.
fn create(path: &Path) -> io::Result<()> {
    if fs::exists(path)? {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        create_directory(directory)?;
    }
    match create_file(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// Creates each missing directory. Only the owner gets access, independent of the process's umask.
fn create_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent()
        && !fs::exists(parent)?
    {
        create_directory(parent)?;
    }
    #[cfg_attr(not(unix), expect(unused_mut, reason = "there are no permissions to set"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done.and_then(|()| restrict(path, 0o700)),
    }?;
    // The parent is written to the disk, because a power failure could otherwise lose the new directory and everything
    // in it. SQLite does the same for the directory of the log. If the parent cannot be opened, this is skipped.
    if let Some(parent) = path.parent() {
        let _ = fs::File::open(parent).and_then(|parent| parent.sync_all());
    }
    Ok(())
}

/// Sets the permissions of a file or of a directory.
#[cfg(unix)]
fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn restrict(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

/// Creates the file without opening it. Another handle of this process may already have the file open, and closing any
/// descriptor of a file releases all locks that the process has on it.
#[cfg(target_os = "linux")]
fn create_file(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0)?;
    restrict(path, 0o600)
}

#[cfg(not(target_os = "linux"))]
fn create_file(_: &Path) -> io::Result<()> {
    Ok(()) // SQLite creates the file, with the process's default permissions.
}

/// Refuses a file with more than one name. SQLite derives the names of the log and the index from the name by which it
/// opens the file. So processes that use the file by different names have different logs, and overwrite each other's
/// data. Then a lock could have two holders, and the file would be damaged.
#[cfg(unix)]
fn check_single_name(path: &Path) -> Result<(), Fault> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path).map_err(Fault::Files)?;
    if !found.is_file() {
        return Ok(()); // SQLite reports the error.
    }
    let names = found.nlink();
    let what = if names > 1 {
        format!("{path:?} has {names} names (hard links)")
    } else if is_mounted_by_itself(path) {
        format!("{path:?} is mounted by itself, so it has another name elsewhere")
    } else {
        return Ok(());
    };
    let message = format!(
        "{what}, and SQLite does not see locks that were taken under another name: give it one name, and share its \
         directory instead of the file"
    );
    Err(Fault::Described(Error::new(ErrorKind::Unsupported, message)))
}

#[cfg(not(unix))]
fn check_single_name(_: &Path) -> Result<(), Fault> {
    Ok(())
}

/// Whether the file is a mount point, as with `docker -v FILE:FILE`.
#[cfg(target_os = "linux")]
fn is_mounted_by_itself(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    // A kernel before 5.8 does not report this, so the result is false.
    statx(CWD, path, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_mounted_by_itself(_: &Path) -> bool {
    false
}
