//! How a thread waits until the lock of another thread is lost or released.

use std::sync::Arc;

use bandog_core::{Clock, Result};

use super::{thread, wait::wait_at_most};
use crate::turn_status::{TurnState, TurnStatus};

/// A handle with which a thread can wait until a lock is lost or released. Created by
/// [`Guard::lost`](super::Guard::lost). Unlike the guard, this handle can be sent to another thread, and it can be used
/// after the guard is dropped.
///
/// ```
/// # fn main() -> bandog::Result<()> {
/// # let client = bandog::blocking::connect("memory:")?;
/// # fn interrupt_the_work() {}
/// let guard = client.mutex("orders").lock()?;
/// let lost = guard.lost();
/// let watch = std::thread::spawn(move || {
///     if lost.wait()? {
///         interrupt_the_work();
///     }
///     bandog::Result::Ok(())
/// });
/// guard.release()?; // ends the other thread's wait, too
/// watch.join().unwrap()
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Lost {
    status: Arc<TurnStatus>,
    clock: Clock,
}

impl Lost {
    pub(super) fn new(status: Arc<TurnStatus>, clock: Clock) -> Self {
        Self { status, clock }
    }

    /// Waits until the lock is lost or released. Returns true if the lock was lost or its client was closed, and false
    /// if the lock was released.
    ///
    /// A loss is reported before the store can grant the lock to another client. There is one exception: if the store
    /// itself lost the lock, or the clock of the store jumped, the loss is reported at the next renewal.
    ///
    /// # Errors
    /// `ErrorKind::Misused` in async code.
    pub fn wait(&self) -> Result<bool> {
        thread::may_block("wait for a loss")?;
        loop {
            // The wake-up is registered before the status is read, so that no change is missed.
            let woken = self.status.woken();
            let now = self.clock.now();
            match self.status.state(now) {
                // The loop reads the status again at the deadline, so it sees a loss even if the engine is too busy to
                // report it.
                TurnState::Held { until } => drop(wait_at_most(woken, until.since(now), self.clock)),
                TurnState::Lost | TurnState::Closed => return Ok(true),
                TurnState::Released => return Ok(false),
            }
        }
    }
}
