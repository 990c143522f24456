//! Checks what the store reports about the leaders of elections. The leaders themselves hold a lock, so the other laws
//! check them: one leader at a time, fences that increase, no late writes.

use std::collections::HashMap;

use super::{
    Call, Findings, History, Name, Observation, Outcome,
    waits::{Span, disturbed, merged},
};
use crate::{history::Nanos, locks::share::Share, plan::ELECTIONS};

const ORDER: &str = "an observer sees the leaders in their order";
const UNKNOWN: &str = "each reported leader is a candidate, with its fence";
const FORMER: &str = "no leader is reported after it has resigned";
const MISSING: &str = "a leader is reported while it is the leader";

/// Checks all elections.
pub(super) fn check(history: &History, findings: &mut Findings) {
    let faults = merged(disturbed(history, Share::Leader));
    for name in ELECTIONS {
        let observations = || history.observations.iter().filter(|observation| observation.name == name);
        // The last leader that each observer has reported, and when it began to ask.
        let mut last: HashMap<(u32, u32), (u64, Nanos)> = HashMap::new();
        for observation in observations() {
            let Some((fence, client, call)) = observation.leader else { continue };
            if observation.follows {
                let (before, since) = last.insert(observation.by, (fence, observation.from)).unwrap_or_default();
                if fence < before && !is_undone(history, since, observation.at) {
                    let what =
                        format!("an observer of client {} saw the fence {before} and then {fence}", observation.by.0);
                    findings.broken_at(ORDER, &Name(name), observation.at, what);
                }
            }
            check_leader(observation, fence, history.find(client, call), &faults, findings);
        }
        let mut leaders: Vec<_> =
            history.calls.iter().filter(|call| call.name == name && call.grant.is_some()).collect();
        leaders.sort_by_key(|call| call.answered_at());
        for observation in observations().filter(|observation| observation.leader.is_none()) {
            check_none(observation, &leaders, &faults, findings);
        }
    }
}

/// Checks a report of this leader.
fn check_leader(
    observation: &Observation,
    fence: u64,
    leader: Option<&Call>,
    faults: &[Span],
    findings: &mut Findings,
) {
    let Observation { name, from, at, .. } = *observation;
    let leader = leader.filter(|leader| leader.name == name && leader.asked <= at);
    // A candidate can lose its mutex after it was reported, before its call has returned. Then it campaigns again, and
    // gets a greater fence.
    let is_right = |leader: &&Call| {
        leader.grant.as_ref().is_none_or(|grant| fence == grant.fence || fence < grant.fence && from < grant.at)
    };
    let Some(leader) = leader.filter(is_right) else {
        findings.broken_at(UNKNOWN, &Name(name), at, format!("a leader with the fence {fence} was reported"));
        return;
    };
    // After a fault, the record of a former leader can stay until the next leader has replaced it.
    if let Some((resigned, Outcome::Ok)) = leader.answer.filter(|(resigned, _)| *resigned < from)
        && !is_disturbed(faults, resigned, at)
    {
        let late = (from - resigned) / 1_000;
        findings.broken_at(FORMER, &Name(name), at, format!("{leader} was reported {late} µs after it had resigned"));
    }
}

/// Checks a report that there is no leader. `leaders` are in the order of their grants.
fn check_none(observation: &Observation, leaders: &[&Call], faults: &[Span], findings: &mut Findings) {
    let Observation { name, from, at, .. } = *observation;
    let granted = leaders.partition_point(|leader| leader.answered_at() <= Some(from));
    // Only one candidate is the leader at a time. More than the last one is examined because of faults.
    for leader in leaders[..granted].iter().rev().take(4) {
        let Some((begin, end)) = leader.belief() else { continue };
        if end >= at && !is_disturbed(faults, begin, at) {
            let what = format!("no leader was reported, but {leader} was the leader");
            findings.broken_at(MISSING, &Name(name), at, what);
        }
    }
}

/// Whether the store might have lost its latest writes between these times. An observer sees a leader before the
/// replicas have acknowledged it, so it can see the former leader again after a failover.
fn is_undone(history: &History, from: Nanos, to: Nanos) -> bool {
    history.faults().any(|fault| fault.kind.undoes() && fault.from <= to && fault.to >= from)
}

/// Whether a fault, or its effects, might have changed something between these times.
fn is_disturbed(faults: &[Span], from: Nanos, to: Nanos) -> bool {
    let first = faults.partition_point(|(_, end)| *end < from);
    faults.get(first).is_some_and(|(begin, _)| *begin <= to)
}
