//! What handlers believe at the same time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use super::facts::{Facts, broken};
use crate::{
    calls::Findings,
    history::Nanos,
    work::history::{Handling, Op, Queue},
};

/// Maximum time from a delivery to the begin of its handler: an element waits for a slot for half a second, or is delivered
/// by a request that is repeated. If it takes longer, the lease is over.
const BEGINS_WITHIN: Nanos = 3_000_000_000;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    for handlings in facts.elements.values() {
        one_at_a_time(facts, handlings, findings);
    }
    let mut keys = BTreeMap::<(Queue, u32), Vec<&Handling>>::new();
    for handling in &facts.history.handlings {
        if let Some(Op::Push { key, .. }) = facts.pushes.get(&handling.value).map(|push| push.op)
            && key != 0
        {
            keys.entry((handling.queue, key)).or_default().push(handling);
        }
    }
    for handlings in keys.values_mut() {
        handlings.sort_by_key(|handling| handling.fence);
        // Those of one element are judged above.
        one_at_a_time(facts, handlings, findings);
    }
    limit(facts, findings);
}

/// No handler believes that it has the element after a later delivery has begun.
fn one_at_a_time(facts: &Facts<'_>, handlings: &[&Handling], findings: &mut Findings) {
    for pair in handlings.windows(2).filter(|pair| pair[0].fence == pair[1].fence) {
        let excuse = facts.loss_between(pair[0].begin, pair[1].begin);
        broken(findings, excuse, "fences", || format!("{:?}; {:?}", pair[0], pair[1]));
    }
    // The one with the first begin of all that have greater fences.
    let mut later: Option<&Handling> = None;
    for handling in handlings.iter().rev() {
        if let Some(later) = later.filter(|later| later.begin < handling.believes_until()) {
            // The lease has begun before the handler.
            let from = handling.begin.min(later.begin).saturating_sub(BEGINS_WITHIN);
            let excuse = facts.loss_between(from, handling.believes_until());
            broken(findings, excuse, "holders", || {
                let late = (handling.believes_until() - later.begin) / 1_000_000;
                format!("{late} ms before the end of the belief of {handling:?} began {later:?}")
            });
        }
        if later.is_none_or(|later| handling.begin < later.begin) {
            later = Some(handling);
        }
    }
}

/// The concurrency of the queue that is limited.
fn limit(facts: &Facts<'_>, findings: &mut Findings) {
    let handlings = facts.history.handlings.iter().filter(|handling| handling.queue == Queue::Limited);
    let mut ends = BinaryHeap::new();
    for handling in handlings {
        while ends.peek().is_some_and(|Reverse(end)| *end <= handling.begin) {
            ends.pop();
        }
        if handling.believes_until() <= handling.begin {
            continue;
        }
        ends.push(Reverse(handling.believes_until()));
        // The last of them was delivered in this time, and all the others were taken then.
        let from = handling.begin.saturating_sub(BEGINS_WITHIN);
        let Some(limit) = greatest_limit(facts, from, handling.begin) else { continue };
        if ends.len() > limit as usize {
            let excuse = facts.loss_between(from, handling.believes_until());
            broken(findings, excuse, "limit", || format!("{} of {limit}: {handling:?}", ends.len()));
        }
    }
}

/// The greatest limit that the queue may have had between these times. None: it may have had none.
fn greatest_limit(facts: &Facts<'_>, from: Nanos, to: Nanos) -> Option<u32> {
    let (mut greatest, mut is_known) = (0, false);
    // The last acknowledged change that ended before `from` was in force then, and so may be all that are not before it.
    let mut last_begin = 0;
    let limits = facts.history.recorded.calls.iter().filter(|call| matches!(call.op, Op::Limit(_)));
    let limits: Vec<_> = limits.filter(|call| call.object == Queue::Limited && call.begin <= to).collect();
    for call in limits.iter().filter(|call| call.is_ok() && call.end < from) {
        (last_begin, is_known) = (last_begin.max(call.begin), true);
    }
    for call in limits {
        let Op::Limit(limit) = call.op else { continue };
        if limit == 0 {
            return None;
        }
        let end = if call.is_unclear() { Nanos::MAX } else { call.end };
        if end >= last_begin {
            greatest = greatest.max(limit);
        }
    }
    // The store has lost the settings.
    let is_lost = facts.loss_between(last_begin, to).is_some();
    (is_known && !is_lost).then_some(greatest)
}
