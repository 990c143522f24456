//! A change of a job's settings. Ticks that were due before the change belong to the settings before it.

use std::time::Duration;

use super::{
    commands,
    history::record_not_run,
    ticks::claim_ticks,
    types::{Plan, PlanContext},
};
use crate::{
    State,
    misfire::TickRange,
    policy::Policy,
    state::{JobSpec, JobState},
    trigger::{Trigger, UnixMs, duration_ms},
};

/// Replaces the settings in the record by `spec`. The context has the trigger and the policy of the new settings.
///
/// Ticks of the old trigger that are due already and that no node has claimed are claimed: they wait in the queue for a
/// free slot, or are recorded as missed or skipped. Ticks of the new trigger that lie before this change never run.
pub(crate) fn redefine(state: &mut JobState, context: &PlanContext<'_>, spec: Box<JobSpec>) -> Plan {
    let mut plan = Plan::default();
    commands::apply_all_jobs_pause(state, context, &mut plan, context.all);
    let Some(old) = state.spec.clone() else {
        state.spec = Some(spec);
        return plan;
    };
    let (is_changed, trigger) = (old.trigger != spec.trigger, old.trigger());
    if old.enabled && (is_changed || !spec.enabled) {
        trigger.iter().for_each(|old| settle_due_ticks(state, context, &mut plan, old));
    }
    if is_changed || (spec.enabled && !old.enabled) {
        state.watermark = state.watermark.max(context.now - 1);
    }
    if is_changed {
        state.next_due = next_due(state, context, trigger.as_ref());
        match context.trigger {
            Trigger::FixedRate(_) => state.anchor = context.now,
            // Its tick is the anchor, and only ticks after the watermark fire.
            Trigger::Once => {
                let delay = duration_ms(context.policy.initial_delay);
                state.anchor = context.now.saturating_add(delay).max(state.watermark + 1);
            }
            Trigger::Cron(_) | Trigger::FixedDelay(_) | Trigger::At(_) | Trigger::Never => {}
        }
    }
    state.spec = Some(spec);
    plan
}

/// Claims the ticks of the old trigger that are due now.
fn settle_due_ticks(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, old: &Trigger) {
    if let (Trigger::FixedDelay(_), Trigger::FixedDelay(_)) = (old, context.trigger)
        && context.policy.enabled
    {
        // The tick is not settled, because the new delay moves it.
        return;
    }
    if state.is_paused() || !context.policy.enabled {
        let skipped = TickRange::until(old, state.tick_cursor(), context.now);
        state.watermark = state.watermark.max(if skipped.ticks > 0 { skipped.last } else { UnixMs::MIN });
        record_not_run(state, context, plan, State::Skipped, skipped);
        return;
    }
    // A tick whose jitter has not passed yet is due too, because the new settings do not have this tick.
    let policy = Policy { jitter: Duration::ZERO, ..context.policy.clone() };
    let context = PlanContext { trigger: old, policy: &policy, is_current: true, ..*context };
    loop {
        let before = state.watermark;
        claim_ticks(state, &context, plan);
        if state.watermark == before {
            return;
        }
    }
}

/// The next tick of a job whose new trigger has a fixed delay: the delay counts from the end of the last run.
fn next_due(state: &JobState, context: &PlanContext<'_>, old: Option<&Trigger>) -> Option<UnixMs> {
    let Some(last) = &state.last else { return state.next_due.or(Some(context.now).filter(|_| state.is_idle())) };
    // If a tick ran unclaimed and the end of that run is unknown, the old delay counts from a later time.
    let counted = old.filter(|old| old.delay() > 0).and_then(|old| Some(state.next_due? - old.delay()));
    let end = counted.map_or(last.ended, |counted| counted.max(last.ended));
    Some(end.saturating_add(context.trigger.delay()))
}
