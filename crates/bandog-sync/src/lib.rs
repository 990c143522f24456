//! Locks over any backend: the engine, the watchdog, and guards that know when they are lost.
//!
//! Users add the `bandog` crate, which re-exports this one. A [`Client`] is made over a
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

pub mod blocking;
mod caller;
mod client;
mod engine;
mod guard;
mod health;
mod mutex;
mod notifications;
mod owner;
mod prefix;
mod records;
mod singleton;
mod turn_status;

#[doc(hidden)]
pub use client::OutageReporter;
pub use client::{Client, ClientOptions};
pub use guard::{Expiring, Guard, Lost};
pub use health::Health;
pub use mutex::Mutex;
pub use notifications::Notifications;
pub use owner::Owner;
