//! Plans one job. For a job of this process, the plan changes the local state. For a job of the store, the plan becomes
//! a swap: the store replaces the job's record if the record still has the version that this node knows.

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

/// The facts about this node that the plan of a job depends on.
pub(super) struct NodeContext<'a> {
    /// The name of this node.
    pub(super) node: &'a Arc<str>,
    pub(super) now: UnixMs,
    /// Maximum number of runs of the job that can start on this node now.
    pub(super) free_slots: usize,
    /// Whether this node is allowed to claim ticks of the job.
    pub(super) may_claim: bool,
}

/// The result of planning a job of the store.
pub(super) enum SharedPlan {
    /// The plan does not change the record.
    Unchanged(Plan),
    /// The caller must send this swap. The entry's `pending` contains the plan until the store answers. `starts`:
    /// number of runs that the swap claims for this node.
    Swap { swap: Swap, starts: usize },
    /// No plan is possible: the node has no copy of the record, or the new state cannot be converted to a record.
    Impossible,
}

/// Plans a job of this process, which has no record. `since`: if the job is new, all ticks before this time are
/// ignored.
pub(super) fn plan_local(entry: &mut JobEntry, context: &NodeContext<'_>, since: UnixMs) -> Plan {
    let policy = &*entry.definition.policy;
    let mut state = entry.state.take().unwrap_or_else(|| Box::new(JobState::new(policy, since, None)));
    // A pause of all jobs has no effect on a job outside the store.
    let all = &AllJobsPause::default();
    let events = std::mem::take(&mut entry.events);
    let plan = plan(&mut state, &plan_context(entry, context, None, all), &events);
    entry.state = Some(state);
    plan
}

/// Plans a job of the store. `session`: the session under which this node claims runs of the job. `all`: the last known
/// pause of all jobs.
pub(super) fn plan_shared(
    entry: &mut JobEntry,
    context: &NodeContext<'_>,
    session: Option<Holding>,
    all: &AllJobsPause,
) -> SharedPlan {
    let Some(state) = &entry.state else { return SharedPlan::Impossible };
    let mut next = (**state).clone();
    let plan = plan(&mut next, &plan_context(entry, context, session.as_ref(), all), &entry.events);
    // A tick that ran unclaimed is already in the local state, but not in the record. So the record must be written
    // even if the plan does not change the local state.
    let must_write = entry.events.iter().any(|event| matches!(event, Event::RanUnclaimed(_)));
    if next == **state && !must_write {
        entry.events.clear();
        return SharedPlan::Unchanged(plan);
    }
    let (Ok(key), Ok(value)) = (job_key(&entry.definition.name), next.write()) else { return SharedPlan::Impossible };
    // The store refuses the swap before this time.
    let not_before = plan.not_before.map(|time| Time::from_millisecond(time).into());
    // If the swap claims a tick or a run, the store accepts the swap only while this session is held.
    let held = session.filter(|_| plan.starts > 0 || plan.not_before.is_some());
    // `lines`: lines that the store appends to the job's history log.
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
        // Whether this node is allowed to claim ticks of the job.
        is_current: context.may_claim,
        all,
    }
}

#[cfg(test)]
mod tests {
    use bandog_core::Key;

    use super::*;
    use crate::{Job, Run, state::JobSpec};

    /// Start of each test.
    const T0: UnixMs = 1_800_000_000_000;

    fn session() -> Option<Holding> {
        let id = "00000000-0000-8000-8000-000000000001:7".parse().unwrap();
        Some(Holding { key: Key::new("schedule/node/1").unwrap(), id })
    }

    /// A job of the store that fires every second.
    fn entry() -> JobEntry {
        let job = Job::fixed_rate("job", std::time::Duration::from_secs(1)).run(async |_: Run| ());
        let mut entry = JobEntry::new(job.prepare(None).unwrap());
        let spec = JobSpec::new(&entry.definition.trigger, &entry.definition.policy);
        let state = JobState::create(&entry.definition.policy, T0, Some(Box::new(spec)), "era");
        (entry.is_shared, entry.state) = (true, Some(Box::new(state)));
        entry
    }

    fn plan_at(entry: &mut JobEntry, after: UnixMs, free_slots: usize) -> SharedPlan {
        let context = NodeContext { node: &"here".into(), now: T0 + after, free_slots, may_claim: true };
        plan_shared(entry, &context, session(), &AllJobsPause::default())
    }

    #[test]
    fn a_claim_is_a_swap_under_the_session_and_not_before_its_tick() {
        let mut entry = entry();
        let SharedPlan::Swap { swap, starts } = plan_at(&mut entry, 0, 5) else { panic!("a tick is due") };
        assert_eq!((starts, swap.held.as_ref(), swap.from), (1, session().as_ref(), None));
        assert_eq!(swap.not_before, Some(Time::from_millisecond(T0 - crate::plan::MAX_EARLY_MS).into()));
        let pending = entry.pending.as_ref().unwrap();
        assert_eq!((pending.plan.starts, pending.next.running.len(), pending.events), (1, 1, 0));
        assert!(entry.state.unwrap().running.is_empty(), "until the store has confirmed it");
    }

    #[test]
    fn a_plan_that_changes_nothing_writes_nothing_and_settles_its_events() {
        let mut entry = entry();
        entry.state.iter_mut().for_each(|state| state.watermark = T0 + 5000);
        entry.events.push(Event::NodeDied(session().unwrap()));
        assert!(matches!(plan_at(&mut entry, 0, 5), SharedPlan::Unchanged(_)));
        assert!(entry.is_settled());
        entry.events.push(Event::RanUnclaimed(T0 + 5000));
        assert!(matches!(plan_at(&mut entry, 0, 5), SharedPlan::Swap { starts: 0, .. }), "the record lacks the tick");
        assert_eq!(entry.pending.as_ref().map(|pending| pending.events), Some(1));
    }

    #[test]
    fn a_job_without_a_known_record_is_not_planned() {
        let mut entry = entry();
        entry.state = None;
        assert!(matches!(plan_at(&mut entry, 0, 5), SharedPlan::Impossible));
        assert!(entry.pending.is_none());
    }

    #[test]
    fn a_local_job_gets_its_state_with_its_first_plan() {
        let mut entry = entry();
        (entry.is_shared, entry.state) = (false, None);
        let context = NodeContext { node: &"here".into(), now: T0 + 1500, free_slots: 1, may_claim: true };
        let plan = plan_local(&mut entry, &context, T0);
        assert_eq!((plan.starts, entry.running().len(), entry.is_settled()), (1, 1, true));
        assert_eq!(entry.running()[0].session, None);
    }
}
