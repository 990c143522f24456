//! The guard of a lock, and the two futures that report its end.

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
    engine::{HoldId, Msg},
    handle::Handle,
    turn_status::{TurnState, TurnStatus},
};

/// A lock that is held, until it is released, dropped or lost.
///
/// A lease can expire while its guard lives: the process may have been stopped, or the store may have lost the lock. So
/// a guard knows its deadline, which is before the moment at which the store may grant the lock to another client. Work
/// that must not run twice watches [`Guard::lost`] and sends [`Guard::fence`] along with its writes.
///
/// Dropping it releases the lock in the background; [`Guard::release`] also reports the result.
#[must_use = "a lock is released as soon as its guard is dropped"]
pub struct Guard {
    turn: Arc<Turn>,
}

impl Guard {
    pub(crate) fn of(turn: Arc<Turn>) -> Self {
        Self { turn }
    }

    /// The fencing token of this grant. Guards of one re-entry have the same one.
    pub fn fence(&self) -> Fence {
        self.turn.fence
    }

    /// The lock's name.
    pub fn key(&self) -> &Key {
        &self.turn.key
    }

    /// The lock and the claim that holds it in the store, for conditions of [`Swap`](bandog_core::Swap)s. Guards that
    /// take turns at one hold share it.
    pub fn holding(&self) -> Holding {
        let id = ClaimId { client: self.turn.handle.id, number: self.turn.hold };
        Holding { key: self.turn.key.clone(), id }
    }

    /// Whether another client may hold the lock now. Once true, it stays true. It reads the clock, and does no I/O.
    pub fn is_lost(&self) -> bool {
        self.check_held().is_err()
    }

    /// Time until the lock is lost if no renewal succeeds from now on; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        self.turn.status.remaining(self.turn.handle.clock.now())
    }

    /// Resolves when the lock is lost: at once if it was lost before, never if it is released.
    ///
    /// It resolves before another client can be granted the lock, unless the store itself lost the lock or its clock
    /// jumped: then at the next renewal. The future is `Clone` and outlives the guard.
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
        Lost(self.watch_deadline(Duration::ZERO))
    }

    /// Resolves `grace` before [`Guard::lost`] would, for callers that must stop something first. A renewal that
    /// succeeds moves it; it may resolve although a later renewal saves the lock.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn expiring(&self, grace: Duration) -> Expiring {
        // If the engine has ended, the turn is lost and the future sees it.
        let _ = self.turn.handle.send(Msg::WarnBefore { key: self.turn.key.clone(), hold: self.turn.hold, grace });
        Expiring(self.watch_deadline(grace))
    }

    /// Releases the lock and reports the result. Of several guards of one owner only the last one releases it.
    ///
    /// If a call of this client waits for the same lock, the hold passes on to it without a request to the store.
    ///
    /// # Errors
    /// `Lost` when it had been lost before: another holder may have done the same work since then. `Unavailable` when
    /// the store gave no answer in its request timeout; the release continues in the background, and the lock is free
    /// after its ttl at the latest. `Closed` after [`crate::Client::close`].
    ///
    /// # Cancel safety
    /// The lock is released even if this future is dropped, polled or not.
    pub async fn release(self) -> Result<()> {
        let standing = self.check_held();
        let Some(mut turn) = Arc::into_inner(self.turn) else { return standing };
        let (report, answer) = oneshot::channel();
        turn.report = Some(report);
        drop(turn);
        answer.await.unwrap_or_else(|_| Err(Error::closed()))
    }

    /// Makes the guard lost, as if its lease had expired, to test how a program reacts. The store still has the lock,
    /// until the guard is dropped or the ttl has passed.
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

    pub(crate) fn check_held(&self) -> Result<()> {
        self.turn.check_held()
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.turn.handle
    }

    /// The turn's status and the clock to read it with.
    pub(crate) fn status_and_clock(&self) -> (Arc<TurnStatus>, Clock) {
        (Arc::clone(&self.turn.status), self.turn.handle.clock)
    }

    fn watch_deadline(&self, grace: Duration) -> DeadlineWatch {
        DeadlineWatch { status: Arc::clone(&self.turn.status), clock: self.turn.handle.clock, grace, woken: None }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut guard = f.debug_struct("Guard");
        guard.field("key", self.key()).field("fence", &self.fence().get()).field("lost", &self.is_lost()).finish()
    }
}

/// One caller's use of a hold; the guards of one re-entry share it. Its drop frees the hold.
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
    pub(crate) fn check_held(&self) -> Result<()> {
        match self.status.state(self.handle.clock.now()) {
            TurnState::Held { .. } | TurnState::Released => Ok(()),
            TurnState::Lost => Err(Error::lost(&self.key)),
            TurnState::Closed => Err(Error::closed().at(&self.key)),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(owner) = &self.owner {
            owner.forget(&self.key);
        }
        // An engine that has ended has released all that it could.
        let (key, report) = (self.key.clone(), self.report.take());
        let _ = self.handle.send(Msg::Release { key, hold: self.hold, report });
    }
}

/// Resolves when its lock is lost; see [`Guard::lost`].
#[derive(Debug, Clone)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Lost(DeadlineWatch);

/// Resolves shortly before its lock is lost; see [`Guard::expiring`].
#[derive(Debug, Clone)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Expiring(DeadlineWatch);

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

/// Resolves when a turn is lost or closed, or `grace` before its deadline.
struct DeadlineWatch {
    status: Arc<TurnStatus>,
    clock: Clock,
    grace: Duration,
    woken: Option<Pin<Box<OwnedNotified>>>,
}

impl DeadlineWatch {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            // The wake-up is registered before the status is read, so that no change is missed.
            let woken = self.woken.get_or_insert_with(|| Box::pin(self.status.woken()));
            let now = self.clock.now();
            match self.status.state(now) {
                TurnState::Held { until } if until.since(now) > self.grace => {}
                TurnState::Held { .. } | TurnState::Lost | TurnState::Closed => return Poll::Ready(()),
                TurnState::Released => {} // It never resolves.
            }
            if woken.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.woken = None;
        }
    }
}

impl Clone for DeadlineWatch {
    fn clone(&self) -> Self {
        Self { status: Arc::clone(&self.status), clock: self.clock, grace: self.grace, woken: None }
    }
}

impl fmt::Debug for DeadlineWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineWatch").field("grace", &self.grace).finish_non_exhaustive()
    }
}
