//! The order of elements with the same key, and of those that wait for others.

use std::collections::BTreeMap;

use super::facts::{Facts, broken};
use crate::{
    calls::{Findings, Outcome},
    history::Nanos,
    work::history::{Call, Handling, Op, Queue},
};

/// An element with a key, and its first and its last handling.
#[derive(Clone, Copy)]
struct Place<'h> {
    push: &'h Call,
    value: u64,
    first: &'h Handling,
    last: &'h Handling,
}

pub(super) fn check(facts: &Facts<'_>, queue: Queue, findings: &mut Findings) {
    let mut keys = BTreeMap::<u32, Vec<Place<'_>>>::new();
    for push in facts.history.recorded.calls.iter().filter(|call| call.object == queue) {
        let Op::Push { value, key, parts, .. } = push.op else { continue };
        let Some(Outcome::Pushed { element, is_new: true }) = push.outcome else { continue };
        let Some(handlings) = facts.elements.get(&(queue, element)) else { continue };
        let (Some(first), Some(last)) = (handlings.first().copied(), handlings.last().copied()) else { continue };
        if parts > 0 {
            after_its_parts(facts, push, value, parts, first, findings);
        }
        // A retried element comes behind the others.
        if key != 0 && !facts.may_be_retried(queue, element, push.begin, last.begin) {
            keys.entry(key).or_default().push(Place { push, value, first, last });
        }
    }
    keys.values().for_each(|places| in_order(facts, places, findings));
}

/// The pushes are in the order of their beginnings.
fn in_order(facts: &Facts<'_>, places: &[Place<'_>], findings: &mut Findings) {
    let mut by_end: Vec<&Place<'_>> = places.iter().collect();
    by_end.sort_by_key(|place| place.push.end);
    let mut ended = by_end.into_iter().peekable();
    // Of all elements whose pushes have ended before, the one that was handled last.
    let mut latest: Option<&Place<'_>> = None;
    for place in places {
        while let Some(before) = ended.next_if(|before| before.push.end < place.push.begin) {
            if latest.is_none_or(|latest| before.last.fence > latest.last.fence) {
                latest = Some(before);
            }
        }
        latest.into_iter().for_each(|before| follows(facts, before, place, findings));
    }
    // Elements of one push.
    for pair in places.windows(2) {
        let (before, next) = (&pair[0], &pair[1]);
        if before.push.begin == next.push.begin && before.push.client == next.push.client && before.value < next.value {
            follows(facts, before, next, findings);
        }
    }
}

fn follows(facts: &Facts<'_>, before: &Place<'_>, next: &Place<'_>, findings: &mut Findings) {
    if before.last.fence > next.first.fence {
        let excuse = facts.loss_of_time_between(before.push.begin, before.last.begin.max(next.first.begin));
        broken(findings, excuse, "order", || {
            format!("{}; {:?} before {}; {:?}", before.push, before.last, next.push, next.first)
        });
    }
}

/// An element that waits for others comes when all of them are done.
fn after_its_parts(facts: &Facts<'_>, push: &Call, value: u64, parts: u32, first: &Handling, findings: &mut Findings) {
    for part in value - u64::from(parts)..value {
        let element = match facts.pushes.get(&part).and_then(|push| push.outcome) {
            Some(Outcome::Pushed { element, .. }) => element,
            _ => continue,
        };
        let handlings = facts.elements.get(&(push.object, element)).map_or(&[][..], Vec::as_slice);
        let is_done = |handling: &&&Handling| {
            let left: Option<Nanos> = handling.left.map(|(at, _)| at);
            facts.may_be_done(handling) && left.is_some_and(|left| left <= first.begin)
        };
        if handlings.iter().find(is_done).is_none() {
            let excuse = facts.loss_between(push.begin, first.begin);
            broken(findings, excuse, "parts", || format!("{push}; {first:?}; its part: {handlings:?}"));
        }
    }
}
