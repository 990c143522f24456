use std::sync::Arc;

use tokio::sync::mpsc;

use super::*;
use crate::{
    Job, Kind, Run,
    dispatch::{entry::JobEntry, prepare::prepare, time::Timekeeper},
    state::LiveRun,
};

const JOBS: usize = 4;

/// A pool, and the job and the clock for its runs.
struct Fixture {
    pool: Pool,
    entry: JobEntry,
    time: Timekeeper,
}

impl Fixture {
    fn new(size: usize) -> Self {
        let definition = Job::once("job").run(async |_: Run| ()).prepare(None).unwrap();
        let starts = RunStarter::new(mpsc::unbounded_channel().0, None);
        Self {
            pool: Pool::new(size, JOBS, starts),
            entry: JobEntry::new(definition),
            time: Timekeeper::new(bandog_core::Clock::system()),
        }
    }

    /// Adds a run with this fence. The fence is also the run's number.
    fn start(&mut self, job: JobId, fence: u64, is_cancelled: bool) -> Arc<crate::run::RunInfo> {
        let live = LiveRun {
            id: fence,
            kind: Kind::Scheduled,
            tick: 0,
            due: 0,
            attempt: 1,
            fence,
            started: 0,
            node: "here".into(),
            session: None,
            cancel: is_cancelled,
        };
        let run = prepare(job, &self.entry, &live, &self.time, self.pool.messages());
        let info = Arc::clone(&run.info);
        self.pool.start(run, at(0), is_cancelled);
        info
    }
}

fn at(ms: u64) -> Moment {
    Moment::from_nanos(0) + Duration::from_millis(ms)
}

#[test]
fn runs_and_reserved_slots_are_not_free() {
    let mut fixture = Fixture::new(3);
    fixture.start(0, 1, false);
    fixture.pool.reserve(1);
    assert_eq!((fixture.pool.free_slots(), fixture.pool.running(), fixture.pool.is_idle()), (1, 1, false));
    fixture.pool.reserve(5);
    assert_eq!(fixture.pool.free_slots(), 0, "more slots may be reserved than the pool has");
    fixture.pool.return_reserved(6);
    assert!(fixture.pool.remove(0, 1).is_some() && fixture.pool.remove(0, 1).is_none());
    assert_eq!((fixture.pool.free_slots(), fixture.pool.is_idle()), (3, true));
}

#[test]
fn waiting_jobs_leave_the_queue_in_order_and_come_before_others() {
    let mut pool = Fixture::new(2).pool;
    [2, 0, 2, 3].into_iter().for_each(|job| pool.join_queue(job, at(0)));
    assert_eq!((pool.slots_for(SlotPriority::Normal), pool.slots_for(SlotPriority::NextInQueue)), (0, 2));
    assert!(pool.is_waiting(3) && !pool.is_waiting(1) && pool.can_serve_queue());
    assert_eq!(pool.leave_queue().collect::<Vec<_>>(), [2, 0], "one job for each free slot, and no job twice");
    assert!(!pool.is_waiting(2) && pool.is_waiting(3));
    assert_eq!(pool.leave_queue().collect::<Vec<_>>(), [3]);
    assert_eq!((pool.slots_for(SlotPriority::Normal), pool.can_serve_queue()), (2, false));
}

#[test]
fn a_closed_pool_has_no_slot_and_its_runs_stop_and_later_are_cancelled() {
    let mut fixture = Fixture::new(9);
    let first = fixture.start(0, 1, false);
    fixture.pool.close();
    let second = fixture.start(1, 2, false);
    for run in [&first, &second] {
        assert!(run.cancel.is_stopping(1) && run.cancel.reason().is_none());
    }
    assert_eq!((fixture.pool.free_slots(), fixture.pool.slots_for(SlotPriority::NextInQueue)), (0, 0));
    fixture.pool.cancel_all();
    let third = fixture.start(2, 3, false);
    let requested = fixture.start(3, 4, true);
    for run in [first, second, third] {
        assert_eq!(run.cancel.reason(), Some(CancelReason::NodeStops));
    }
    assert_eq!(requested.cancel.reason(), Some(CancelReason::Requested), "the first reason is kept");
}

#[test]
fn a_long_wait_is_reported_once() {
    let mut pool = Fixture::new(1).pool;
    pool.join_queue(0, at(0));
    pool.join_queue(1, at(500));
    assert_eq!(pool.long_waits(at(999)), [0; 0]);
    assert_eq!(pool.long_waits(at(1000)), [0]);
    assert_eq!(pool.long_waits(at(1500)), [1]);
    assert_eq!(pool.long_waits(at(9000)), [0; 0]);
    assert_eq!(pool.leave_queue().collect::<Vec<_>>(), [0]);
    pool.join_queue(0, at(9000));
    assert_eq!(pool.long_waits(at(10_000)), [0], "the job waits again, so this is logged again");
}

#[test]
fn a_pool_with_fewer_free_slots_claims_later() {
    let mut fixture = Fixture::new(4);
    let delays = [1, 2, 3, 4, 5].map(|fence| {
        fixture.start(0, fence, false);
        fixture.pool.claim_delay_ms()
    });
    assert_eq!(delays, [5, 10, 15, 20, 20]);
    assert_eq!(fixture.pool.runs_of(0).map(|(fence, _)| fence).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(!fixture.pool.has_run(1) && !fixture.pool.has_unclaimed_run(0));
}
