//! The limits of queues, and their pauses.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use super::facts::{BEGINS_WITHIN, Facts, broken};
use crate::{
    calls::Findings,
    history::Nanos,
    work::history::{Call, Handling, Op, Queue},
};

/// Time in which the deliveries are counted. The period of all rates is a second.
const COUNTED: Nanos = 10_000_000_000;
const SECOND: Nanos = 1_000_000_000;
/// As [`BEGINS_WITHIN`], if nothing disturbs the client or the store.
const CALMLY_BEGINS_WITHIN: Nanos = 1_500_000_000;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    limit(facts, findings);
    rate(facts, findings);
    for queue in Queue::ALL {
        paused(facts, queue, findings);
    }
}

/// The handlings that begin while their handler has the element, in the order of their beginnings.
fn handlings<'h>(facts: &Facts<'h>, queue: Queue) -> impl Iterator<Item = &'h Handling> {
    let handlings = facts.history.handlings.iter().filter(move |handling| handling.queue == queue);
    handlings.filter(|handling| handling.begin < handling.believes_until())
}

/// The concurrency of the queue that is limited.
fn limit(facts: &Facts<'_>, findings: &mut Findings) {
    let concurrency = |op| if let Op::Limit(limit) = op { Some(limit) } else { None };
    let changes = changes(facts, Queue::Limited, concurrency);
    let mut ends = BinaryHeap::new();
    for handling in handlings(facts, Queue::Limited) {
        while ends.peek().is_some_and(|Reverse(end)| *end <= handling.begin) {
            ends.pop();
        }
        ends.push(Reverse(handling.believes_until()));
        // The last of them was delivered in this time, and all the others were taken then.
        let from = handling.begin.saturating_sub(BEGINS_WITHIN);
        let Some(limit) = greatest(facts, &changes, from, handling.begin) else { continue };
        if ends.len() > limit as usize {
            let excuse = facts.loss_between(from, handling.believes_until());
            broken(findings, excuse, "limit", || format!("{} of {limit}: {handling:?}", ends.len()));
        }
    }
}

/// The deliveries of the queue whose rate is limited.
fn rate(facts: &Facts<'_>, findings: &mut Findings) {
    let per_second = |op| if let Op::Rate(deliveries) = op { Some(deliveries) } else { None };
    let changes = changes(facts, Queue::Rated, per_second);
    let mut counted = VecDeque::new();
    for handling in handlings(facts, Queue::Rated) {
        counted.push_back(handling.begin);
        while counted.front().is_some_and(|begin| begin + COUNTED < handling.begin) {
            counted.pop_front();
        }
        // All of them were delivered in this time.
        let from = handling.begin.saturating_sub(COUNTED + BEGINS_WITHIN);
        let Some(rate) = greatest(facts, &changes, from, handling.begin) else { continue };
        let most = Nanos::from(rate) * (COUNTED + BEGINS_WITHIN) / SECOND;
        if counted.len() as u64 > most {
            let excuse = facts.loss_between(from, handling.begin);
            broken(findings, excuse, "rate", || format!("{} of {most} in 10 s: {handling:?}", counted.len()));
        }
    }
}

/// The changes of a limit of a queue.
fn changes<'h>(facts: &Facts<'h>, queue: Queue, limit: impl Fn(Op) -> Option<u32>) -> Vec<(&'h Call, u32)> {
    let calls = facts.history.recorded.calls.iter().filter(|call| call.object == queue);
    calls.filter_map(|call| Some((call, limit(call.op)?))).collect()
}

/// The greatest limit that the queue may have had between these times. None: it may have had none.
fn greatest(facts: &Facts<'_>, changes: &[(&Call, u32)], from: Nanos, to: Nanos) -> Option<u32> {
    // The last acknowledged change that ended before `from` was in force then, and so may be all that are not before it.
    let before = changes.iter().filter(|(call, _)| call.is_ok() && call.end < from);
    let last_begin = before.map(|(call, _)| call.begin).max()?;
    let mut greatest = 0;
    for (_, limit) in changes.iter().filter(|(call, _)| call.begin <= to && applied_until(facts, call) >= last_begin) {
        if *limit == 0 {
            return None;
        }
        greatest = greatest.max(*limit);
    }
    // The store may have lost the settings.
    facts.loss_between(last_begin, to).is_none().then_some(greatest)
}

/// The time after which the call is not applied any more.
fn applied_until(facts: &Facts<'_>, call: &Call) -> Nanos {
    let disturbances = &facts.history.recorded.disturbances;
    if call.is_unclear() { disturbances.applied_until(call.end) } else { call.end }
}

/// No element is delivered after an acknowledged pause, and before a call that ends it.
fn paused(facts: &Facts<'_>, queue: Queue, findings: &mut Findings) {
    let calls: Vec<_> = facts.history.recorded.calls.iter().filter(|call| call.object == queue).collect();
    let ends: Vec<_> = calls.iter().filter(|call| call.op == Op::Resume).collect();
    let handlings: Vec<_> = handlings(facts, queue).collect();
    for pause in calls.iter().filter(|call| call.op == Op::Pause && call.is_ok()) {
        let others = ends.iter().filter(|end| applied_until(facts, end) >= pause.begin);
        let end = others.map(|end| end.begin).min().unwrap_or(Nanos::MAX);
        let after = handlings.partition_point(|handling| handling.begin <= pause.end + CALMLY_BEGINS_WITHIN);
        for handling in handlings[after..].iter().take_while(|handling| handling.begin < end) {
            let from = handling.begin.saturating_sub(BEGINS_WITHIN);
            let is_calm = !facts.history.recorded.disturbances.is_disturbed(handling.client, from, handling.begin);
            if pause.end < from || is_calm {
                let excuse = facts.loss_between(pause.begin, handling.begin);
                broken(findings, excuse, "paused", || format!("{pause}; {handling:?}"));
            }
        }
    }
}
