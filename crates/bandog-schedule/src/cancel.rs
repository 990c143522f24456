//! Cancellation of a run, or of one attempt that has exceeded its timeout.

use std::{
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

/// The reason of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CancelReason {
    /// An operator or a newer run cancelled the run.
    Requested = 1,
    /// The node stops.
    NodeStops = 2,
    /// The node's session is about to expire, or has expired.
    SessionLost = 3,
}

/// The cancellation state of a run, shared by the dispatcher and the body. The token allocates no memory, because a
/// hundred thousand runs might start at the same time, and few of them are ever cancelled.
#[derive(Debug, Default)]
pub(crate) struct CancelToken {
    /// The first [`CancelReason`] as a number; 0 if the run is not cancelled.
    reason: AtomicU8,
    /// Whether the node has begun to stop.
    is_stopping: AtomicBool,
    /// Attempts with this number or a lower one are cancelled.
    cancelled_attempts: AtomicU32,
    /// The body of the attempt with this number has observed that its attempt is cancelled.
    observed_attempt: AtomicU32,
    /// Is notified after a change of `reason`, `is_stopping` or `cancelled_attempts`.
    changed: Notify,
    /// Whether the run's future must be dropped at its next poll.
    must_drop: AtomicBool,
    /// Wakes the run's task after a change of `must_drop`.
    task: AssertUnwindSafe<AtomicWaker>,
}

impl CancelToken {
    /// Cancels the run. If the run is cancelled already, the first reason stays.
    pub(crate) fn cancel_run(&self, reason: CancelReason) {
        if self.reason.compare_exchange(0, reason as u8, Relaxed, Relaxed).is_ok() {
            self.changed.notify_waiters();
        }
    }

