//! How the caller extends a fixed lease.

use std::{pin::pin, time::Duration};

use bandog_core::{Error, Result, check_ttl};
use futures_util::future::{Either, select};
use tokio::sync::oneshot;

use super::Guard;
use crate::{
    engine::Msg,
    pause::{check_timer, sleep},
};

/// Maximum pause between an extension without an answer and the next one.
const MAX_RETRY_DELAY: Duration = Duration::from_millis(200);

impl<S> Guard<S> {
    /// Extends a fixed lease ([`crate::Mutex::lease`]): from now on, the lock is held for at least `ttl`, from 100 ms to 365
    /// days. The lease is never shortened: if more than `ttl` is left, the call only checks that the store still has the
    /// lock.
    ///
    /// The store decides: after `Ok`, it has the lock with the new end, and [`Guard::remaining`] and [`Guard::lost`] follow
    /// it, counted from the moment before the request. If the store has not answered, the guard keeps its earlier deadline.
    /// The client repeats the request, so a later answer can still move the deadline. A
    /// [`max_hold`](crate::Mutex::max_hold) ends the lock at its time, extended or not.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// # let pages = ["one", "two"];
    /// # async fn import(_page: &str, _fence: bandog::Fence) {}
    /// let minute = Duration::from_secs(60);
    /// let guard = client.mutex("import").lease(minute).lock().await?;
    /// for page in pages {
    ///     guard.extend(minute).await?; // an import that hangs loses the lock after a minute
    ///     import(page, guard.fence()).await;
    /// }
    /// guard.release().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// - `ErrorKind::Lost`: the lock is lost. It was lost before, or the store does not have it any more.
    /// - `ErrorKind::Unavailable`: the store did not answer within one request timeout.
    /// - `ErrorKind::Misused`: the ttl is not allowed, or the lock has a watchdog and no lease.
    /// - `ErrorKind::Closed`: the client was closed.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the lease may be extended nevertheless.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        let with_key = |error: Error| error.during("extend").at(self.turn.key());
        let ttl = check_ttl("the extended lease", ttl).map_err(with_key)?;
        self.check_held()?;
        let (report, answer) = oneshot::channel();
        let (slot, hold) = (self.turn.slot.clone(), self.turn.hold);
        self.handle.send(Msg::Extend { slot, hold, ttl, report })?;
        match answer.await {
            Ok(extended) => extended.map_err(with_key),
            // The slot has dropped the report, because the lock is lost or the client was closed.
            Err(_) => self.check_held().and(Err(Error::closed().at(self.turn.key()))),
        }
    }

    /// A watchdog that renews a fixed lease only while the work makes progress, so a job that hangs loses its lock.
    ///
    /// When a third of `ttl` has passed, `progress` is called. If it returns true within another third, the lease is
    /// extended to `ttl` ([`Guard::extend`]). If it returns false, or does not return in that time, nothing is extended, and
    /// it is called again a third later. So the lock is lost when there was no progress for a `ttl` since the last
    /// extension. The guard reports this loss as any other ([`Guard::lost`]), and so does this future.
    ///
    /// The future must be polled beside the work. It never resolves while the lock is held: it returns the error that
    /// ended it. If the work blocks the task that polls both, nothing is extended either, and the lock is lost.
    ///
    /// ```
    /// # use std::{sync::atomic::{AtomicU64, Ordering::Relaxed}, time::Duration};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// # async fn import(rows: &AtomicU64) { rows.fetch_add(1, Relaxed); }
    /// let ttl = Duration::from_secs(30);
    /// let guard = client.mutex("import").lease(ttl).lock().await?;
    /// let (rows, mut before) = (AtomicU64::new(0), 0);
    /// let has_progress = async || std::mem::replace(&mut before, rows.load(Relaxed)) < rows.load(Relaxed);
    /// tokio::select! { biased;
    ///     error = guard.watchdog_while(ttl, has_progress) => return Err(error), // the import is dropped
    ///     () = import(&rows) => {}
    /// }
    /// guard.release().await
    /// # }
    /// ```
    ///
    /// # Returns
    /// The error: `ErrorKind::Lost` if the lock is lost, and `Misused`, `Denied` or `Closed` as [`Guard::extend`].
    /// `ErrorKind::Misused` also if the future is polled outside a Tokio runtime. While the store does not answer, the
    /// request is repeated until the lock is lost.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lease is not extended any more. The closure's future is dropped if it does not return
    /// in time.
    pub async fn watchdog_while(&self, ttl: Duration, mut progress: impl AsyncFnMut() -> bool) -> Error {
        if let Err(error) = check_timer("watchdog_while").and_then(|()| check_ttl("the lease", ttl).map(drop)) {
            return error.at(self.turn.key());
        }
        let (clock, third) = (self.handle.clock, ttl / 3);
        let mut pause = self.time_until_due(ttl);
        loop {
            let step = async {
                sleep(clock, pause).await;
                match select(pin!(progress()), pin!(sleep(clock, third))).await {
                    Either::Left((true, _)) => {}
                    Either::Left((false, _)) => return Ok(third),
                    Either::Right(_) => return Ok(Duration::ZERO), // Another third has passed.
                }
                match self.extend(ttl).await {
                    Ok(()) => Ok(self.time_until_due(ttl)),
                    Err(error) if error.is_retryable() => Ok(MAX_RETRY_DELAY.min(ttl / 10)),
                    Err(error) => Err(error),
                }
            };
            let next = match select(self.lost(), pin!(step)).await {
                Either::Left(((), _)) => self.check_held().and(Err(Error::lost(self.turn.key()))),
                Either::Right((next, _)) => next,
            };
            match next {
                Ok(time) => pause = time,
                Err(error) => return error,
            }
        }
    }

    /// Time until only two thirds of this ttl are left.
    fn time_until_due(&self, ttl: Duration) -> Duration {
        self.remaining().saturating_sub(ttl - ttl / 3)
    }
}
