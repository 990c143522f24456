//! Checks whether a client waited at a free lock for longer than a lost notification explains, or was passed over:
//! other clients got the lock again and again while it waited.

use std::collections::BTreeSet;

use super::{Call, Findings, History};
use crate::{
    history::{Nanos, Verb, nanos},
    plan::{SLACK, TTL},
};

const FREE: &str = "no client waits at a free lock";
const STARVED: &str = "no client is passed over for ever";

/// After this time a client has priority over clients that have waited for less.
const STARVING: Nanos = 2_000_000_000;
/// Maximum number of turns that each client may have while a client with priority waits. A turn is the time in which
/// one client has the lock. The number is above one because several clients may have priority, and their order is
/// random.
const PASSED_OVER: usize = 12;

type Span = (Nanos, Nanos);

/// Finds times longer than `bound` in which no client held a name, a client waited for it, and no fault was near.
pub(super) fn check(history: &History, bound: Nanos, findings: &mut Findings) {
    let faults = disturbed(history);
    for name in 0..history.resources.len() {
        let calls = || history.calls.iter().filter(|call| call.name == name);
        let busy = merged(calls().filter_map(occupied).chain(faults.iter().copied()).collect());
        let gaps: Vec<_> = between(&busy, history.end).into_iter().filter(|(from, to)| to - from > bound).collect();
        if gaps.is_empty() {
            continue;
        }
        for call in calls().filter(|call| waits(call)) {
            let (from, to) = (call.asked, call.answered_at().or(call.killed).unwrap_or(history.end));
            let free = gaps.iter().map(|(begin, end)| (*end).min(to).saturating_sub((*begin).max(from))).max();
            if free.is_some_and(|free| free > bound) {
                let what = format!("{call} waited {} ms while no client held it", free.unwrap_or(0) / 1_000_000);
                findings.broken(FREE, name, from, what);
            }
        }
    }
}

/// Finds clients that waited, without a fault at that time, while the other clients had many turns.
pub(super) fn check_starved(history: &History, findings: &mut Findings) {
    let faults = merged(disturbed(history));
    let clients = history.calls.iter().map(|call| call.client).collect::<BTreeSet<_>>().len();
    for name in 0..history.resources.len() {
        let calls = || history.calls.iter().filter(|call| call.name == name);
        let grants = calls().filter_map(|call| Some((call.grant.as_ref()?.at, call.client)));
        let mut grants: Vec<_> = grants.collect();
        grants.sort_unstable();
        // A client passes a hold on among its own calls, so only a change of the client begins a new turn.
        let mut turns = grants.clone();
        turns.dedup_by_key(|(_, client)| *client);
        for call in calls().filter(|call| waits(call)) {
            let end = call.answered_at().or(call.killed).unwrap_or(history.end);
            let before_end = grants[..before(&grants, end)].iter().rev().take_while(|(at, _)| *at > call.asked);
            let own = before_end.copied().find(|(_, client)| *client == call.client).map_or(0, |(at, _)| at);
            let disturbed = faults[..before(&faults, end)].last().map_or(0, |(_, to)| *to);
            let since = call.asked.max(own).max(disturbed).saturating_add(STARVING);
            let passed = before(&turns, end).saturating_sub(before(&turns, since));
            findings.most_passed_over = findings.most_passed_over.max(passed);
            if passed > PASSED_OVER * clients {
                let what = format!(
                    "{call} waited {} ms while others were granted it {passed} times",
                    (end - call.asked) / 1_000_000
                );
                findings.broken(STARVED, name, call.asked, what);
            }
        }
    }
}

/// Number of these sorted times that begin before a time.
fn before<T>(spans: &[(Nanos, T)], moment: Nanos) -> usize {
    spans.partition_point(|(at, _)| *at < moment)
}

/// Times with a fault nearby.
fn disturbed(history: &History) -> Vec<Span> {
    let faults = history.faults.iter().map(|fault| (fault.from, aftermath(fault.to)));
    let stalls = history.stalled.iter().map(|(_, from, to)| (*from, aftermath(*to)));
    faults.chain(stalls).collect()
}

/// The effects of a fault end when a remaining hold expires and a waiter has polled again.
fn aftermath(healed: Nanos) -> Nanos {
    healed.saturating_add(nanos(TTL + SLACK))
}

/// The time in which this call may have held the name. A call whose future was dropped may have been granted the lock
/// nevertheless; the lock was then released in the background.
fn occupied(call: &Call) -> Option<Span> {
    match call.surely_free() {
        Some(free) => Some((call.answered_at()?, free)),
        None if call.verb == Verb::Dropped => call.answered_at().map(|told| (call.asked, told)),
        None => None,
    }
}

fn waits(call: &Call) -> bool {
    matches!(call.verb, Verb::Lock | Verb::TryLockFor)
}

/// Merges overlapping spans, in their order.
fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            Some(_) | None => merged.push((from, to)),
        }
    }
    merged
}

/// The times between spans, and after the last one up to the end.
fn between(spans: &[Span], end: Nanos) -> Vec<Span> {
    let ends = spans.iter().skip(1).map(|(from, _)| *from).chain([end]);
    spans.iter().zip(ends).filter(|((_, to), next)| to < next).map(|((_, to), next)| (*to, next)).collect()
}
