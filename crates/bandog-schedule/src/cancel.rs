//! Telling a run that it should stop: all of it, or one try whose time is up.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

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
    /// The attempts up to this one are over.
    over: AtomicU32,
    /// Rung after either has changed.
    bell: Notify,
}

impl Cancel {
    /// Cancels the run. The first reason stays.
    pub(crate) fn run(&self, why: Why) {
        if self.why.compare_exchange(0, why as u8, Relaxed, Relaxed).is_ok() {
            self.bell.notify_waiters();
        }
    }

    /// Cancels one try.
    pub(crate) fn attempt(&self, attempt: u32) {
        self.over.fetch_max(attempt, Relaxed);
        self.bell.notify_waiters();
    }

    /// Why the run was cancelled, if it was.
    pub(crate) fn why(&self) -> Option<Why> {
        [Why::Asked, Why::Stop, Why::Lost].into_iter().find(|why| *why as u8 == self.why.load(Relaxed))
    }

    /// Whether this try should stop.
    pub(crate) fn is_over(&self, attempt: u32) -> bool {
        self.why().is_some() || self.over.load(Relaxed) >= attempt
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
    use futures_util::{FutureExt, poll};

    use super::*;

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
