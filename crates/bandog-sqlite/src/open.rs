//! Opens the database, and makes it if it is not there: many processes may do so at once.

use std::{cell::Cell, fs, io, path::Path, sync::Once};

use bandog_core::{Error, ErrorKind};
use rusqlite::{Connection, MAIN_DB, OpenFlags, Transaction, TransactionBehavior, config::DbConfig};

use crate::{
    SqliteOptions,
    disk::{FileSystem, Kind},
    fault::Fault,
    neighbours::{Neighbour, Poke},
    patience,
    place::{self, Files, Names, Place},
    rescue::{self, Log},
    sql,
};

/// `bdog`, which `file` and others can see in the header.
const APPLICATION: i64 = 0x6264_6f67;
/// The schema that this version writes.
const VERSION: i64 = 3;

/// A database without tables.
const NONE: i64 = 0;
/// The first version that there was.
const FIRST: i64 = 1;
/// The version that has the registry of clients.
const REGISTRY: i64 = 2;
/// The version that has records.
const RECORDS: i64 = 3;

/// What a database is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is not made when it is not there, and tables of an older version stay as they are.
    Look,
    /// It is made, unless the options say that it must exist, and its tables are brought up to date.
    Use,
}

/// What a commit outlives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The process. A power failure may take the last ones: enough for leases, whose holders it takes as well.
    Process,
    /// The machine's power: the disk has it before anybody is answered.
    Power,
}

/// A connection that is ready for work, and which file it is of.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) conn: Connection,
    /// What the connection's commits outlive at present.
    durability: Cell<Durability>,
    place: Place,
    version: i64,
    is_read_only: bool,
    /// Taken away after the connection was closed.
    _neighbour: Neighbour,
}

impl Store {
    /// Opens the database, waiting for others as long as this thread's patience lasts.
    pub(crate) fn open(options: &SqliteOptions, purpose: Purpose) -> Result<Self, Fault> {
        Self::open_poked(options, purpose, None)
    }

    /// The same, for a connection that stays open: by `poke` it is asked to look whether its files are still there.
    pub(crate) fn open_poked(options: &SqliteOptions, purpose: Purpose, poke: Option<Poke>) -> Result<Self, Fault> {
        loop {
            // SQLite does not wait by itself while another process switches the journal or recovers it.
            match Self::try_open(options, purpose, poke.clone()) {
                Err(fault) if fault.is_busy() && patience::busy(i32::MAX) => {}
                done => return done,
            }
        }
    }

