//! Telling a run that it should stop: all of it, or one try whose time is up.

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

/// Why a run should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Why {
    /// Somebody, or its successor, cancelled it.
    Asked = 1,
    /// The node stops.
    Stop = 2,
    /// Its lease is about to end, or has ended.
    Lost = 3,
}

/// What a run shares with those who may cancel it. It allocates nothing: a hundred thousand runs may begin at once, and
/// hardly one of them is ever cancelled.
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    /// The first [`Why`]; 0 while nobody has cancelled it.
    why: AtomicU8,
    /// The node has begun to stop.
    is_stopping: AtomicBool,
    /// The attempts up to this one are over.
    over: AtomicU32,
    /// Rung after one of them has changed.
    bell: Notify,
    /// The run is dropped where it stands.
    is_dropped: AtomicBool,
    /// Wakes the run's task, so that it sees that.
    task: AssertUnwindSafe<AtomicWaker>,
}

impl Cancel {
    /// Cancels the run. The first reason stays.
    pub(crate) fn run(&self, why: Why) {
        if self.why.compare_exchange(0, why as u8, Relaxed, Relaxed).is_ok() {
            self.bell.notify_waiters();
        }
    }

    /// The node begins to stop; the run may go on until the drain is over.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        self.bell.notify_waiters();
    }

    /// Cancels one try.
    pub(crate) fn attempt(&self, attempt: u32) {
        self.over.fetch_max(attempt, Relaxed);
        self.bell.notify_waiters();
    }

    /// Drops the run where it stands.
    pub(crate) fn drop_now(&self) {
        self.is_dropped.store(true, Release);
        self.task.wake();
    }

    /// Goes on until it is done, or the run is dropped.
    pub(crate) fn until_dropped(
        &self,
        going: Pin<&mut (impl Future<Output = ()> + ?Sized)>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        // In this order, a drop in between is seen now or wakes the task.
        self.task.register(context.waker());
        let is_over = self.is_dropped.load(Acquire) || going.poll(context).is_ready();
        if !is_over {
            return Poll::Pending;
        }
        // What is left of the run may be kept for long, and its task need not be.
        drop(self.task.take());
        Poll::Ready(())
    }

    /// Why the run was cancelled, if it was.
    pub(crate) fn why(&self) -> Option<Why> {
        [Why::Asked, Why::Stop, Why::Lost].into_iter().find(|why| *why as u8 == self.why.load(Relaxed))
    }

    /// Whether this try should stop.
    pub(crate) fn is_over(&self, attempt: u32) -> bool {
        self.why().is_some() || self.over.load(Relaxed) >= attempt
    }

    /// Whether this try should come to its end: the node stops, or the try is over.
    pub(crate) fn is_stopping(&self, attempt: u32) -> bool {
        self.is_stopping.load(Relaxed) || self.is_over(attempt)
    }

    /// Resolves when this try should come to its end.
    pub(crate) async fn stopping(&self, attempt: u32) {
        self.once(|| self.is_stopping(attempt)).await;
    }

    /// Resolves when the run is cancelled.
    pub(crate) async fn cancelled(&self) {
        self.once(|| self.why().is_some()).await;
    }

    /// Resolves when this try should stop.
    pub(crate) async fn over(&self, attempt: u32) {
        self.once(|| self.is_over(attempt)).await;
    }

    async fn once(&self, is_so: impl Fn() -> bool) {
        loop {
            // It hears every ring from here on, so none is lost between the question and the wait.
            let rung = self.bell.notified();
            if is_so() {
                return;
            }
            rung.await;
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
    async fn a_run_that_waits_is_dropped_where_it_stands_and_one_that_has_not_begun_never_begins() {
        let (cancel, begun) = (Cancel::default(), Cell::new(0));
        let run = || {
            let mut going = Box::pin(async {
                begun.set(begun.get() + 1);
                std::future::pending().await
            });
            let dropped = poll_fn({
                let cancel = &cancel;
                move |context| cancel.until_dropped(going.as_mut(), context)
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
        let cancel = Cancel::default();
        let (mut stopping, mut over) = (Box::pin(cancel.stopping(1)), Box::pin(cancel.over(1)));
        assert!(poll!(&mut stopping).is_pending() && !cancel.is_stopping(1));
        cancel.stop();
        assert!(poll!(&mut stopping).is_ready() && poll!(&mut over).is_pending());
        assert!(cancel.is_stopping(1) && !cancel.is_over(1) && cancel.why().is_none());
        let cancelled = Cancel::default();
        let (mut first, mut second) = (Box::pin(cancelled.stopping(1)), Box::pin(cancelled.stopping(2)));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        cancelled.attempt(1);
        assert!(poll!(&mut first).is_ready() && poll!(&mut second).is_pending());
    }

    #[tokio::test]
    async fn a_try_is_over_alone_and_a_run_with_all_its_tries() {
        let cancel = Cancel::default();
        let (mut first, mut second) = (Box::pin(cancel.over(1)), Box::pin(cancel.over(2)));
        let mut whole = Box::pin(cancel.cancelled());
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending() && poll!(&mut whole).is_pending());
        cancel.attempt(1);
        assert!(poll!(&mut first).is_ready() && poll!(&mut second).is_pending() && poll!(&mut whole).is_pending());
        cancel.run(Why::Stop);
        cancel.run(Why::Lost);
        assert!(poll!(&mut second).is_ready() && poll!(&mut whole).is_ready());
        assert_eq!(cancel.why(), Some(Why::Stop));
        assert!(cancel.over(7).now_or_never().is_some(), "whoever asks later is told at once");
    }
}
