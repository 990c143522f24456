//! The same locks without async: see [`connect`].
//!
//! ```
//! # fn main() -> bandog::Result<()> {
//! # fn sweep(_fence: bandog::Fence) {}
//! let client = bandog::blocking::connect("memory:")?; // redis://localhost, sqlite:/var/lib/shop/locks.db
//! let orders = client.mutex("orders");
//! let guard = orders.lock()?; // renewed by a watchdog on a thread of its own, until it is released or dropped
//! sweep(guard.fence());
//! guard.release()?; // an error when the lock had been lost meanwhile
//! let swept = orders.run(|guard| guard.fence().get())?; // locks, runs, gives back
//! # assert!(swept > 0);
//! client.close()
//! # }
//! ```
//!
//! - The thread is the owner: what it holds it gets again at once, counted. Guards stay in their thread.
//! - In async code, calls that wait are `Misused` instead of stopping a runtime's other tasks; they work in
//!   `spawn_blocking` and `block_in_place`.
//! - Nothing cancels a call that waits, but [`Client::close`] from another thread. Ctrl-C without a handler ends the
//!   process, and its locks end with their ttl.
//!
//! More on each stands in the module `blocking` of the crate `bandog-sync`, which this re-exports.

#[doc(inline)]
pub use bandog_sync::blocking::{Client, Guard, Lost, Mutex};

use crate::{ConnectOptions, Result};

/// A client for the store that the URL names, once it has answered. URLs are those of [`crate::connect()`].
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
/// As [`crate::connect()`], and `Misused` in async code.
pub fn connect(url: impl AsRef<str>) -> Result<Client> {
    ConnectOptions::parse(url)?.connect_blocking()
}
