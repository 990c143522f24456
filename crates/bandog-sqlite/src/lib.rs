//! [bandog](https://docs.rs/bandog) on one SQLite file, shared by several processes of one machine.
//!
//! [`Sqlite`] implements the backend traits of `bandog-core`: give it to the client, or write a URL
//! (`sqlite:/var/lib/me/locks.db`) and let the `bandog` crate do so.
//!
//! # What it is, and what it is not
//! - All processes that open the same file on the same machine exclude each other. No server runs. Two machines that
//!   share the file over a network would **not** exclude each other: network file systems are refused when the file is
//!   opened. Use a server for them.
//! - Leases end by the machine's boot clock, which goes on in suspend and which no wall clock moves. A hold that was
//!   written under another boot id (before a restart, or in a container that has a boot id of its own) is held until
//!   it has been watched unrenewed for its ttl.
//! - A crash of a process or of the machine loses nothing but leases that were granted in the last moments before a
//!   power failure, and their holders are gone with them. A record that was swapped is on the disk before its swap is
//!   answered.
//! - One process that is stopped (`SIGSTOP`, a debugger) in the middle of a transaction keeps the whole file locked
//!   until it goes on or dies. Transactions last microseconds to milliseconds, so this is rare. Meanwhile looks, and
//!   claims of names that are held, are answered unless they stand behind something that must write; whatever must
//!   write ends with `Unavailable` in time, surely not applied, and the error names the process.
//! - Whoever can write to the file can take and free every lock in it, so the database, its `-wal`, `-shm` and `-bell`
//!   files are created for their owner only (0600), and a missing directory as well (0700). To share the file with a
//!   group, create it first with the rights that you want: the other files follow it.
//! - The file must not be deleted while it is in use. When that happens all the same, it is seen at the next request
//!   of each process: its holds are lost, and it goes on with the new file. When only the `-wal` or `-shm` file is
//!   deleted, the first process that makes a request copies the log into the database, and nothing is lost unless another
//!   process opened the database before that. Nor may a program that uses this crate
//!   open and close the file by itself (to copy it, say): that gives up the locks by which SQLite's processes share it.
//! - A program that updates the tables of an older version shuts out the programs of that version, which say so.
//! - It runs on Linux only. On other systems [`Sqlite::new`] returns `Unsupported`: processes there have no common
//!   clock that nobody sets.
//!
//! # How it works
//! One thread for each [`Sqlite`] does all the writing. It takes whatever stands in its queue into one transaction, so
//! many callers cost little more than one. Swaps of records wait for the disk, so they have transactions of their own,
//! between which leases have their turn. A claim of a name that is held only reads. Who waits leaves a mark in the
//! row; who frees a marked row writes to the bell file after the commit, and inotify wakes the waiters: those whose
//! name has the same slot of the file, of which there are 512. Where inotify is not to be had, bells are silent and
//! waiters poll.

mod bell;
mod check;
mod disk;
mod ears;
mod fault;
mod handle;
mod host;
mod inspect;
mod lanes;
mod leases;
mod neighbours;
mod open;
mod options;
mod patience;
mod place;
mod queue;
mod records;
mod registry;
mod rescue;
mod rules;
mod seen;
mod sql;
mod table;
#[cfg_attr(not(target_os = "linux"), path = "no_watch.rs")]
mod watch;
mod work;
mod writer;

pub use handle::Sqlite;
pub use options::SqliteOptions;

#[cfg(test)]
mod tests;
