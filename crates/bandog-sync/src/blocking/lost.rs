//! How a thread learns of a loss that another one works under.

use std::sync::Arc;

use bandog_core::{Clock, Result};

use super::{thread, wait::wait_at_most};
use crate::turn_status::{Standing, TurnStatus};

/// Tells how a lock ends; made by [`Guard::lost`](super::Guard::lost). Unlike the guard it may go to another thread,
/// and it outlives the guard.
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

    /// Waits until the lock has ended: true when it was lost, or its client closed; false when it was given back.
    ///
    /// A loss is told before anybody else can be granted the lock, unless the store itself forgot it or its clock
    /// jumped: then at the next renewal.
    ///
    /// # Errors
    /// `Misused` in async code.
    pub fn wait(&self) -> Result<bool> {
        thread::may_block("wait for a loss")?;
        loop {
            // The wake is asked for before the look, so that nothing falls between the two.
            let woken = self.status.woken();
            let now = self.clock.now();
            match self.status.standing(now) {
                // At the deadline it is lost, whether or not the engine has the time to say so.
                Standing::Held { until } => drop(wait_at_most(woken, until.since(now), self.clock)),
                Standing::Lost | Standing::Closed => return Ok(true),
                Standing::Released => return Ok(false),
            }
        }
    }
}
