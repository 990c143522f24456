//! Elements that are pushed, and their ends.

use std::collections::HashMap;

use bandog::work::{ElementId, Phase};

use super::facts::{DELIVERIES, Facts, LARGEST, SMALL, broken};
use crate::{
    calls::{Findings, Outcome},
    history::Nanos,
    work::history::{Call, End, Handling, How, Op, Queue, There},
};

pub(super) fn check(facts: &Facts<'_>, queue: Queue, findings: &mut Findings) {
    let of_queue = facts.elements.range((queue, ElementId { client: 0, number: 0 })..);
    let handlings: Vec<&Handling> = of_queue
        .take_while(|((other, _), _)| *other == queue)
        .flat_map(|(_, handlings)| handlings.iter().copied())
        .collect();
    findings.count("elements delivered", handlings.len());
    let mut ids = HashMap::new();
    for handling in &handlings {
        known(facts, handling, findings);
        let first: &Handling = ids.entry(handling.value).or_insert(*handling);
        if first.element != handling.element {
            let excuse = facts.loss_between(first.begin, handling.begin);
            broken(findings, excuse, "once", || format!("a push has added two elements: {first:?}; {handling:?}"));
        }
    }
    let calls = facts.history.recorded.calls.iter();
    let pushes: Vec<&Call> = calls.filter(|call| call.object == queue && matches!(call.op, Op::Push { .. })).collect();
    once(facts, &pushes, &ids, findings);
    sizes(facts, &pushes, findings);
    let others = facts.history.recorded.calls.iter().filter(|call| call.object == queue);
    for other in others.filter(|call| call.outcome == Some(Outcome::TooLarge) && !matches!(call.op, Op::Push { .. })) {
        findings.broken("sizes", format!("it carries no value: {other}"));
    }
    let there: HashMap<ElementId, &There> =
        facts.history.there.iter().filter(|there| there.queue == queue).map(|there| (there.element, there)).collect();
    for push in &pushes {
        let Some(Outcome::Pushed { element, is_new: true }) = push.outcome else { continue };
        findings.count("elements pushed", 1);
        kept(facts, push, element, there.get(&element).copied(), findings);
    }
    for element in there.values() {
        at_the_end(facts, element, &there, &pushes, findings);
    }
}

fn known(facts: &Facts<'_>, handling: &Handling, findings: &mut Findings) {
    let Some(push) = facts.pushes.get(&handling.value) else {
        return findings.broken("unknown", format!("the element was not pushed: {handling:?}"));
    };
    let is_wrong = match push.outcome {
        Some(Outcome::Refused | Outcome::TooLarge) => true,
        Some(Outcome::Pushed { element, .. }) => element != handling.element,
        _ => false,
    };
    if is_wrong || push.object != handling.queue || handling.begin < push.begin {
        findings.broken("unknown", format!("{push}; {handling:?}"));
    }
}

/// A push is refused because of its size if it is too large, and only then. Those of one call are refused together.
fn sizes(facts: &Facts<'_>, pushes: &[&Call], findings: &mut Findings) {
    let mut calls = HashMap::<(u32, Nanos), Vec<&Call>>::new();
    for push in pushes {
        calls.entry((push.client, push.begin)).or_default().push(push);
    }
    let bytes = |push: &&Call| if let Op::Push { bytes, .. } = push.op { bytes } else { 0 };
    for pushes in calls.values() {
        let (largest, sum) = (pushes.iter().map(bytes).max().unwrap_or(0), pushes.iter().map(bytes).sum::<u32>());
        for push in pushes {
            let is_wrong = match push.outcome {
                Some(Outcome::TooLarge) => largest <= LARGEST && !(sum >= SMALL && facts.may_be_small(push.end)),
                None | Some(Outcome::Cancelled) => false,
                Some(_) => largest > LARGEST,
            };
            if is_wrong {
                findings.broken("sizes", push.to_string());
            }
        }
    }
}

