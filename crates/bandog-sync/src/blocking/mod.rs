//! The same locks as in the async API, for code without async. A call that waits blocks its thread. Each thread is the
//! owner of the locks that it takes.
//!
//! ```
//! # fn main() -> bandog::Result<()> {
//! let client = bandog::blocking::connect("memory:")?;
//! let orders = client.mutex("orders");
//! let guard = orders.lock()?;
//! let again = orders.lock()?; // The same thread locks again, without a request to the store.
//! assert_eq!(again.fence(), guard.fence());
//! again.release()?;
//! guard.release()?; // The last guard releases the lock.
//! client.close()
//! # }
//! ```
//!
//! The async and the blocking calls of one client use the same engine, and wait in the same queue. The engine renews
//! locks on its own thread while the user's threads work or wait. A client that was started with
//! [`crate::ClientOptions::on_current_runtime`] has no such thread, so it has no blocking calls.
//!
//! [`crate::Client::singleton`] and [`crate::Guard::watchdog_while`] take async functions, so they have no blocking form.
//!
//! # Inside a Tokio runtime
//! While a runtime polls a task on a thread, a blocking call on that thread would also block other tasks. Such a call
//! returns `ErrorKind::Misused`, and does nothing else:
//!
//! | called from | what happens |
//! |---|---|
//! | a thread outside runtimes, or one that has only entered a runtime's `Handle` | works |
//! | `spawn_blocking`, `block_in_place` | works |
//! | a task, or the future of `block_on`, on any kind of runtime | `Misused` |
//! | `tokio::task::unconstrained`, hooks and destructors that a runtime runs between tasks, runtimes other than Tokio | not detected: the call blocks the thread, and tasks of that thread count as one owner |
//!
//! A guard can be dropped anywhere, and its drop does not wait for the store. There is one exception: when the last
//! clone, mutex or guard of a client is dropped, that drop waits for 100 ms at most.
//!
//! # Interrupts
//! A signal cannot cancel a call that waits. Without a signal handler, Ctrl-C ends the process. In that case the locks
//! of the process are not released. They expire after their ttl, as after a crash. A program with a signal handler
//! should call [`Client::close`] from another thread. `close` releases all locks, and all waiting calls return
//! `ErrorKind::Closed`.

mod all;
mod barrier;
mod calls;
mod client;
mod election;
mod guard;
mod latch;
mod lock;
mod lost;
mod mutex;
mod records;
mod rwlock;
mod semaphore;
mod thread;
mod wait;

pub use all::{All, AllGuard, AnyLock, all};
pub use barrier::Barrier;
pub use client::Client;
pub use election::{Election, Leadership, Observer};
pub use guard::Guard;
pub use latch::Latch;
pub use lost::{Expiring, Lost};
pub use mutex::Mutex;
pub use records::{ClientRecords, Notifications};
pub use rwlock::{RwLock, WriteGuard};
pub use semaphore::Semaphore;
