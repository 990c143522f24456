//! Starts and cancels the local runs of a job until they match its state.

use std::collections::HashSet;

use bandog_core::Holding;

use super::{
    entry::{JobEntry, JobId},
    pool::Pool,
    prepare::prepare,
    time::Timekeeper,
};
use crate::{cancel::CancelReason, state::LiveRun};

/// `session`: the session under which this node runs the job, if it has one. Jobs of this process need none.
pub(super) fn reconcile(job: JobId, entry: &JobEntry, session: Option<&Holding>, pool: &mut Pool, time: &Timekeeper) {
    let Some(state) = &entry.state else { return };
    let over = entry.ended_fences();
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
    for live in state.running.iter().filter(is_ours) {
        match pool.run(job, live.fence) {
            Some(run) if live.cancel => run.cancel(CancelReason::Requested),
            Some(_) => {}
            None => pool.start(prepare(job, entry, live, time, pool.messages()), time.moment(), live.cancel),
        }
    }
}