/// Pushes with the same id of `once` add one element.
fn once(facts: &Facts<'_>, pushes: &[&Call], handled: &HashMap<u64, &Handling>, findings: &mut Findings) {
    let mut groups = HashMap::<u32, Vec<&Call>>::new();
    for push in pushes {
        if let Op::Push { once, .. } = push.op
            && once != 0
        {
            groups.entry(once).or_default().push(push);
        }
    }
    for pushes in groups.values() {
        let mut first: Option<(&Call, ElementId)> = None;
        for push in pushes {
            let Op::Push { value, .. } = push.op else { continue };
            let answered = match push.outcome {
                Some(Outcome::Pushed { element, .. }) => Some(element),
                _ => None,
            };
            // The element that this push has added, or has found.
            let Some(element) = handled.get(&value).map(|handling| handling.element).or(answered) else { continue };
            let (other, same) = *first.get_or_insert((push, element));
            if same != element {
                let excuse = facts.loss_between(other.begin, push.end);
                broken(findings, excuse, "once", || format!("two elements have the same id: {other}; {push}"));
            }
        }
    }
}

/// An element that was pushed with an acknowledgement is done, removed, or there at the end.
fn kept(facts: &Facts<'_>, push: &Call, element: ElementId, there: Option<&There>, findings: &mut Findings) {
    let key = (push.object, element);
    let mut handlings = facts.elements.get(&key).into_iter().flatten();
    if there.is_some() || facts.removals.contains_key(&key) || handlings.any(|handling| facts.may_be_done(handling)) {
        return;
    }
    let excuse = facts.history.recorded.disturbances.loss(push.begin, push.end, Nanos::MAX);
    // A later settlement or wake-up may be lost, too.
    let last = facts.elements.get(&key).and_then(|handlings| handlings.last());
    let excuse =
        excuse.or_else(|| last.and_then(|last| facts.loss_between(push.begin, last.begin.saturating_add(UNDONE))));
    broken(findings, excuse, "lost", || format!("{push}; the last delivery: {last:?}"));
}

/// Time after the begin of the last handling of an element in which the element was changed again.
const UNDONE: Nanos = 10_000_000_000;

fn at_the_end(
    facts: &Facts<'_>,
    there: &There,
    all: &HashMap<ElementId, &There>,
    pushes: &[&Call],
    findings: &mut Findings,
) {
    let handlings = facts.elements.get(&(there.queue, there.element)).map_or(&[][..], Vec::as_slice);
    match there.phase {
        Phase::Dead => {
            let is_given_up = handlings.iter().filter_map(|handling| handling.left).any(|(at, end)| match end {
                End::Settles(How::Fail) => true,
                End::Answers(bytes) => facts.may_be_refused(bytes, at),
                _ => false,
            });
            let last = handlings.last().filter(|last| last.attempt == there.attempt && there.attempt < DELIVERIES);
            if let Some((_, End::Answers(LARGEST..))) = last.and_then(|last| last.left)
                && !there.names_limit
            {
                findings.broken("sizes", format!("the error of {there:?} names no limit: {last:?}"));
            }
            if there.attempt < DELIVERIES && !is_given_up {
                findings.broken("deliveries", format!("{there:?} is dead too early: {handlings:?}"));
            }
        }
        Phase::Blocked if handlings.is_empty() && may_wait(facts, there, all, pushes) => {}
        _ => findings.broken("empty", format!("{there:?}: {handlings:?}")),
    }
}

/// Whether the element may wait for a part that is dead, was removed, or waits itself.
fn may_wait(facts: &Facts<'_>, there: &There, all: &HashMap<ElementId, &There>, pushes: &[&Call]) -> bool {
    let element_of = |push: &Call| match push.outcome {
        Some(Outcome::Pushed { element, .. }) => Some(element),
        _ => None,
    };
    // A push without an answer may have added it.
    let Some(push) = pushes.iter().find(|push| element_of(push) == Some(there.element)) else { return true };
    let Op::Push { value, parts, .. } = push.op else { return true };
    let may_be_open = |part: u64| {
        let Some(element) = facts.pushes.get(&part).and_then(|push| element_of(push)) else { return true };
        all.contains_key(&element) || facts.removals.contains_key(&(there.queue, element))
    };
    let is_lost = facts.loss_between(push.begin, Nanos::MAX).is_some();
    is_lost || (value - u64::from(parts)..value).any(may_be_open)
}
