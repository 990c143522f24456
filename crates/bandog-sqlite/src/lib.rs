//! [bandog](https://docs.rs/bandog) on one SQLite file, shared by several processes of one machine.
//!
//! [`Sqlite`] implements the backend traits of `bandog-core`. Give a [`Sqlite`] to the client, or pass a URL
//! (`sqlite:/var/lib/me/locks.db`) to the `bandog` crate, which creates the backend.
//!
//! # Promises and limits
//! - All processes that open the same file on the same machine exclude each other. No server is needed. Two machines
//!   that share the file over a network would **not** exclude each other. So a file on a network file system is refused
//!   when it is opened. Use a server to share locks between machines.
//! - Leases expire by the machine's boot clock. This clock continues during suspend, and no program can set it. Each
//!   hold contains the boot id under which it was written. If the machine was restarted since then, or if the hold was
//!   written in a container with its own boot id, the times of the hold belong to another clock. In this case, a
//!   process counts the lock as held until it has observed the hold for the hold's ttl without a renewal.
//! - A crash of a process loses nothing. A crash or a power failure of the machine might lose the leases that were
//!   granted shortly before the crash. The processes that held these leases have ended, too. A swap of a record is on
//!   the disk before the swap is answered.
//! - A process that is stopped (by `SIGSTOP` or by a debugger) in the middle of a transaction keeps the whole file
//!   locked until it continues or dies. This is rare, because transactions last microseconds to milliseconds. While the
//!   file is locked, queries and claims of held locks are answered, unless a write precedes them in the queue. A write
//!   fails with `ErrorKind::Unavailable` at its timeout. Then it was certainly not applied, and the error names the
//!   stopped process.
//! - A process that can write to the file can take and free every lock in it. So only the owner gets access to the
//!   database and its `-wal`, `-shm` and `-bell` files (0600), and to missing directories that are created (0700). To
//!   share the file with a group, create the database file first with the permissions that you want. The other files
//!   get the same permissions.
//! - The file must not be deleted while it is in use. If it is deleted, each process detects the deletion at its next
//!   request. The holds of the process are lost, and the process continues with a new file. If only the `-wal` or
//!   `-shm` file is deleted, the first process that makes a request copies the log into the database. Then nothing is
//!   lost. But commits can be lost if another process opens the database before this copy.
//! - A program that uses this crate must not open and close the file itself, for example to copy it. Closing the file
//!   would release the locks that SQLite uses between processes.
//! - If a program upgrades the tables of an older version, programs of that version can no longer use the file, and
//!   report an error.
//! - This crate works on Linux only. On other systems [`Sqlite::new`] returns `ErrorKind::Unsupported`, because these
//!   systems have no clock that all processes share and that no program can set.
//!
//! - The name of a lock is held as one family of kinds at a time. This also applies to programs of an older version,
//!   which know mutexes only and still have the file open: they cannot take a mutex while another kind holds its name.
//! - A queue of thousands of claims for one fair mutex works, but each release and each new claim reads the whole queue
//!   of the lock.
//!
//! # How it works
//! Each [`Sqlite`] has one thread that does all work on the database. The thread combines all queued requests into one
//! transaction, so that many callers share one commit. Swaps of records wait for the disk. So they have their own
//! transactions, and transactions of leases run between these transactions. A claim of a held lock only reads.
//!
//! The hold of a mutex is one row. For the other kinds, each hold and each place in a queue has a row of its own, and the
//! rules of `bandog_core::LockState` decide.
//!
//! A waiter sets the waiters' mark in the row of the lock. A process that frees a lock with this mark writes to the
//! notification file (`-bell`) after the commit. The file has 512 slots, and the hash of the lock's name selects the
//! slot. Inotify then wakes the waiters whose names have this slot. The waiters of a fair mutex have a slot for each
//! claim, and a release wakes only the claim that is next in the queue. If inotify is not available, subscriptions are
//! silent and waiters poll.

mod batches;
mod busy_wait;
mod check;
mod claim_rows;
mod context;
mod disk;
mod fault;
mod handle;
mod host;
mod inspect;
mod leases;
mod long_queue;
mod notification_file;
mod open;
mod open_files;
mod options;
mod other_connections;
mod queue_layout;
mod queue_rows;
mod queues;
mod records;
mod registry;
mod request;
mod rescue;
mod rules;
mod sightings;
mod sql;
mod states;
mod stored_state;
mod subscribers;
mod table;
#[cfg_attr(not(target_os = "linux"), path = "no_watch.rs")]
mod watch;
mod work;
mod writer;

pub use handle::Sqlite;
pub use options::SqliteOptions;

#[cfg(test)]
mod tests;
