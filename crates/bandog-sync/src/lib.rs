//! Distributed locks that work with any backend: an engine that sends all requests, a watchdog that renews locks, and
//! guards that know whether their lock is lost.
//!
//! Users add the `bandog` crate, which re-exports this one. A [`Client`] is started over a
//! [`Backend`](bandog_core::Backend).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
//! let client = bandog::connect("memory:").await?;
//! let orders = client.mutex("orders");
//! let guard = orders.lock().await?;
//! assert!(orders.try_lock().await?.is_none());
//! guard.release().await?;
//! client.close().await
//! # }
//! ```

mod all;
mod barrier;
pub mod blocking;
mod caller;
mod client;
mod detached;
mod election;
mod engine;
mod guard;
mod handle;
mod health;
mod lane;
mod latch;
mod lock;
mod lock_options;
mod mutex;
mod notifications;
mod options;
mod owner;
mod pause;
mod prefix;
mod process;
mod profile;
mod records;
mod retry;
mod rwlock;
mod semaphore;
mod singleton;
mod terms;
mod turn;
mod turn_status;
mod unused;

pub use all::{All, AllGuard, AnyLock, IntoAnyLock, all};
pub use barrier::{Arrival, Barrier};
pub use client::Client;
pub use detached::Token;
pub use election::{Election, Leader, Leadership, Observer};
pub use guard::{ExclusiveHold, Expiring, Guard, Lost, SharedHold};
#[doc(hidden)]
pub use handle::OutageReporter;
pub use health::Health;
pub use latch::Latch;
pub use mutex::Mutex;
pub use notifications::Notifications;
pub use options::ClientOptions;
pub use owner::Owner;
pub use profile::StoreProfile;
pub use records::ClientRecords;
pub use rwlock::{RwLock, WriteGuard};
pub use semaphore::Semaphore;
#[doc(hidden)]
pub use unused::{Sweep, Swept};
