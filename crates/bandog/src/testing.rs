//! Clients and schedulers for the tests of your own code. They need no server, and a test can pause their clock.
//!
//! | to test | use |
//! |---|---|
//! | code that locks | [`client()`] |
//! | several processes that share a store | [`Store`], and one of its clients for each process |
//! | jobs: when and on which replica each tick runs | [`TestScheduler`] |
//! | code without async | [`blocking::connect("memory:")`](crate::blocking::connect), in real time |
//!
//! Under `#[tokio::test(start_paused = true)]`, the clock jumps to the next timer whenever every task waits, so a lease
//! of an hour expires in microseconds. Without `start_paused`, the same clients run in real time. (`start_paused` needs
//! tokio's feature `test-util` in the `dev-dependencies`.)
//!
//! ```
//! use bandog::testing;
//! use std::time::Duration;
//!
//! // The code under test takes its client as a parameter.
//! async fn cancel_order(client: &bandog::Client, id: u64) -> bandog::Result<bool> {
//!     let Some(_guard) = client.mutex(format!("order-{id}")).try_lock_for(Duration::from_secs(5)).await? else {
//!         return Ok(false); // another process worked on this order for 5 s
//!     };
//!     Ok(true)
//! }
//!
//! // In a test: #[tokio::test(start_paused = true)]
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() -> bandog::Result<()> {
//!     let store = testing::Store::new();
//!     let (client, other) = (store.client(), store.client()); // two processes
//!
//!     let guard = other.mutex("order-17").lease(Duration::from_secs(60)).lock().await?;
//!     assert!(!cancel_order(&client, 17).await?); // after 5 s of virtual time
//!     guard.lost().await; // shortly before the minute is over
//!     assert!(cancel_order(&client, 17).await?);
//!     Ok(())
//! }
//! ```
//!
//! # Losing a lock
//!
//! A test can make a client lose its lock in three ways:
//! - The test lets the lease expire, as in the example above: a lock with `.lease(ttl)` is not renewed.
//! - Another client evicts the holder: `other.evict("order-17").await?`. The holder notices the loss at its next
//!   renewal.
//! - The test calls `guard.lose()`. Then the lock is lost immediately. This method needs bandog's feature `test-util`,
//!   so that no program calls it by mistake.
//!
//! # Transactions
//!
//! With bandog's feature `test-util`, the methods of the crate `bandog-sqlx` (`guard.fence_in`, `guard.commit`,
//! `guard.begin`, `run.commit`, `run.begin`) accept a lock or a run of a store in memory in a transaction of any database, also after
//! `connect("memory:")`. They fail with `Lost` once the lock is lost or the run has ended, as with a store in this
//! database, and `run.commit` fails with `Misused` at another level than READ COMMITTED. They do not keep another client from the lock until the transaction ends, and a run can be completed more
//! than once: tests of this need the database as their store.
//! Pools need real time: under a paused clock, their timeouts are over at once. `docs/recipes.md` has a test.
//!
//! # Why this module needs no feature flag
//!
//! Every build of bandog contains the memory store and tokio's clock anyway. This module adds only a few lines of code.
//! Because it has no feature flag, a first test needs no change in `Cargo.toml`.

use bandog_core::{Clock, Memory};
use bandog_sync::{Client, ClientOptions};

#[cfg(feature = "schedule")]
#[doc(inline)]
pub use bandog_schedule::{TestOutcome, TestRun, TestScheduler, TestSetting};

/// A client with a new store in memory. The client runs on the current runtime and uses tokio's clock, which a test can
/// pause.
///
/// ```
/// # use std::time::Duration;
/// // In a test: #[tokio::test(start_paused = true)]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> bandog::Result<()> {
/// let client = bandog::testing::client();
/// let guard = client.mutex("orders").lease(Duration::from_secs(3600)).lock().await?;
/// guard.lost().await; // after almost an hour of virtual time
/// assert!(client.mutex("orders").try_lock_for(Duration::from_secs(60)).await?.is_some());
/// # Ok(()) }
/// ```
///
/// # Panics
/// Outside a Tokio runtime.
#[must_use = "a client ends with its last handle"]
#[track_caller]
pub fn client() -> Client {
    Store::new().client()
}

/// A store in memory. The clients of one test share the store as processes share a server. All clones of this value are
/// the same store.
///
/// ```
/// // In a test: #[tokio::test(start_paused = true)]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> bandog::Result<()> {
/// let store = bandog::testing::Store::new();
/// let (one, other) = (store.client(), store.client());
/// let guard = one.mutex("orders").lock().await?;
/// assert!(other.mutex("orders").try_lock().await?.is_none());
/// drop(guard);
/// one.idle().await; // the release has reached the store
/// assert!(other.mutex("orders").try_lock().await?.is_some());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Store {
    memory: Memory,
}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self { memory: memory(Clock::tokio()) }
    }

    /// A new client of this store. In a test, each client stands for a process. The watchdog has the default ttl, 30 s.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    #[must_use = "a client ends with its last handle"]
    #[track_caller]
    pub fn client(&self) -> Client {
        self.client_with(|options| options)
    }

    /// A new client of this store, with changed options.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> bandog::Result<()> {
    /// let store = bandog::testing::Store::new();
    /// let client = store.client_with(|options| options.watchdog(Duration::from_secs(10)).prefix("shop:"));
    /// # client.close().await }
    /// ```
    ///
    /// # Panics
    /// Outside a Tokio runtime, and if [`ClientOptions::over`] refuses the options.
    #[must_use = "a client ends with its last handle"]
    #[track_caller]
    pub fn client_with(&self, change: impl FnOnce(ClientOptions) -> ClientOptions) -> Client {
        let options = Client::options().clock(Clock::tokio()).on_current_runtime();
        match change(options).over(self.memory.clone()) {
            Ok(client) => client,
            Err(error) => panic!("no client for a test: {error}"),
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

/// A store in memory. With the feature `test-util`, transactions in any database can check its locks.
pub(crate) fn memory(clock: Clock) -> Memory {
    let memory = Memory::new(clock);
    if cfg!(feature = "test-util") { memory.with_sql() } else { memory }
}