    /// Whether the path still leads to these files. If not, others may use other ones by now.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        self.place.is_at(path)
    }

    /// Whether the files still lie at their names.
    pub(crate) fn stands(&self) -> bool {
        self.place.stands()
    }

    /// Saves what stands in files that were deleted.
    pub(crate) fn rescue(&self) -> Result<Log, Fault> {
        if self.is_read_only { Ok(Log::Lost) } else { rescue::copy(&self.conn, &self.place) }
    }

    /// Whether it serves this purpose as it is.
    pub(crate) fn serves(&self, purpose: Purpose) -> bool {
        purpose == Purpose::Look || (self.is_current() && !self.is_read_only)
    }

    /// Whether its tables are this version's.
    pub(crate) fn is_current(&self) -> bool {
        self.version == VERSION
    }

    /// Whether it has the registry of clients.
    pub(crate) fn has_registry(&self) -> bool {
        self.version >= REGISTRY
    }

    /// Whether it has records.
    pub(crate) fn has_records(&self) -> bool {
        self.version >= RECORDS
    }

    /// Begins a transaction in which nothing that others write is seen.
    pub(crate) fn reading(&self) -> Result<Transaction<'_>, Fault> {
        Ok(Transaction::new_unchecked(&self.conn, TransactionBehavior::Deferred)?)
    }

    /// Begins a transaction that writes.
    pub(crate) fn writing(&self, durability: Durability) -> Result<Transaction<'_>, Fault> {
        if self.durability.get() != durability {
            set_durability(&self.conn, durability)?;
            self.durability.set(durability);
        }
        Ok(Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate)?)
    }

    fn try_open(options: &SqliteOptions, purpose: Purpose, poke: Option<Poke>) -> Result<Self, Fault> {
        let path = &options.path;
        check_file_system(path)?;
        let may_create = purpose == Purpose::Use && options.may_create;
        if may_create {
            create(path).map_err(Fault::Files)?;
        }
        let names = match Names::of(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !may_create => return Err(Fault::NeverUsed),
            found => found.map_err(Fault::Files)?,
        };
        check_names(path)?;
        let before = names.look();
        let database = before.database.ok_or(Fault::Moved(None))?;
        let neighbour = Neighbour::open(database, before, poke)?;
        rescue::clear(&names);
        #[allow(unused_mut, reason = "rusqlite before 0.41 sets the handler without it")]
        let mut conn = Connection::open_with_flags(path, flags(may_create))?;
        conn.busy_handler(Some(patience::busy as fn(i32) -> bool))?;
        conn.set_prepared_statement_cache_capacity(32);
        let mut version = version(&conn, path)?;
        if version == NONE && !may_create {
            return Err(Fault::NeverUsed);
        }
        // SQLite opens it for reading if it cannot be written: enough for a look, if the files beside it are there.
        let is_read_only = conn.is_readonly(MAIN_DB)?;
        if is_read_only && purpose == Purpose::Use {
            return Err(Fault::ReadOnly);
        }
        use_wal(&conn, path)?;
        if version < VERSION && purpose == Purpose::Use {
            make_tables(&conn, path)?;
            version = VERSION;
        }
        // From its first statement on, the connection keeps SQLite in other processes from deleting the files.
        let is_ours = |files: &Files| {
            let is_known = before.files() == Some(*files) || !neighbour.is_alone(database);
            files.database == database
                && neighbour.opened(*files)
                && (is_known || place::are_open_here([files.log, files.index]))
        };
        let Some(files) = names.look().files().filter(is_ours) else {
            close_untouched(conn);
            return Err(Fault::Moved(None));
        };
        let place = Place::new(names, files);
        let durability = Cell::new(Durability::Process);
        Ok(Self { conn, durability, place, version, is_read_only, _neighbour: neighbour })
    }
}

impl Drop for Store {
    /// The last connection of all copies the log into the database when it is closed, and deletes the log by its name.
    /// If another log lies there, that would destroy the commits of other processes.
    fn drop(&mut self) {
        if self.place.is_taken() {
            let _ = self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

/// Closes a connection and leaves all files as they are.
fn close_untouched(conn: Connection) {
    let _ = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    drop(conn);
}

fn flags(may_create: bool) -> OpenFlags {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let by_us = cfg!(target_os = "linux") || !may_create;
    if by_us { flags } else { flags | OpenFlags::SQLITE_OPEN_CREATE }
}

/// A file whose locks not everybody sees would be granted to two at once.
fn check_file_system(path: &Path) -> Result<(), Fault> {
    static TOLD: Once = Once::new();
    let Ok(Some(found)) = FileSystem::of(path) else {
        return Ok(()); // Whoever opens the file says what is wrong with it.
    };
    match found.kind {
        Kind::Local | Kind::Memory => Ok(()),
        Kind::Layered => {
            TOLD.call_once(|| {
                let (database, name) = (path.display(), found.called());
                tracing::warn!(%database, "it lies on {name}, so other containers have a file of their own there; \
                    mount a volume for all who share the locks");
            });
            Ok(())
        }
        Kind::Network => Err(Fault::Told(Error::new(ErrorKind::Unsupported, not_local(path, found.called())))),
    }
}

/// Why a file system of others is refused.
pub(crate) fn not_local(path: &Path, name: &str) -> String {
    let what = match name {
        "fuse" => "a file system that another program serves, perhaps from a network",
        _ => "a file system that other machines may share",
    };
    format!(
        "{path:?} lies on {name}, {what}, and SQLite's locks do not reach over it, so two could hold one lock: \
         name a file on a local disk, or use a server (redis://HOST)"
    )
}

/// The version of the tables, or [`NONE`]; or why the database is not for us.
fn version(conn: &Connection, path: &Path) -> Result<i64, Fault> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    match conn.query_row(sql::IDENTITY, [], read)? {
        (0, 0, 0) => Ok(NONE),
        (APPLICATION, version @ FIRST..=VERSION, _) => Ok(version),
        (APPLICATION, version, _) => Err(Fault::Told(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{path:?} has version {version} of the tables and this program knows {VERSION}: update the program"
            ),
        ))),
        (_, _, _) => Err(Fault::Told(Error::new(
            ErrorKind::Corrupt,
            format!("{path:?} is the database of another program, which is left alone: name another file"),
        ))),
    }
}

