//! Starts and cancels the local runs of a job until these runs match the job's state.

use std::collections::HashSet;

use bandog_core::Holding;

use super::{
    entry::{JobEntry, JobId},
    pool::Pool,
    prepare::prepare,
    time::Timekeeper,
};
use crate::{cancel::CancelReason, state::LiveRun, trigger::UnixMs};

/// Starts and cancels local runs until they match the job's state. `session`: the session under which this node runs
/// the job, if it has one. Jobs of this process need no session. Returns the time at which the first of the runs
/// was due that this call has started.
pub(super) fn reconcile(
    job: JobId,
    entry: &JobEntry,
    session: Option<&Holding>,
    pool: &mut Pool,
    time: &Timekeeper,
) -> Option<UnixMs> {
    let state = entry.state.as_ref()?;
    // The fences of the local runs that have ended, but whose ends are not written yet.
    let over = entry.ended_fences();
    // Whether this node should execute this run of the state.
    let is_ours = |live: &&LiveRun| {
        let is_here = !entry.is_shared || (session.is_some() && live.holding().as_ref() == session);
        is_here && !over.contains(&live.fence)
    };
    if entry.is_shared {
        let ours: HashSet<u64> = state.running.iter().filter(is_ours).map(|live| live.fence).collect();
        pool.runs_of(job)
            .filter(|(fence, run)| !run.is_unclaimed() && !ours.contains(fence))
            .for_each(|(_, run)| run.drop_now(CancelReason::SessionLost));
    }
    let mut first = None;
    for live in state.running.iter().filter(is_ours) {
        match pool.run(job, live.fence) {
            Some(run) if live.cancel => run.cancel(CancelReason::Requested),
            Some(_) => {}
            None => {
                pool.start(prepare(job, entry, live, time, pool.messages()), time.moment(), live.cancel);
                first = first.into_iter().chain([live.due]).min();
            }
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use bandog_core::{Clock, Key};
    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        Job, Kind, Run, State,
        dispatch::executor::RunStarter,
        plan::{Event, RunEnd},
        state::{JobState, SessionClaim},
    };

    fn session(number: u64) -> Holding {
        let id = format!("00000000-0000-8000-8000-000000000001:{number}").parse().unwrap();
        Holding { key: Key::new("schedule/node/1").unwrap(), id }
    }

    /// A job of the store with these runs. Each pair contains the fence of a run and the number of the run's session.
    fn entry(runs: &[(u64, u64)]) -> JobEntry {
        let mut entry = JobEntry::new(Job::once("job").run(async |_: Run| ()).prepare(None).unwrap());
        let mut state = JobState::new(&entry.definition.policy, 1000, None);
        let live = |(fence, number): &(u64, u64)| LiveRun {
            id: *fence,
            kind: Kind::Scheduled,
            tick: 0,
            due: 0,
            attempt: 1,
            fence: *fence,
            started: 0,
            node: "node".into(),
            session: Some(Box::new(SessionClaim::new(&session(*number)))),
            cancel: false,
        };
        state.running = runs.iter().map(live).collect();
        (entry.is_shared, entry.state) = (true, Some(Box::new(state)));
        entry
    }

    struct Fixture {
        pool: Pool,
        time: Timekeeper,
    }

    impl Fixture {
        fn new() -> Self {
            let starts = RunStarter::new(mpsc::unbounded_channel().0, None);
            Self { pool: Pool::new(9, 1, starts), time: Timekeeper::new(Clock::system()) }
        }

        /// Reconciles, and returns the fences of the runs and the reasons of their cancellations.
        fn reconcile(&mut self, entry: &JobEntry, session: Option<&Holding>) -> Vec<(u64, Option<CancelReason>)> {
            reconcile(0, entry, session, &mut self.pool, &self.time);
            self.pool.runs_of(0).map(|(fence, run)| (fence, run.cancelled())).collect()
        }
    }

    #[test]
    fn only_runs_under_this_nodes_session_start_and_each_once() {
        let (mut fixture, entry) = (Fixture::new(), entry(&[(1, 7), (2, 8), (3, 7)]));
        assert_eq!(fixture.reconcile(&entry, None), []);
        let started = [(1, None), (3, None)];
        assert_eq!(fixture.reconcile(&entry, Some(&session(7))), started);
        assert_eq!(fixture.reconcile(&entry, Some(&session(7))), started);
    }

    #[test]
    fn runs_whose_claim_is_gone_are_dropped() {
        let mut fixture = Fixture::new();
        fixture.reconcile(&entry(&[(1, 7), (2, 7)]), Some(&session(7)));
        let lost = Some(CancelReason::SessionLost);
        assert_eq!(fixture.reconcile(&entry(&[(2, 7)]), Some(&session(7))), [(1, lost), (2, None)]);
        assert_eq!(fixture.reconcile(&entry(&[(2, 7)]), Some(&session(9))), [(1, lost), (2, lost)], "another session");
    }

    #[test]
    fn a_run_that_was_cancelled_in_the_record_is_cancelled_here() {
        let mut fixture = Fixture::new();
        let mut entry = entry(&[(1, 7)]);
        fixture.reconcile(&entry, Some(&session(7)));
        entry.state.iter_mut().for_each(|state| state.running[0].cancel = true);
        assert_eq!(fixture.reconcile(&entry, Some(&session(7))), [(1, Some(CancelReason::Requested))]);
    }

    #[test]
    fn a_run_whose_end_is_not_written_yet_does_not_start_again() {
        let mut entry = entry(&[(1, 7)]);
        let (state, error, note) = (State::Ok, None, None);
        entry.events.push(Event::RunEnded(RunEnd { id: 1, fence: 1, attempt: 1, state, at: 5, error, note }));
        assert_eq!(Fixture::new().reconcile(&entry, Some(&session(7))), []);
    }
}
