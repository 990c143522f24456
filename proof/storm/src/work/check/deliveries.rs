//! The deliveries of one element: their fences, attempts and reasons.

use super::facts::{DELIVERIES, Facts, broken};
use crate::{
    calls::Findings,
    history::Nanos,
    work::history::{End, Handling, How, Queue},
};

/// Maximum time from a delivery to the begin of its handler in which a disturbance matters: the longest lease, and the time
/// of a request.
const LEASE: Nanos = 3_000_000_000;

pub(super) fn check(facts: &Facts<'_>, queue: Queue, handlings: &[&Handling], findings: &mut Findings) {
    for handling in handlings {
        if handling.attempt > DELIVERIES {
            findings.broken("deliveries", format!("{handling:?}"));
        }
    }
    if let Some(first) = handlings.first() {
        let pushed = facts.pushes.get(&first.value).map_or(first.begin, |push| push.begin);
        let unread = facts.unread(first.value, pushed, first.begin);
        if first.attempt > 1 + unread && facts.is_calm(pushed, first.begin) {
            findings.broken("attempts", format!("the first one: {first:?}"));
        }
    }
    for pair in handlings.windows(2) {
        let (before, next) = (pair[0], pair[1]);
        let excuse = facts.loss_between(before.begin.min(next.begin), next.begin.max(before.begin));
        attempts(facts, queue, before, next, excuse, findings);
        reason(facts, queue, before, next, excuse, findings);
    }
    for (index, handling) in handlings.iter().enumerate() {
        for next in &handlings[index + 1..] {
            twice(facts, queue, handling, next, findings);
        }
    }
}

fn attempts(
    facts: &Facts<'_>,
    queue: Queue,
    before: &Handling,
    next: &Handling,
    excuse: Option<&'static str>,
    findings: &mut Findings,
) {
    let from = before.begin.saturating_sub(LEASE);
    if facts.may_be_retried(queue, before.element, from, next.begin) {
        return;
    }
    let may_be_handed_back = match before.left {
        // The workers have stopped, and handed it back.
        Some((_, End::Dropped | End::Settles(How::HandBack))) => true,
        Some((_, End::Ok | End::Answers(_) | End::Error | End::Panic | End::Settles(_))) | None => false,
    };
    let least = before.attempt + u32::from(!may_be_handed_back);
    let unread = facts.unread(before.value, before.begin, next.begin);
    let is_skipped = next.attempt > before.attempt + 1 + unread && facts.is_calm(from, next.begin);
    if next.attempt < least || is_skipped {
        broken(findings, excuse, "attempts", || format!("{before:?}; {next:?}"));
    }
}

/// An element comes again because its delivery has failed, was handed back, or was lost.
fn reason(
    facts: &Facts<'_>,
    queue: Queue,
    before: &Handling,
    next: &Handling,
    excuse: Option<&'static str>,
    findings: &mut Findings,
) {
    let disturbances = &facts.history.recorded.disturbances;
    let from = before.begin.saturating_sub(LEASE);
    let has_reason = match before.left {
        Some((_, End::Error | End::Panic | End::Dropped | End::Settles(How::Retry | How::HandBack))) => true,
        Some((_, End::Ok | End::Settles(How::Done))) => false,
        Some((at, End::Answers(bytes))) => {
            facts.may_be_refused(bytes, at) && facts.may_be_retried(queue, before.element, from, next.begin)
        }
        Some((_, End::Settles(How::Fail))) => facts.may_be_retried(queue, before.element, from, next.begin),
        None => disturbances.killed.contains_key(&before.client),
    };
    if !has_reason && !disturbances.is_disturbed(before.client, from, next.begin) {
        broken(findings, excuse, "reason", || format!("{before:?}; {next:?}"));
    }
}

/// An element is not handled again after it was done, or given up.
fn twice(facts: &Facts<'_>, queue: Queue, first: &Handling, next: &Handling, findings: &mut Findings) {
    let done = facts.acknowledged(first, How::Done);
    // An operator can retry it before the answer of the store.
    let given_up = facts.acknowledged(first, How::Fail);
    let given_up = given_up.filter(|_| !facts.may_be_retried(queue, first.element, first.begin, next.begin));
    let Some(at) = done.or(given_up).filter(|at| next.begin > *at) else { return };
    broken(findings, facts.loss_between(first.begin.min(at), next.begin), "twice", || format!("{first:?}; {next:?}"));
}