/// Readers then see the last commit while somebody writes.
fn use_wal(conn: &Connection, path: &Path) -> Result<(), Fault> {
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        let message =
            format!("the file system of {path:?} has no shared memory, so SQLite cannot share the file there");
        return Err(Fault::Told(Error::new(ErrorKind::Unsupported, message)));
    }
    conn.pragma_update(None, "fullfsync", true)?; // Apple's fsync leaves the data in the disk's own memory.
    set_durability(conn, Durability::Process)
}

/// SQLite takes this between transactions only.
fn set_durability(conn: &Connection, durability: Durability) -> Result<(), Fault> {
    let level = match durability {
        Durability::Process => "normal",
        Durability::Power => "full",
    };
    Ok(conn.pragma_update(None, "synchronous", level)?)
}

/// Makes the tables, or those that an older version has not: all of them or none.
fn make_tables(conn: &Connection, path: &Path) -> Result<(), Fault> {
    let transaction = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    let version = version(&transaction, path)?; // Somebody else may have been faster.
    if version == NONE {
        transaction.execute_batch(sql::SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
    }
    if version < REGISTRY {
        transaction.execute_batch(sql::REGISTRY)?;
    }
    if version < RECORDS {
        transaction.execute_batch(sql::RECORDS)?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit().map_err(Fault::Commit)
}

/// Makes the directory and an empty file, both for their owner only, if they are not there.
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

/// Each directory that is not there, for its owner only, whatever the process takes away from new files' rights.
fn create_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent()
        && !fs::exists(parent)?
    {
        create_directory(parent)?;
    }
    #[cfg_attr(not(unix), expect(unused_mut, reason = "there are no rights to set"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done.and_then(|()| restrict(path, 0o700)),
    }?;
    // Or a power failure takes the directory with all that is in it. SQLite does the same for the directory of the
    // log. Where it may not be opened, nothing can be done about it.
    if let Some(parent) = path.parent() {
        let _ = fs::File::open(parent).and_then(|parent| parent.sync_all());
    }
    Ok(())
}

#[cfg(unix)]
fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn restrict(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

/// The file is never opened for that: another handle of this process may have it open by then, and closing any
/// descriptor of a file gives up all of a process's locks of it.
#[cfg(target_os = "linux")]
fn create_file(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0)?;
    restrict(path, 0o600)
}

#[cfg(not(target_os = "linux"))]
fn create_file(_: &Path) -> io::Result<()> {
    Ok(()) // SQLite makes it, with the rights that the process gives to new files.
}

/// SQLite keeps its log and its locks beside the *name*, so two names of one file would be two stores that overwrite
/// each other: both a lock that is held twice and a damaged file.
#[cfg(unix)]
fn check_names(path: &Path) -> Result<(), Fault> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path).map_err(Fault::Files)?;
    if !found.is_file() {
        return Ok(()); // SQLite says what is wrong with it.
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
        "{what}, and SQLite would not see who locks it under another one: give it one name, and share its directory \
         instead of the file"
    );
    Err(Fault::Told(Error::new(ErrorKind::Unsupported, message)))
}

#[cfg(not(unix))]
fn check_names(_: &Path) -> Result<(), Fault> {
    Ok(())
}

/// As `docker -v FILE:FILE` does.
#[cfg(target_os = "linux")]
fn is_mounted_by_itself(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    // A kernel before 5.8 does not tell.
    statx(CWD, path, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_mounted_by_itself(_: &Path) -> bool {
    false
}
