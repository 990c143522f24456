//! The same locks without async: see [`connect`].
//!
//! ```
//! # fn main() -> bandog::Result<()> {
//! # fn sweep(_fence: bandog::Fence) {}
//! let client = bandog::blocking::connect("memory:")?; // redis://localhost, sqlite:/var/lib/shop/locks.db
//! let orders = client.mutex("orders");
//! let guard = orders.lock()?; // a watchdog thread renews it until it is released or dropped
//! sweep(guard.fence());
//! guard.release()?; // an error if the lock was lost before the release
//! let swept = orders.run(|guard| guard.fence().get())?; // locks, runs the closure, releases
//! # assert!(swept > 0);
//! client.close()
//! # }
//! ```
//!
//! - The owner of a lock is a thread. If a thread locks a mutex that it already holds, it gets another guard
//!   immediately, and the lock is released with the last guard. A guard cannot leave its thread.
//! - In async code, a call that waits fails with [`ErrorKind::Misused`](crate::ErrorKind::Misused), because it would
//!   stop the other tasks of the runtime. Such calls work in `spawn_blocking` and `block_in_place`.
//! - The only way to cancel a waiting call is to call [`Client::close`] from another thread. If a program does not
//!   handle Ctrl-C, Ctrl-C ends the process, and the locks of the process expire after their ttl.
//!
//! The module `blocking` of the crate `bandog-sync` explains each of these points. Its types are re-exported here.

#[doc(inline)]
pub use bandog_sync::blocking::{Client, Guard, Lost, Mutex};

use crate::{ConnectOptions, Result};

/// Waits for the first answer of the store that the URL names, and returns a client for it. URLs are those of
/// [`crate::connect()`].
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
/// The errors of [`crate::connect()`]. In async code, the call fails with
/// [`ErrorKind::Misused`](crate::ErrorKind::Misused).
pub fn connect(url: impl AsRef<str>) -> Result<Client> {
    ConnectOptions::parse(url)?.connect_blocking()
}
