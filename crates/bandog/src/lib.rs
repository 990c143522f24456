//! Distributed locks with a watchdog, on the Redis that a team already runs, in one SQLite file, or in memory.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
//! # async fn sweep(_fence: bandog::Fence) {}
//! let client = bandog::connect("memory:").await?; // redis://localhost, sqlite:/var/lib/shop/locks.db
//! let orders = client.mutex("orders");
//! let guard = orders.lock().await?; // renewed by a watchdog until it is released or dropped
//! tokio::select! { biased;
//!     () = guard.lost() => println!("somebody else may hold it now"),
//!     () = sweep(guard.fence()) => guard.release().await?,
//! }
//! # Ok(()) }
//! ```
//!
//! Without async, the same words stand in [`blocking`].
//!
//! What a lock promises on each backend, and what it cannot promise, is in `docs/GUARANTEES.md`.

pub mod blocking;
mod connect;
mod url;

pub use bandog_core::{
    Backend, ClientId, Clock, Error, ErrorKind, Fence, Finding, Key, Level, MAX_KEY_LEN, MAX_TTL, MIN_TTL, Member,
    Pattern, Result, Row,
};
pub use bandog_sync::{Client, ClientOptions, Expiring, Guard, Lost, Mutex, Owner};

pub use self::connect::{ConnectOptions, connect};
pub use self::url::{redact, without_secrets};

/// What a backend is made of, for those who write one.
pub mod backend {
    pub use bandog_core::{
        Answer, Backend, Bell, Claim, ClaimId, Fences, Inspect, Kind, Leases, MAX_WAITS, Memory, Moment, Profile,
        Released, Renewal, Ringer, Step, Verdict,
    };
}