    /// Notifies the run that the node stops. The run can continue until the drain (the time that a stop leaves to runs)
    /// has passed.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        self.changed.notify_waiters();
    }

    /// Cancels one attempt.
    pub(crate) fn cancel_attempt(&self, attempt: u32) {
        self.cancelled_attempts.fetch_max(attempt, Relaxed);
        self.changed.notify_waiters();
    }

    /// Requests that the run is dropped at its current await.
    pub(crate) fn drop_now(&self) {
        self.must_drop.store(true, Release);
        self.task.wake();
    }

    /// Polls the run's future once. The result is ready if the run has ended, or if the run must be dropped.
    pub(crate) fn until_dropped(
        &self,
        future: Pin<&mut (impl Future<Output = ()> + ?Sized)>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        // The waker is registered before `must_drop` is read. So if `drop_now` is called at the same time, either this
        // poll reads true, or `drop_now` wakes the task.
        self.task.register(context.waker());
        let is_over = self.must_drop.load(Acquire) || future.poll(context).is_ready();
        if !is_over {
            return Poll::Pending;
        }
        // Removes the waker. Otherwise the waker would keep the task in memory as long as any owner keeps the token.
        drop(self.task.take());
        Poll::Ready(())
    }

    /// The reason of the run's cancellation, if it was cancelled.
    pub(crate) fn reason(&self) -> Option<CancelReason> {
        [CancelReason::Requested, CancelReason::NodeStops, CancelReason::SessionLost]
            .into_iter()
            .find(|reason| *reason as u8 == self.reason.load(Relaxed))
    }

    /// Whether this attempt is cancelled.
    pub(crate) fn is_attempt_cancelled(&self, attempt: u32) -> bool {
        self.reason().is_some() || self.cancelled_attempts.load(Relaxed) >= attempt
    }

    /// As [`Self::is_attempt_cancelled`], for the body of the attempt: a true result is kept as observed.
    pub(crate) fn observe(&self, attempt: u32) -> bool {
        let is_cancelled = self.is_attempt_cancelled(attempt);
        if is_cancelled {
            self.observed_attempt.fetch_max(attempt, Relaxed);
        }
        is_cancelled
    }

    /// Whether the body of this attempt has observed that the attempt is cancelled.
    pub(crate) fn is_observed(&self, attempt: u32) -> bool {
        self.observed_attempt.load(Relaxed) >= attempt
    }

    /// Whether the node stops, or this attempt is cancelled. Is called by the body of the attempt.
    pub(crate) fn is_stopping(&self, attempt: u32) -> bool {
        self.observe(attempt) || self.is_stopping.load(Relaxed)
    }

    /// Resolves when the node stops, or this attempt is cancelled.
    pub(crate) async fn stopping(&self, attempt: u32) {
        self.once(|| self.is_stopping(attempt)).await;
    }

    /// Resolves when the run is cancelled.
    pub(crate) async fn cancelled(&self) {
        self.once(|| self.reason().is_some()).await;
    }

    /// Resolves when this attempt is cancelled. Is called by the body of the attempt.
    pub(crate) async fn attempt_cancelled(&self, attempt: u32) {
        self.once(|| self.observe(attempt)).await;
    }

    /// Resolves when `is_so` returns true. `is_so` is called again after each change of the token.
    async fn once(&self, is_so: impl Fn() -> bool) {
        loop {
            // From this line on, `changed` receives every notification. So no notification is lost between the call of
            // `is_so` and the wait.
            let changed = self.changed.notified();
            if is_so() {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::poll_fn, time::Duration};

    use bandog_core::Clock;
    use futures_util::{FutureExt, join, poll};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_waiting_run_is_dropped_and_one_that_has_not_started_never_starts() {
        let (cancel, begun) = (CancelToken::default(), Cell::new(0));
        let run = || {
            let mut future = Box::pin(async {
                begun.set(begun.get() + 1);
                std::future::pending().await
            });
            let dropped = poll_fn({
                let cancel = &cancel;
                move |context| cancel.until_dropped(future.as_mut(), context)
            });
            timeout(Duration::from_secs(1), dropped)
        };
        let clock = Clock::tokio();
        let since = clock.now();
        let (dropped, ()) = join!(run(), async { cancel.drop_now() });
        assert_eq!(clock.now(), since, "`drop_now` woke the task, so no time passed");
        assert!(dropped.is_ok() && run().await.is_ok());
        assert_eq!(begun.get(), 1);
        assert!(cancel.task.take().is_none(), "the token keeps no task in memory after the run");
    }

    #[tokio::test]
    async fn a_stop_cancels_no_run_and_a_cancelled_run_counts_as_stopping() {
        let cancel = CancelToken::default();
        let (mut stopping, mut over) = (Box::pin(cancel.stopping(1)), Box::pin(cancel.attempt_cancelled(1)));
        assert!(poll!(&mut stopping).is_pending() && !cancel.is_stopping(1));
        cancel.stop();
        assert!(poll!(&mut stopping).is_ready() && poll!(&mut over).is_pending());
        assert!(cancel.is_stopping(1) && !cancel.is_attempt_cancelled(1) && cancel.reason().is_none());
        let cancelled = CancelToken::default();
        let (mut first, mut second) = (Box::pin(cancelled.stopping(1)), Box::pin(cancelled.stopping(2)));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        cancelled.cancel_attempt(1);
        assert!(poll!(&mut first).is_ready() && poll!(&mut second).is_pending());
    }

    #[tokio::test]
    async fn an_attempt_is_cancelled_alone_and_a_run_with_all_its_attempts() {
        let cancel = CancelToken::default();
        let (mut first, mut second) = (Box::pin(cancel.attempt_cancelled(1)), Box::pin(cancel.attempt_cancelled(2)));
        let mut whole = Box::pin(cancel.cancelled());
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending() && poll!(&mut whole).is_pending());
        cancel.cancel_attempt(1);
        assert!(poll!(&mut first).is_ready() && poll!(&mut second).is_pending() && poll!(&mut whole).is_pending());
        cancel.cancel_run(CancelReason::NodeStops);
        cancel.cancel_run(CancelReason::SessionLost);
        assert!(poll!(&mut second).is_ready() && poll!(&mut whole).is_ready());
        assert_eq!(cancel.reason(), Some(CancelReason::NodeStops));
        assert!(
            cancel.attempt_cancelled(7).now_or_never().is_some(),
            "a future that is created after the cancellation resolves immediately"
        );
    }
}
