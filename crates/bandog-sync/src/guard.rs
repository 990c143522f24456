//! A right to a lock, and the two futures that tell of its end.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bandog_core::{ClaimId, Clock, Error, Fence, Holding, Key, Result};
use tokio::sync::{futures::OwnedNotified, oneshot};

use crate::{
    Owner,
    client::Handle,
    engine::{HoldId, Msg},
    turn_status::{Standing, TurnStatus},
};

/// A lock that is held, until it is released, dropped or lost.
///
/// A lease can end while a guard lives: the process may have been stopped, or the store may have forgotten. So a
/// guard knows its deadline, which lies before the moment at which the store may grant the lock to somebody else.
/// Work that must not run twice watches [`Guard::lost`] and sends [`Guard::fence`] along with its writes.
///
/// Dropping it gives the lock back in the background; [`Guard::release`] does so and reports.
#[must_use = "a lock is given back as soon as its guard is dropped"]
pub struct Guard {
    turn: Arc<Turn>,
}

impl Guard {
    pub(crate) fn of(turn: Arc<Turn>) -> Self {
        Self { turn }
    }

    /// The fencing token of this grant. Guards of one re-entry have the same.
    pub fn fence(&self) -> Fence {
        self.turn.fence
    }

    /// The lock's name.
    pub fn key(&self) -> &Key {
        &self.turn.key
    }

    /// The lock and the claim that holds it in the store, for conditions of [`Swap`](bandog_core::Swap)s. Guards that take
    /// turns at one hold share it.
    pub fn holding(&self) -> Holding {
        let id = ClaimId { client: self.turn.handle.id, number: self.turn.hold };
        Holding { key: self.turn.key.clone(), id }
    }

    /// Whether somebody else may hold the lock now. Once true it stays true. It reads the clock, and costs no I/O.
    pub fn is_lost(&self) -> bool {
        self.standing().is_err()
    }

    /// How long the lock stays ours if no renewal succeeds from now on; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        self.turn.status.remaining(self.turn.handle.clock.now())
    }

    /// Resolves when the lock is lost: at once if it was lost before, never if it is released.
    ///
    /// It fires before anybody else can be granted the lock, unless the store itself forgot it or its clock jumped:
    /// then at the next renewal. The future is `Clone` and outlives the guard.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::connect("memory:").await?;
    /// # async fn sweep(fence: bandog::Fence) -> &'static str { "swept" }
    /// let guard = client.mutex("orders").lock().await?;
    /// let done = tokio::select! { biased;
    ///     () = guard.lost() => "interrupted",
    ///     done = sweep(guard.fence()) => done,
    /// };
    /// assert_eq!(done, "swept");
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn lost(&self) -> Lost {
        Lost(self.ending(Duration::ZERO))
    }

    /// Resolves `grace` before [`Guard::lost`] would, for those who must stop something first. A renewal that
    /// succeeds moves it on; it may resolve although the lock is saved by a later renewal.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn expiring(&self, grace: Duration) -> Expiring {
        // If the engine has ended, the turn is lost and the future sees it.
        let _ = self.turn.handle.send(Msg::WarnBefore { hold: self.turn.hold, grace });
        Expiring(self.ending(grace))
    }

    /// Gives the lock back and reports. Of several guards of one owner only the last gives it back.
    ///
    /// When somebody in this process waits for the same lock, the hold passes on to them, and the store is not asked.
    ///
    /// # Errors
    /// `Lost` when it had been lost before: what was done since then may have been done by somebody else too.
    /// `Unavailable` when the store gave no answer in its request timeout; the release goes on in the background, and
    /// the lock is free after its ttl at the latest. `Closed` after [`crate::Client::close`].
    ///
    /// # Cancel safety
    /// The lock is given back even if this future is dropped, once it has been polled or not.
    pub async fn release(self) -> Result<()> {
        let standing = self.standing();
        let Some(mut turn) = Arc::into_inner(self.turn) else { return standing };
        let (report, answer) = oneshot::channel();
        turn.report = Some(report);
        drop(turn);
        answer.await.unwrap_or_else(|_| Err(Error::closed()))
    }

    /// Makes the guard lost, as if its lease had run out: for tests of what a program does then. The store still has
    /// the lock, until the guard is dropped or the ttl ends.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::connect("memory:").await?;
    /// let guard = client.mutex("orders").lock().await?;
    /// guard.lose();
    /// guard.lost().await;
    /// assert!(guard.is_lost());
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "test-util")]
    pub fn lose(&self) {
        self.turn.status.lose();
    }

    pub(crate) fn standing(&self) -> Result<()> {
        self.turn.standing()
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.turn.handle
    }

    /// Where its end is told, and on which clock.
    pub(crate) fn watched(&self) -> (Arc<TurnStatus>, Clock) {
        (Arc::clone(&self.turn.status), self.turn.handle.clock)
    }

    fn ending(&self, grace: Duration) -> Ending {
        Ending { status: Arc::clone(&self.turn.status), clock: self.turn.handle.clock, grace, woken: None }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut guard = f.debug_struct("Guard");
        guard.field("key", self.key()).field("fence", &self.fence().get()).field("lost", &self.is_lost()).finish()
    }
}

/// One user's right to a hold; the guards of one re-entry share it. Its end frees the hold.
pub(crate) struct Turn {
    pub(crate) hold: HoldId,
    pub(crate) key: Key,
    pub(crate) fence: Fence,
    pub(crate) status: Arc<TurnStatus>,
    pub(crate) owner: Option<Owner>,
    pub(crate) report: Option<oneshot::Sender<Result<()>>>,
    /// The last field, so that the client ends after the release has been sent.
    pub(crate) handle: Arc<Handle>,
}

impl Turn {
    pub(crate) fn standing(&self) -> Result<()> {
        match self.status.standing(self.handle.clock.now()) {
            Standing::Held { .. } | Standing::Released => Ok(()),
            Standing::Lost => Err(Error::lost(&self.key)),
            Standing::Closed => Err(Error::closed().at(&self.key)),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(owner) = &self.owner {
            owner.forget(&self.key);
        }
        // If the engine has ended, it has given everything back that it could.
        let _ = self.handle.send(Msg::Free { hold: self.hold, report: self.report.take() });
    }
}

/// Resolves when its lock is lost; see [`Guard::lost`].
#[derive(Debug, Clone)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Lost(Ending);

/// Resolves shortly before its lock is lost; see [`Guard::expiring`].
#[derive(Debug, Clone)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Expiring(Ending);

impl Future for Lost {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll(context)
    }
}

impl Future for Expiring {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll(context)
    }
}

struct Ending {
    status: Arc<TurnStatus>,
    clock: Clock,
    grace: Duration,
    woken: Option<Pin<Box<OwnedNotified>>>,
}

impl Ending {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            // The wake is asked for before the look, so that nothing falls between the two.
            let woken = self.woken.get_or_insert_with(|| Box::pin(self.status.woken()));
            let now = self.clock.now();
            match self.status.standing(now) {
                Standing::Held { until } if until.since(now) > self.grace => {}
                Standing::Held { .. } | Standing::Lost | Standing::Closed => return Poll::Ready(()),
                Standing::Released => {} // Nobody will ever wake it.
            }
            if woken.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.woken = None;
        }
    }
}

impl Clone for Ending {
    fn clone(&self) -> Self {
        Self { status: Arc::clone(&self.status), clock: self.clock, grace: self.grace, woken: None }
    }
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ending").field("grace", &self.grace).finish_non_exhaustive()
    }
}
