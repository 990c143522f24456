//! Checks two laws. First, no client waits at a free lock for longer than a lost notification can explain. Second, no
//! client is passed over. A client is passed over if it waits while the other clients get the lock again and again.

use std::collections::BTreeSet;

use super::{Call, Findings, History};
use crate::{
    history::{Nanos, Verb, nanos},
    plan::{SLACK, TTL},
};

const FREE: &str = "no client waits at a free lock";
const STARVED: &str = "no client is passed over for ever";

/// A client that has waited for this time has priority over clients that have waited for a shorter time.
const STARVING: Nanos = 2_000_000_000;
/// Maximum number of turns of each client while a client with priority waits. A turn is the time in which one client
/// has the lock. The maximum is greater than one, because several clients can have priority at the same time, and get
/// the lock in a random order.
const PASSED_OVER: usize = 12;

/// The start and the end of a time span.
type Span = (Nanos, Nanos);

/// Finds time spans longer than `bound` in which no client held a lock, although a client waited for this lock and no
/// fault explains the wait.
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
                let what = format!("{call} waited {} ms while no client held the lock", free.unwrap_or(0) / 1_000_000);
                findings.broken(FREE, name, from, what);
            }
        }
    }
}

/// Finds clients that waited while the other clients had too many turns, although no fault explains this.
pub(super) fn check_starved(history: &History, findings: &mut Findings) {
    let faults = merged(disturbed(history));
    let clients = history.calls.iter().map(|call| call.client).collect::<BTreeSet<_>>().len();
    for name in 0..history.resources.len() {
        let calls = || history.calls.iter().filter(|call| call.name == name);
        let grants = calls().filter_map(|call| Some((call.grant.as_ref()?.at, call.client)));
        let mut grants: Vec<_> = grants.collect();
        grants.sort_unstable();
        // A client can pass the lock on from one of its calls to its next call. So a new turn begins only when another
        // client gets the lock.
        let mut turns = grants.clone();
        turns.dedup_by_key(|(_, client)| *client);
        for call in calls().filter(|call| waits(call)) {
            let end = call.answered_at().or(call.killed).unwrap_or(history.end);
            let before_end = grants[..before(&grants, end)].iter().rev().take_while(|(at, _)| *at > call.asked);
            // The last time during this wait at which this client got the lock for another of its calls.
            let own = before_end.copied().find(|(_, client)| *client == call.client).map_or(0, |(at, _)| at);
            let last_fault = faults[..before(&faults, end)].last().map_or(0, |(_, to)| *to);
            // Turns count from this time on.
            let since = call.asked.max(own).max(last_fault).saturating_add(STARVING);
            let passed = before(&turns, end).saturating_sub(before(&turns, since));
            findings.most_passed_over = findings.most_passed_over.max(passed);
            if passed > PASSED_OVER * clients {
                let what = format!(
                    "{call} waited {} ms while other clients got the lock {passed} times",
                    (end - call.asked) / 1_000_000
                );
                findings.broken(STARVED, name, call.asked, what);
            }
        }
    }
}

/// Number of entries that begin before `moment`. The entries are sorted.
fn before<T>(spans: &[(Nanos, T)], moment: Nanos) -> usize {
    spans.partition_point(|(at, _)| *at < moment)
}

/// Time spans in which a fault, or the effects of a fault, can make clients wait.
fn disturbed(history: &History) -> Vec<Span> {
    let faults = history.faults.iter().map(|fault| (fault.from, aftermath(fault.to)));
    let stalls = history.stalled.iter().map(|(_, from, to)| (*from, aftermath(*to)));
    faults.chain(stalls).collect()
}

/// The time at which the effects of a fault have ended. `healed` is the end of the fault itself. After this end, all
/// earlier holds must first expire, and the waiters must poll the store again.
fn aftermath(healed: Nanos) -> Nanos {
    healed.saturating_add(nanos(TTL + SLACK))
}

/// The time span in which this call might have held the lock. If the future of a call was dropped, the store might have
/// granted the lock nevertheless. The client then released the lock in the background.
fn occupied(call: &Call) -> Option<Span> {
    match call.surely_free() {
        Some(free) => Some((call.answered_at()?, free)),
        None if call.verb == Verb::Dropped => call.answered_at().map(|answered| (call.asked, answered)),
        None => None,
    }
}

/// Whether the call waits until the lock is free.
fn waits(call: &Call) -> bool {
    matches!(call.verb, Verb::Lock | Verb::TryLockFor)
}

/// Sorts the spans, and merges those that overlap.
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

/// The gaps between the spans, and the gap from the last span to `end`. The spans are sorted, and do not overlap.
fn between(spans: &[Span], end: Nanos) -> Vec<Span> {
    let ends = spans.iter().skip(1).map(|(from, _)| *from).chain([end]);
    spans.iter().zip(ends).filter(|((_, to), next)| to < next).map(|((_, to), next)| (*to, next)).collect()
}
