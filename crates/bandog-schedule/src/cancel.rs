//! Cancellation of a run, or of one attempt whose timeout is over.

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
    /// An operator or a newer run cancelled it.
    Requested = 1,
    /// The node stops.
    NodeStops = 2,
    /// The node's session is about to expire, or has expired.
    SessionLost = 3,
}

/// The cancellation of a run, shared by the dispatcher and the body. It allocates nothing: a hundred thousand runs may
/// start at the same time, and few of them are ever cancelled.
#[derive(Debug, Default)]
pub(crate) struct CancelToken {
    /// The first [`CancelReason`]; 0 if there is none.
    reason: AtomicU8,
    /// The node has begun to stop.
    is_stopping: AtomicBool,
    /// The attempts up to this one are cancelled.
    over: AtomicU32,
    /// Notified after a change of the fields above.
    changed: Notify,
    /// The run's future is to be dropped.
    is_dropped: AtomicBool,
    /// Wakes the run's task after a change of `is_dropped`.
    task: AssertUnwindSafe<AtomicWaker>,
}

impl CancelToken {
    /// Cancels the run. The first reason stays.
    pub(crate) fn cancel_run(&self, reason: CancelReason) {
        if self.reason.compare_exchange(0, reason as u8, Relaxed, Relaxed).is_ok() {
            self.changed.notify_waiters();
        }
    }

    /// Marks that the node stops. The run may continue until the drain is over.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        self.changed.notify_waiters();
    }

    /// Cancels one attempt.
    pub(crate) fn cancel_attempt(&self, attempt: u32) {
        self.over.fetch_max(attempt, Relaxed);
        self.changed.notify_waiters();
    }

    /// Drops the run at its current await.
    pub(crate) fn drop_now(&self) {
        self.is_dropped.store(true, Release);
        self.task.wake();
    }

    /// Polls the run until it is done or dropped.
    pub(crate) fn until_dropped(
        &self,
        future: Pin<&mut (impl Future<Output = ()> + ?Sized)>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        // In this order a concurrent drop is either seen now or wakes the task.
        self.task.register(context.waker());
        let is_over = self.is_dropped.load(Acquire) || future.poll(context).is_ready();
        if !is_over {
            return Poll::Pending;
        }
        // Frees the task, because other owners may keep the token for a long time.
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
    pub(crate) fn is_over(&self, attempt: u32) -> bool {
        self.reason().is_some() || self.over.load(Relaxed) >= attempt
    }

    /// Whether the node stops, or this attempt is cancelled.
    pub(crate) fn is_stopping(&self, attempt: u32) -> bool {
        self.is_stopping.load(Relaxed) || self.is_over(attempt)
    }

    /// Resolves when the node stops, or this attempt is cancelled.
    pub(crate) async fn stopping(&self, attempt: u32) {
        self.once(|| self.is_stopping(attempt)).await;
    }

    /// Resolves when the run is cancelled.
    pub(crate) async fn cancelled(&self) {
        self.once(|| self.reason().is_some()).await;
    }

    /// Resolves when this attempt is cancelled.
    pub(crate) async fn over(&self, attempt: u32) {
        self.once(|| self.is_over(attempt)).await;
    }

    async fn once(&self, is_so: impl Fn() -> bool) {
        loop {
            // `changed` receives every notification from here on, so none is lost between the check and the wait.
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
        assert_eq!(clock.now(), since, "its task was woken");
        assert!(dropped.is_ok() && run().await.is_ok());
        assert_eq!(begun.get(), 1);
        assert!(cancel.task.take().is_none(), "what is kept of a run keeps no task");
    }

    #[tokio::test]
    async fn a_stop_is_no_cancellation_and_a_cancellation_is_a_stop() {
        let cancel = CancelToken::default();
        let (mut stopping, mut over) = (Box::pin(cancel.stopping(1)), Box::pin(cancel.over(1)));
        assert!(poll!(&mut stopping).is_pending() && !cancel.is_stopping(1));
        cancel.stop();
        assert!(poll!(&mut stopping).is_ready() && poll!(&mut over).is_pending());
        assert!(cancel.is_stopping(1) && !cancel.is_over(1) && cancel.reason().is_none());
        let cancelled = CancelToken::default();
        let (mut first, mut second) = (Box::pin(cancelled.stopping(1)), Box::pin(cancelled.stopping(2)));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        cancelled.cancel_attempt(1);
        assert!(poll!(&mut first).is_ready() && poll!(&mut second).is_pending());
    }

    #[tokio::test]
    async fn an_attempt_is_cancelled_alone_and_a_run_with_all_its_attempts() {
        let cancel = CancelToken::default();
        let (mut first, mut second) = (Box::pin(cancel.over(1)), Box::pin(cancel.over(2)));
        let mut whole = Box::pin(cancel.cancelled());
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending() && poll!(&mut whole).is_pending());
        cancel.cancel_attempt(1);
        assert!(poll!(&mut first).is_ready() && poll!(&mut second).is_pending() && poll!(&mut whole).is_pending());
        cancel.cancel_run(CancelReason::NodeStops);
        cancel.cancel_run(CancelReason::SessionLost);
        assert!(poll!(&mut second).is_ready() && poll!(&mut whole).is_ready());
        assert_eq!(cancel.reason(), Some(CancelReason::NodeStops));
        assert!(cancel.over(7).now_or_never().is_some(), "a later future resolves at once");
    }
}
