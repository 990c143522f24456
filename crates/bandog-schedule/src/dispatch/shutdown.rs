//! The stop of the dispatcher, which begins with the drain (the time for which runs can continue). Also keeps the
//! callers that wait until no run is under way.

use std::time::Duration;

use bandog_core::{Moment, Result};
use tokio::sync::oneshot;

/// If the store answers but does not accept the end of a run, a stop waits at most this time.
const MAX_REFUSAL: Duration = Duration::from_secs(10);

/// The stop, if one has begun, and the callers that wait until no run is under way.
#[derive(Debug, Default)]
pub(super) struct Shutdown {
    stop: Option<Stop>,
    idle_waiters: Vec<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct Stop {
    /// End of the drain. None: the runs can continue for whatever time, until a further stop sets it.
    until: Option<Moment>,
    /// Whether the drain is over and the runs are cancelled.
    is_drained: bool,
    /// Since this time, no run is under way and the store answers, but some events are not written. None if this is not
    /// the case now.
    refused_since: Option<Moment>,
    /// They receive the result of the stop.
    done: Vec<oneshot::Sender<Result<()>>>,
}

/// The work that a stop might have to wait for.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenWork {
    /// Whether no run is under way and every event is written.
    pub(super) is_settled: bool,
    pub(super) has_runs: bool,
    pub(super) has_store: bool,
    pub(super) is_store_down: bool,
}

