//! The same locks without async: a call that waits blocks its thread, and the thread is the owner.
//!
//! ```
//! # fn main() -> bandog::Result<()> {
//! let client = bandog::blocking::connect("memory:")?;
//! let orders = client.mutex("orders");
//! let guard = orders.lock()?;
//! let again = orders.lock()?; // the same thread: at once, counted, without a request to the store
//! assert_eq!(again.fence(), guard.fence());
//! again.release()?;
//! guard.release()?; // the last one releases the lock
//! client.close()
//! # }
//! ```
//!
//! The engine and its mailbox are the same: the engine renews locks on its own thread while this one works, and async
//! and blocking calls of one client wait in one queue. So it needs an engine with a thread of its own, not
//! [`crate::ClientOptions::on_current_runtime`].
//!
//! # Inside a Tokio runtime
//! A call that would block a thread on which tasks run is `Misused`, and does nothing:
//!
//! | called from | what happens |
//! |---|---|
//! | a thread outside runtimes, or one that has only entered a runtime's `Handle` | works |
//! | `spawn_blocking`, `block_in_place` | works |
//! | a task, or the future of `block_on`, on any kind of runtime | `Misused` |
//! | `tokio::task::unconstrained`, hooks and destructors that a runtime runs between tasks, other runtimes | not detected: the call blocks the thread, and tasks of that thread count as one owner |
//!
//! A guard may be dropped anywhere, and its drop does not wait for the store. The drop of a client's last handle does,
//! for 100 ms at most.
//!
//! # Interrupts
//! A signal cannot cancel a call that waits. Ctrl-C ends a process that has no handler for it: no lock is released, and
//! all expire after their ttl, as after any crash. A program with a handler calls [`Client::close`] from another
//! thread: every lock is released, and every call that waits ends as `Closed`.

mod client;
mod guard;
mod lock;
mod lost;
mod mutex;
mod thread;
mod wait;

pub use client::Client;
pub use guard::Guard;
pub use lost::Lost;
pub use mutex::Mutex;
