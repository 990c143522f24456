//! How a thread waits until the locks of another thread are lost or released, or shortly before their loss.

use std::{sync::Arc, time::Duration};

use bandog_core::{Clock, Moment, Result};
use futures_util::future::select_all;

use super::{thread, wait::wait_at_most};
use crate::{
    Guard,
    pause::check_limit,
    turn_status::{TurnState, TurnStatus},
};

/// A handle with which a thread can wait until a lock is lost or released. Created by
/// [`Guard::lost`](super::Guard::lost), and by the guards of several locks and of a leadership. Unlike the guard, this
/// handle can be sent to another thread, and it can be used after the guard is dropped.
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
pub struct Lost(Watch);

/// A handle with which a thread can wait until a lock is about to be lost. Created by
/// [`Guard::expiring`](super::Guard::expiring), and by the guards of several locks and of a leadership.
#[derive(Debug, Clone)]
pub struct Expiring(Watch);

/// Several locks, and the time before their deadlines at which the wait ends.
#[derive(Debug, Clone)]
struct Watch {
    /// The status of each lock, and the clock that is needed to read the status.
    locks: Vec<(Arc<TurnStatus>, Clock)>,
    grace: Duration,
}

impl Lost {
    /// A handle that reports the loss of any of these locks.
    pub(super) fn of_any<'a, S: 'a>(guards: impl IntoIterator<Item = &'a Guard<S>>) -> Self {
        Self(Watch { locks: guards.into_iter().map(Guard::status_and_clock).collect(), grace: Duration::ZERO })
    }

    /// Waits until the lock is lost or released. Returns true if the lock was lost or its client was closed, and false
    /// if the lock was released. With several locks, returns true if one of them was lost, and false if all of them
    /// were released.
    ///
    /// A loss is reported before the store can grant the lock to another client. There is one exception: if the store
    /// itself lost the lock, or the clock of the store jumped, the loss is reported at the next renewal.
    ///
    /// # Errors
    /// `ErrorKind::Misused` in async code.
    pub fn wait(&self) -> Result<bool> {
        self.0.wait(None)
    }

    /// As [`Lost::wait`], but waits for at most `limit`. The maximum is 365 days. Returns false also if no lock was lost by
    /// then. If `limit` is zero, the call returns immediately.
    ///
    /// # Errors
    /// `ErrorKind::Misused` in async code, and if the limit is too long.
    pub fn wait_for(&self, limit: Duration) -> Result<bool> {
        self.0.wait_for(limit)
    }
}

impl Expiring {
    pub(super) fn of_any<'a, S: 'a>(guards: impl IntoIterator<Item = &'a Guard<S>>, grace: Duration) -> Self {
        Self(Watch { locks: guards.into_iter().map(Guard::status_and_clock).collect(), grace })
    }

    /// Waits until only the grace time is left before the first lock is lost. Returns true then, and false if all locks
    /// were released. Even after true, a renewal can still succeed. In that case the lock is not lost.
    ///
    /// # Errors
    /// `ErrorKind::Misused` in async code.
    pub fn wait(&self) -> Result<bool> {
        self.0.wait(None)
    }

    /// As [`Expiring::wait`], but waits for at most `limit`. The maximum is 365 days. Returns false also if more than the
    /// grace time is left then. If `limit` is zero, the call returns immediately.
    ///
    /// # Errors
    /// `ErrorKind::Misused` in async code, and if the limit is too long.
    pub fn wait_for(&self, limit: Duration) -> Result<bool> {
        self.0.wait_for(limit)
    }
}

impl Watch {
    fn wait_for(&self, limit: Duration) -> Result<bool> {
        self.wait(Some(Clock::system().now() + check_limit(limit)?.unwrap_or_default()))
    }

    /// `until` is a moment of the system's clock. `None` if the wait has no limit.
    fn wait(&self, until: Option<Moment>) -> Result<bool> {
        thread::may_block("wait for a loss")?;
        loop {
            // The wake-ups are registered before the statuses are read, so that no change is missed.
            let woken: Vec<_> = self.locks.iter().map(|(status, _)| Box::pin(status.woken())).collect();
            let mut nearest: Option<(Duration, Clock)> = None;
            for (status, clock) in &self.locks {
                let now = clock.now();
                match status.seen(now) {
                    TurnState::Held { until } if until.since(now) <= self.grace => return Ok(true),
                    TurnState::Held { until } => {
                        let left = until.since(now).saturating_sub(self.grace);
                        nearest = nearest.filter(|(least, _)| *least <= left).or(Some((left, *clock)));
                    }
                    TurnState::Lost | TurnState::Closed => return Ok(true),
                    TurnState::Released => {}
                }
            }
            // The loop reads the statuses again at the first deadline, so it sees a loss even if the engine is too busy
            // to report it.
            let Some((left, clock)) = nearest else { return Ok(false) };
            let rest = until.map_or(left, |until| until.since(Clock::system().now()).min(left));
            if rest.is_zero() {
                return Ok(false);
            }
            drop(wait_at_most(select_all(woken), rest, clock));
        }
    }
}
