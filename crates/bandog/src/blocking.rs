//! The same locks without async: see [`connect`].
//!
//! ```
//! # fn main() -> bandog::Result<()> {
//! # fn sweep(_fence: bandog::Fence) {}
//! let client = bandog::blocking::connect("memory:")?; // redis://localhost, sqlite:/var/lib/shop/locks.db
//! let orders = client.mutex("orders");
//! let guard = orders.lock()?; // a watchdog thread renews the lock until the guard is released or dropped
//! sweep(guard.fence());
//! guard.release()?; // an error if the lock was lost before the release
//! let swept = orders.run(|guard| guard.fence().get())?; // locks, runs the closure, releases
//! # assert!(swept > 0);
//! client.close()
//! # }
//! ```
//!
//! - The owner of a lock is a thread. If a thread locks a mutex that it already holds, the call returns another guard
//!   immediately. The lock is released when the last of these guards is released or dropped. A guard cannot be moved to
//!   another thread.
//! - In async code, a call that waits fails with [`ErrorKind::Misused`](crate::ErrorKind::Misused), because the wait
//!   would block a thread of the runtime, and so the other tasks on this thread. Inside `spawn_blocking` and
//!   `block_in_place`, calls that wait are allowed.
//! - The only way to cancel a waiting call is to call [`Client::close`] from another thread. If a program does not
//!   handle Ctrl-C, Ctrl-C ends the process, and the locks of the process expire after their ttl.
//! - `Client::singleton` and `Guard::watchdog_while` are async only, because they take async functions.
//!
//! The module `blocking` of the crate `bandog-sync` explains each of these points. The types of that module are
//! re-exported here.

#[doc(inline)]
pub use bandog_sync::blocking::{
    All, AllGuard, AnyLock, Barrier, Client, ClientRecords, Election, Expiring, Guard, Latch, Leadership, Lost, Mutex,
    Notifications, Observer, RwLock, Semaphore, WriteGuard, all,
};

use crate::{ConnectOptions, Result};

/// Connects to the store that the URL names, waits for its first answer, and returns a client for the store. The URLs
/// are the same as for [`crate::connect()`].
///
/// ```
/// # fn main() -> bandog::Result<()> {
/// let client = bandog::blocking::connect("memory:?watchdog=10s")?;
/// let Some(guard) = client.mutex("orders").try_lock()? else { return Ok(()) };
/// guard.release()
/// # }
/// ```
///
/// # Errors
/// The same errors as [`crate::connect()`]. In async code, the call fails with
/// [`ErrorKind::Misused`](crate::ErrorKind::Misused).
pub fn connect(url: impl AsRef<str>) -> Result<Client> {
    ConnectOptions::parse(url)?.connect_blocking()
}