impl Shutdown {
    /// Begins the stop. `until`: the end of the drain. Returns false if a stop has begun before. Then this call only ends
    /// a drain that has no end.
    pub(super) fn begin(&mut self, until: Option<Moment>, done: oneshot::Sender<Result<()>>) -> bool {
        if let Some(stop) = &mut self.stop {
            if stop.until.is_none() {
                stop.until = until;
                stop.done.push(done);
            }
            return false;
        }
        self.stop = Some(Stop { until, is_drained: false, refused_since: None, done: vec![done] });
        true
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// Makes the drain end now.
    pub(super) fn end_drain(&mut self, now: Moment) {
        self.stop.iter_mut().for_each(|stop| stop.until = Some(now));
    }

    /// Whether the runs have to be cancelled now, because the drain is over. Returns true only once.
    pub(super) fn drain_has_ended(&mut self, now: Moment) -> bool {
        let is_due = |stop: &Stop| !stop.is_drained && stop.until.is_some_and(|until| until <= now);
        self.stop.as_mut().filter(|stop| is_due(stop)).map(|stop| stop.is_drained = true).is_some()
    }

    /// Time until the end of the drain. None if there is no stop, or its drain is over or has no end.
    pub(super) fn until_drain_end(&self, now: Moment) -> Option<Duration> {
        Some(self.stop.as_ref().filter(|stop| !stop.is_drained)?.until?.since(now))
    }

    /// Whether the dispatcher can end now.
    pub(super) fn is_over(&mut self, work: OpenWork, now: Moment) -> bool {
        let Some(stop) = &mut self.stop else { return false };
        // The stop does not wait for a store that is down. When this node's lease has expired, other nodes take over
        // its runs.
        let is_late = stop.is_drained && !work.has_runs && (work.is_store_down || !work.has_store);
        // The stop waits only a limited time if the store refuses the swaps, or if this version cannot read the
        // records.
        let is_refused = if !work.has_runs && !work.is_store_down {
            now.since(*stop.refused_since.get_or_insert(now)) >= MAX_REFUSAL
        } else {
            stop.refused_since = None;
            false
        };
        work.is_settled || is_late || is_refused
    }

    /// Answers the callers of the stop.
    pub(super) fn finish(self, result: Result<()>) {
        for done in self.stop.into_iter().flat_map(|stop| stop.done) {
            // The caller might have dropped its future.
            let _ = done.send(result.clone());
        }
    }

    /// Adds a caller that waits until no run is under way.
    pub(super) fn add_idle_waiter(&mut self, waiter: oneshot::Sender<()>) {
        self.idle_waiters.push(waiter);
    }

    pub(super) fn has_idle_waiters(&self) -> bool {
        !self.idle_waiters.is_empty()
    }

    pub(super) fn notify_idle_waiters(&mut self) {
        self.idle_waiters.drain(..).for_each(|waiter| {
            // The caller might have dropped its future.
            let _ = waiter.send(());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: OpenWork = OpenWork { has_runs: true, ..EVENTS };
    const EVENTS: OpenWork = OpenWork { is_settled: false, has_runs: false, has_store: true, is_store_down: false };
    const NOTHING: OpenWork = OpenWork { is_settled: true, ..EVENTS };

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(0) + Duration::from_secs(seconds)
    }

    fn stopping(until: u64) -> Shutdown {
        let mut shutdown = Shutdown::default();
        assert!(shutdown.begin(Some(at(until)), oneshot::channel().0));
        shutdown
    }

    #[test]
    fn the_drain_ends_once() {
        let mut shutdown = stopping(30);
        assert_eq!(shutdown.until_drain_end(at(10)), Some(Duration::from_secs(20)));
        assert!(!shutdown.drain_has_ended(at(29)) && shutdown.drain_has_ended(at(30)));
        assert!(!shutdown.drain_has_ended(at(31)));
        assert_eq!(shutdown.until_drain_end(at(31)), None);
        let mut early = stopping(30);
        early.end_drain(at(3));
        assert!(early.drain_has_ended(at(3)));
    }

    #[test]
    fn a_second_stop_changes_nothing() {
        let mut shutdown = stopping(30);
        assert!(!shutdown.begin(Some(at(5)), oneshot::channel().0));
        assert!(!shutdown.drain_has_ended(at(5)));
    }

    #[test]
    fn a_drain_without_an_end_is_ended_by_a_stop() {
        let (mut shutdown, (first, mut first_done), (second, mut second_done)) =
            (Shutdown::default(), oneshot::channel(), oneshot::channel());
        assert!(shutdown.begin(None, first));
        assert_eq!((shutdown.until_drain_end(at(9)), shutdown.drain_has_ended(at(1_000_000))), (None, false));
        assert!(!shutdown.begin(Some(at(5)), second));
        assert!(shutdown.drain_has_ended(at(5)));
        shutdown.finish(Ok(()));
        assert!(matches!((first_done.try_recv(), second_done.try_recv()), (Ok(Ok(())), Ok(Ok(())))));
    }

    #[test]
    fn a_stop_is_over_when_no_run_is_left_and_all_events_are_written() {
        let mut shutdown = stopping(30);
        assert!(!shutdown.is_over(RUNS, at(1)) && !shutdown.is_over(EVENTS, at(2)));
        assert!(shutdown.is_over(NOTHING, at(3)));
        assert!(!Shutdown::default().is_over(NOTHING, at(3)), "no stop has begun");
    }

    #[test]
    fn a_stop_does_not_wait_for_a_store_that_is_down_once_the_drain_is_over() {
        let down = OpenWork { is_store_down: true, ..EVENTS };
        let mut shutdown = stopping(30);
        assert!(!shutdown.is_over(down, at(29)));
        assert!(shutdown.drain_has_ended(at(30)));
        assert!(!shutdown.is_over(OpenWork { has_runs: true, ..down }, at(30)));
        assert!(shutdown.is_over(down, at(30)));
    }

    #[test]
    fn a_stop_waits_ten_seconds_for_a_store_that_refuses_events() {
        let mut shutdown = stopping(0);
        assert!(!shutdown.is_over(EVENTS, at(1)) && !shutdown.is_over(EVENTS, at(10)));
        assert!(shutdown.is_over(EVENTS, at(11)));
        let mut interrupted = stopping(0);
        assert!(!interrupted.is_over(EVENTS, at(1)) && !interrupted.is_over(RUNS, at(5)));
        assert!(!interrupted.is_over(EVENTS, at(11)) && interrupted.is_over(EVENTS, at(21)));
    }
}
