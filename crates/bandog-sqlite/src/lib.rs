//! [bandog](https://docs.rs/bandog) on one SQLite file, shared by several processes of one machine.
//!
//! [`Sqlite`] implements the backend traits of `bandog-core`. Give it to the client, or pass a URL
//! (`sqlite:/var/lib/me/locks.db`) to the `bandog` crate, which creates it.
//!
//! # What it is, and what it is not
//! - All processes that open the same file on the same machine exclude each other. No server runs. Two machines that
//!   share the file over a network would **not** exclude each other, so a file on a network file system is refused when
//!   it is opened. Use a server for them.
//! - Leases expire by the machine's boot clock, which continues during suspend and which nothing can set. A hold that
//!   was written under another boot id (before a restart, or in a container with its own boot id) counts as held until
//!   this boot has observed it without a renewal for its ttl.
//! - A crash of a process or of the machine loses at most the leases that were granted in the last moments before a
//!   power failure; their holders are lost with them. A swap of a record is on the disk before it is answered.
//! - A process that is stopped (`SIGSTOP`, a debugger) in the middle of a transaction keeps the whole file locked until
//!   it continues or dies. Transactions last microseconds to milliseconds, so this is rare. Meanwhile queries, and
//!   claims of held names, are answered unless they are queued behind a write. A write fails with `Unavailable` at its
//!   timeout; it was certainly not applied, and the error names the stopped process.
//! - A process that can write to the file can take and free every lock in it. So the database and its `-wal`, `-shm`
//!   and `-bell` files are created for their owner only (0600), and so is a missing directory (0700). To share the file
//!   with a group, create it first with the permissions that you want: the other files get the same ones.
//! - The file must not be deleted while it is in use. If it is deleted, each process detects that at its next request:
//!   its holds are lost, and it continues with the new file. If only the `-wal` or `-shm` file is deleted, the first
//!   process that makes a request copies the log into the database, and nothing is lost unless another process opened
//!   the database before that.
//! - A program that uses this crate must not open and close the file itself (to copy it, for example): closing the file
//!   releases the locks that SQLite uses between processes.
//! - A program that upgrades the tables of an older version locks out the programs of that version; they report it.
//! - It runs on Linux only. On other systems [`Sqlite::new`] returns `Unsupported`: processes there have no common
//!   clock that cannot be set.
//!
//! # How it works
//! Each [`Sqlite`] has one thread that does all of the work on the database. The thread combines all queued requests
//! into one transaction, so that many callers share one commit. Swaps of records wait for the
//! disk. They have their own transactions, and transactions of leases run between them. A claim of a held name only
//! reads. A waiter
//! sets a mark in the row; a process that frees a marked row writes to the notification file (`-bell`) after the
//! commit, and inotify wakes the waiters whose names share that slot of the file. The file has 512 slots. If inotify is
//! not available, subscriptions are silent and waiters poll.

mod batches;
mod busy_wait;
mod check;
mod disk;
mod fault;
mod handle;
mod host;
mod inspect;
mod leases;
mod notification_file;
mod open;
mod open_files;
mod options;
mod other_connections;
mod records;
mod registry;
mod request;
mod rescue;
mod rules;
mod sightings;
mod sql;
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
