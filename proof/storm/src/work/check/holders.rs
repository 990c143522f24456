//! What handlers believe at the same time.

use std::collections::BTreeMap;

use super::facts::{BEGINS_WITHIN, Facts, broken};
use crate::{
    calls::Findings,
    history::Nanos,
    work::history::{Handling, Op, Queue},
};

pub(super) fn check(facts: &Facts<'_>, findings: &mut Findings) {
    for handlings in facts.elements.values() {
        one_at_a_time(handlings, |from, to| facts.loss_between(from, to), findings);
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
        // Those of one element are judged above. In databases, nothing is left of a key without elements.
        one_at_a_time(handlings, |from, to| facts.loss_of_time_between(from, to), findings);
    }
}

/// No handler believes that it has the element after a later delivery has begun.
fn one_at_a_time(
    handlings: &[&Handling],
    excuse: impl Fn(Nanos, Nanos) -> Option<&'static str>,
    findings: &mut Findings,
) {
    for pair in handlings.windows(2).filter(|pair| pair[0].fence == pair[1].fence) {
        let excuse = excuse(pair[0].begin, pair[1].begin);
        broken(findings, excuse, "fences", || format!("{:?}; {:?}", pair[0], pair[1]));
    }
    // The one with the first begin of all that have greater fences.
    let mut later: Option<&Handling> = None;
    for handling in handlings.iter().rev() {
        if let Some(later) = later.filter(|later| later.begin < handling.believes_until()) {
            // The lease has begun before the handler.
            let from = handling.begin.min(later.begin).saturating_sub(BEGINS_WITHIN);
            let excuse = excuse(from, handling.believes_until());
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
