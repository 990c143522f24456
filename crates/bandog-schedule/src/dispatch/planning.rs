//! Plans one job: on its local state, or as a swap of its record in the store.

use std::sync::Arc;

use bandog_core::{Holding, Swap};
use bandog_cron::Time;

use super::entry::{JobEntry, PendingSwap};
use crate::{
    pauses::AllJobsPause,
    plan::{Event, Plan, PlanContext, plan},
    records::job_key,
    state::JobState,
    trigger::UnixMs,
};

/// What this node may do with the job, and when.
pub(super) struct NodeContext<'a> {
    pub(super) node: &'a Arc<str>,
    pub(super) now: UnixMs,
    /// Number of runs that the job may start here.
    pub(super) free_slots: usize,
    /// Whether this node may claim ticks of the job.
    pub(super) may_claim: bool,
}

/// The result of planning a job of the store.
pub(super) enum SharedPlan {
    /// The record stays as it is.
    Unchanged(Plan),
    /// The record is swapped. The entry has the swap as `pending`, with this number of runs to start.
    Swap { swap: Swap, starts: usize },
    /// The record is not known, or cannot be written.
    Impossible,
}

/// Plans a job of this process, which has no record. `since`: the time from which ticks of a new job count.
pub(super) fn plan_local(entry: &mut JobEntry, context: &NodeContext<'_>, since: UnixMs) -> Plan {
    let policy = &*entry.definition.policy;
    let mut state = entry.state.take().unwrap_or_else(|| Box::new(JobState::new(policy, since, None)));
    // A pause of all jobs does not reach a job outside the store.
    let all = &AllJobsPause::default();
    let events = std::mem::take(&mut entry.events);
    let plan = plan(&mut state, &plan_context(entry, context, None, all), &events);
    entry.state = Some(state);
    plan
}

/// Plans a job of the store.
pub(super) fn plan_shared(
    entry: &mut JobEntry,
    context: &NodeContext<'_>,
    session: Option<Holding>,
    all: &AllJobsPause,
) -> SharedPlan {
    let Some(state) = &entry.state else { return SharedPlan::Impossible };
    let mut next = (**state).clone();
    let plan = plan(&mut next, &plan_context(entry, context, session.as_ref(), all), &entry.events);
    // The local state contains a tick that ran unclaimed, but the record does not.
    let must_write = entry.events.iter().any(|event| matches!(event, Event::RanUnclaimed(_)));
    if next == **state && !must_write {
        entry.events.clear();
        return SharedPlan::Unchanged(plan);
    }
    let (Ok(key), Ok(value)) = (job_key(&entry.definition.name), next.write()) else { return SharedPlan::Impossible };
    let not_before = plan.not_before.map(|time| Time::from_millisecond(time).into());
    let held = session.filter(|_| plan.starts > 0 || plan.not_before.is_some());
    let (lines, starts) = (plan.lines.clone(), plan.starts);
    let swap = Swap { lines, not_before, held, ..Swap::new(key, entry.version, value) };
    let events = entry.events.len();
    entry.pending = Some(Box::new(PendingSwap { next, plan, events }));
    SharedPlan::Swap { swap, starts }
}

fn plan_context<'a>(
    entry: &'a JobEntry,
    context: &NodeContext<'a>,
    session: Option<&'a Holding>,
    all: &'a AllJobsPause,
) -> PlanContext<'a> {
    PlanContext {
        name: &entry.definition.name,
        trigger: &entry.definition.trigger,
        policy: &entry.definition.policy,
        now: context.now,
        node: context.node,
        session,
        free_slots: context.free_slots,
        is_current: context.may_claim,
        all,
    }
}
