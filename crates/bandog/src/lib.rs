//! Distributed locks with a watchdog, and jobs that run once in a cluster, on a store that a team already runs.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
//! # async fn sweep(_fence: bandog::Fence) {}
//! let client = bandog::connect("memory:").await?; // or the URL of another store, see below
//! let orders = client.mutex("orders");
//! let guard = orders.lock().await?; // a watchdog renews the lock until the guard is released or dropped
//! tokio::select! { biased;
//!     () = guard.lost() => println!("another process may hold the lock now"),
//!     () = sweep(guard.fence()) => guard.release().await?,
//! }
//! # Ok(()) }
//! ```
//!
//! [`blocking`] has the same calls without async. [`macro@locked`] runs a whole function under a lock.
//! [`macro@scheduled`] and [`schedule`] run jobs. A tick is a time at which a job is due. At each tick, one node of the
//! cluster runs the job.
//!
//! # Stores
//!
//! | store | URL | page in the repository |
//! |---|---|---|
//! | memory: tests, and the tasks of one process | `memory:`, `memory:NAME` | `docs/GUARANTEES.md` |
//! | SQLite: the processes of one machine | `sqlite:PATH` | `docs/sqlite.md` |
//! | Redis, one server | `redis://HOST`, `rediss://HOST` with TLS | `docs/redis.md` |
//! | Redis with Sentinel | `redis+sentinel://HOST,HOST/MASTER` | `docs/redis.md` |
//! | Redis Cluster | `redis+cluster://HOST,HOST` | `docs/redis.md` |
//! | a quorum of Redis servers | `redis+quorum://HOST,HOST,HOST` | `docs/redis-quorum.md` |
//! | PostgreSQL | `postgres://USER@HOST/DATABASE` | `docs/postgres.md` |
//! | MySQL and MariaDB | `mysql://USER@HOST/DATABASE` | `docs/mysql.md` |
//! | ZooKeeper | `zookeeper://HOST,HOST,HOST/FOLDER` | `docs/zookeeper.md` |
//!
//! Each store but memory and Redis needs a feature. A quorum has mutexes and read-write locks, and no jobs; the other
//! stores have all kinds.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `grid` | no | work queues on each store but ZooKeeper and a quorum; maps, queues and other shared objects, on Redis and in memory |
//! | `mysql` | no | the backend for MySQL and MariaDB |
//! | `postgres` | no | the backend for PostgreSQL |
//! | `redis` | yes | the backend for Redis |
//! | `schedule` | yes | jobs, `locked` and `scheduled`; otherwise cron, time zones and serde are not compiled |
//! | `sqlite` | no | the backend for SQLite, which compiles a C library |
//! | `zookeeper` | no | the backend for ZooKeeper |
//! | `zookeeper-tls` | no | the same, also over TLS. It compiles a second library of cryptography, which takes long |
//! | `test-util` | no | `Guard::lose`, which makes a test lose a lock; transactions check locks of a store in memory |
//!
//! # In your tests
//!
//! [`testing`] has clients that need no server. A test can pause their clock, so that a lease of an hour expires in
//! microseconds.
//!
//! ```
//! use std::time::Duration;
//!
//! // In a test: #[tokio::test(start_paused = true)]
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() -> bandog::Result<()> {
//!     let store = bandog::testing::Store::new();
//!     let (client, other) = (store.client(), store.client()); // two processes
//!
//!     let guard = client.mutex("orders").lease(Duration::from_secs(3600)).lock().await?;
//!     assert!(other.mutex("orders").try_lock().await?.is_none());
//!     guard.lost().await; // shortly before the hour is over: no other process can get the lock yet
//!     assert!(other.mutex("orders").try_lock_for(Duration::from_secs(60)).await?.is_some());
//!     Ok(())
//! }
//! ```
//!
//! `docs/locks.md` and `docs/grid.md` have a program for each kind of lock and each object, and the names of its methods.
//! `docs/GUARANTEES.md` lists what a lock promises on every store, and what it cannot promise.

#[cfg(feature = "grid")]
#[doc(hidden)]
#[path = "cached.rs"]
pub mod __cached;
#[cfg(feature = "schedule")]
#[doc(hidden)]
#[path = "locked.rs"]
pub mod __locked;
pub mod blocking;
mod connect;
mod file;
mod paused;
mod store;
pub mod testing;
mod url;

#[doc(inline)]
pub use bandog_core::{Error, ErrorKind, Fence, Key, Outcome, Pattern, Result, SqlDialect, SqlStatement};
#[cfg(feature = "grid")]
#[doc(inline)]
pub use bandog_macros::{Live, cached, remote, task};
#[cfg(feature = "schedule")]
#[doc(inline)]
pub use bandog_macros::{locked, scheduled};
#[doc(inline)]
pub use bandog_net::Credentials;
#[doc(inline)]
pub use bandog_sync::{
    All, AllGuard, AnyLock, Arrival, Barrier, Client, Election, ExclusiveHold, Expiring, Guard, Health, IntoAnyLock,
    Latch, Leader, Leadership, Lost, Mutex, Observer, Owner, RwLock, Semaphore, SharedHold, Token, WriteGuard, all,
};

pub use self::connect::{ConnectOptions, connect};

#[cfg(feature = "grid")]
#[doc(inline)]
pub use bandog_grid as grid;
#[cfg(feature = "schedule")]
#[doc(inline)]
pub use bandog_schedule as schedule;
#[cfg(feature = "grid")]
#[doc(inline)]
pub use bandog_work as work;

/// The types of what operators read: the states of locks, the registered clients, and the findings of a check.
pub mod admin {
    #[cfg(feature = "grid")]
    #[doc(inline)]
    pub use bandog_core::structures::{Cursor, Elements, ObjectRow, ObjectState, Structure, Values};
    #[doc(inline)]
    pub use bandog_core::{ClientId, Finding, Holder, LatchRow, Level, Member, Row, Waiting};
    #[doc(inline)]
    pub use bandog_sync::StoreProfile;

    pub use crate::url::{redact, without_secrets};
}

/// The traits and types for writing a backend, and for programs that use one directly.
///
/// The crate `bandog-conformance` of the same repository has the laws, which are tests that every backend must pass.
/// The docs of `bandog-conformance` show a whole backend of about sixty lines, and its tests.
pub mod backend {
    #[doc(inline)]
    pub use bandog_core::{
        Answer, Backend, BlockedCall, BlockedCalls, Claim, ClaimId, Clock, Fences, Hold, Holding, IfUnused, Inspect,
        Kind, Kinds, LatchAction, LatchAnswer, LatchOperation, Latches, Leases, Line, LockState, MAX_BLOCKED,
        MAX_BLOCKED_HOLDS, MAX_KEY_LEN, MAX_TTL, MAX_WAITS, MIN_TTL, Memory, Moment, NamesPage, Notifier, OperationId,
        PORTION, Portion, Portions, Profile, QuorumNode, Reading, Record, Records, Released, Renewal, Reports, Step,
        Subscription, Swap, Swapped, Swaps, Usage, Verdict, Version,
    };
    #[doc(inline)]
    pub use bandog_sync::{ClientOptions, ClientRecords, Notifications};
}

/// The examples of the README, which are compiled with the doctests.
#[cfg(all(doctest, feature = "grid"))]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// The programs of the page about the kinds of locks. The doctests run them.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/locks.md")]
mod locks_page {}

/// The programs of the first page. The doctests run them.
#[cfg(all(doctest, feature = "grid"))]
#[doc = include_str!("../../../docs/start.md")]
mod start_page {}

/// The programs of the page about the data grid. The doctests run them.
#[cfg(all(doctest, feature = "grid"))]
#[doc = include_str!("../../../docs/grid.md")]
mod grid_page {}

/// The programs of the page about work queues. The doctests run them.
#[cfg(all(doctest, feature = "grid"))]
#[doc = include_str!("../../../docs/work.md")]
mod work_page {}

/// The programs of the page about caches. The doctests run them.
#[cfg(all(doctest, feature = "grid"))]
#[doc = include_str!("../../../docs/caching.md")]
mod caching_page {}
