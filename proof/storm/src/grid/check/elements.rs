//! Elements that are pushed, and taken out.

use std::collections::HashMap;

use crate::{
    calls::{Findings, JUDGE, Outcome},
    fault::{Fault, FaultKind},
    grid::history::{Call, History, How, Object, Op},
    history::{CallId, Nanos},
};

/// Maximum time for which an element that was pushed before a server lost all its data was still there: the lease of a
/// popped element whose client was killed, and more.
const STAYS: Nanos = 45_000_000_000;

/// Maximum time until a client has reported an element that it has popped, if nothing disturbs it.
const REPORTED_WITHIN: Nanos = 1_000_000_000;
/// Time for which a client tries to report an element that it has popped, less the time of a request.
const REPORTS_FOR: Nanos = 28_000_000_000;
/// Time before a delivery in which its lease can have begun, and in which a disturbance matters.
const LEASE: Nanos = 2_000_000_000;

/// A delivery of an element.
#[derive(Clone, Copy)]
struct Delivery<'a> {
    call: &'a Call,
    /// The fence and the number of the delivery. `None`: the element was popped.
    taken: Option<(u64, u32)>,
    settled: Option<&'a Call>,
}

impl Delivery<'_> {
    /// The time at which the call that ended the element for its receiver returned.
    fn done_at(&self) -> Option<Nanos> {
        match (self.taken, self.settled) {
            (None, _) => Some(self.call.end),
            (Some(_), Some(settled)) if is_done(settled) && settled.is_ok() => Some(settled.end),
            (Some(_), _) => None,
        }
    }

    fn fence(&self) -> u64 {
        self.taken.map_or(0, |(fence, _)| fence)
    }
}

fn is_done(settled: &Call) -> bool {
    matches!(settled.op, Op::Settle { how: How::Done, .. })
}

pub(super) fn check(history: &History, object: Object, calls: &[&Call], findings: &mut Findings) {
    let (mut pushes, mut settled) = (HashMap::new(), HashMap::<(u32, CallId), &Call>::new());
    // The pops during which a client was killed.
    let mut open_pops: Vec<&Call> = Vec::new();
    for call in calls {
        match call.op {
            Op::Push(element) | Op::ExactPush(element) => _ = pushes.insert(element, *call),
            Op::Settle { of, .. } => _ = settled.insert((call.client, of), call),
            Op::Pop if call.outcome.is_none() => open_pops.push(call),
            _ => {}
        }
    }
    let mut deliveries: HashMap<u64, Vec<Delivery>> = HashMap::new();
    for call in calls {
        let (element, taken) = match (call.op, call.outcome) {
            (Op::Pop, Some(Outcome::Found(element))) => (element, None),
            (Op::Take, Some(Outcome::Taken { element, fence, delivery })) => (element, Some((fence, delivery))),
            _ => continue,
        };
        let settled = settled.get(&(call.client, call.id)).copied();
        deliveries.entry(element).or_default().push(Delivery { call, taken, settled });
        findings.count("elements delivered", 1);
    }
    let mut elements: Vec<_> = deliveries.iter().collect();
    elements.sort_unstable_by_key(|(element, _)| **element);
    for (element, deliveries) in elements {
        known(*element, pushes.get(element).copied(), deliveries, findings);
        once(history, deliveries, findings);
        in_turn(history, deliveries, findings);
    }
    let mut pushes: Vec<_> = pushes.into_iter().filter(|(_, push)| push.is_ok()).collect();
    pushes.sort_unstable_by_key(|(_, push)| push.begin);
    findings.count("elements pushed", pushes.len());
    for (_, push) in pushes.iter().filter(|(element, _)| !deliveries.contains_key(element)) {
        missing(history, push, &mut open_pops, findings);
    }
    fences_differ(object, deliveries.values().flatten().copied(), findings);
}

fn known(element: u64, push: Option<&Call>, deliveries: &[Delivery], findings: &mut Findings) {
    let Some(first) = deliveries.iter().map(|delivery| delivery.call).min_by_key(|call| call.end) else { return };
    match push {
        None => findings.broken("unknown", format!("element {element} was not pushed: {first}")),
        Some(push) if push.outcome == Some(Outcome::Refused) || first.end < push.begin => {
            findings.broken("unknown", format!("{push}; {first}"));
        }
        Some(_) => {}
    }
}

/// An element that was pushed with an acknowledgement, and never received.
fn missing(history: &History, push: &Call, open_pops: &mut Vec<&Call>, findings: &mut Findings) {
    if let Some(reason) =
        history.recorded.disturbances.loss(push.begin, push.end, Nanos::MAX).filter(|_| is_recent(history, push))
    {
        return findings.excuse(reason);
    }
    // A pop may have returned the element to a client that was killed before it has recorded it.
    if let Some(at) = open_pops.iter().position(|pop| pop.end >= push.begin) {
        open_pops.swap_remove(at);
        return findings.excuse("a popping client was killed");
    }
    findings.broken("lost", push.to_string());
}

/// Whether the element was pushed shortly before a fault that loses data.
fn is_recent(history: &History, push: &Call) -> bool {
    let mut losses = history.recorded.disturbances.faults.iter().filter(|fault| fault.kind.loses_objects());
    losses.any(|fault| push.begin <= fault.to && push.end.saturating_add(STAYS) >= fault.from)
}

/// An element that is done is not received again.
fn once(history: &History, deliveries: &[Delivery], findings: &mut Findings) {
    let mut done: Vec<(Nanos, &Delivery)> =
        deliveries.iter().filter_map(|delivery| Some((delivery.done_at()?, delivery))).collect();
    done.sort_by_key(|(at, _)| *at);
    for pair in done.windows(2) {
        repeated(history, pair[0].1, pair[1].1, findings);
    }
    let Some((at, first)) = done.first() else { return };
    let later = |delivery: &&Delivery| {
        let is_after = match first.taken {
            Some((fence, _)) if delivery.taken.is_some() => delivery.fence() > fence,
            _ => delivery.call.begin > *at,
        };
        delivery.done_at().is_none() && is_after
    };
    for delivery in deliveries.iter().filter(later) {
        repeated(history, first, delivery, findings);
    }
}

/// The element of the first delivery was done, and the second one has received it again.
fn repeated(history: &History, first: &Delivery, second: &Delivery, findings: &mut Findings) {
    let (from, to) = (first.call.begin.min(second.call.begin), first.call.end.max(second.call.end));
    let reason = history.recorded.disturbances.loss_between(from, to).or_else(|| {
        // Either of them may have been the first at the store.
        [first, second].into_iter().find_map(|delivery| unreported(history, delivery))
    });
    match reason {
        Some(reason) => findings.excuse(reason),
        None => findings.broken("twice", format!("{}; {}", first.call, second.call)),
    }
}

/// The reason why a popped element may not have been reported to the store.
fn unreported(history: &History, delivery: &Delivery) -> Option<&'static str> {
    if delivery.taken.is_some() || delivery.call.client == JUDGE {
        return None;
    }
    let popped = delivery.call.end;
    let is_away = |fault: &Fault| {
        let is_long = fault.to.saturating_sub(fault.from) >= REPORTS_FOR;
        is_long && fault.from <= popped.saturating_add(REPORTED_WITHIN) && fault.to >= popped
    };
    let mut outages = history.recorded.disturbances.faults_of(delivery.call.client);
    if outages.any(|fault| fault.kind == FaultKind::Outage && is_away(fault)) {
        return Some("a client lost the store for 30 s before it has reported a pop");
    }
    // A disturbed client reports later, for up to the lease of 30 s.
    let disturbed = |to| {
        history.recorded.disturbances.faults_of(delivery.call.client).map(move |fault| {
            let margin = REPORTED_WITHIN;
            fault.to.saturating_add(margin).min(to).saturating_sub(fault.from.max(popped.saturating_sub(margin)))
        })
    };
    if let Some(killed) = history.recorded.disturbances.killed.get(&delivery.call.client) {
        let late: Nanos = disturbed(*killed).sum();
        if killed.saturating_sub(popped) <= REPORTED_WITHIN.saturating_add(late) {
            return Some("a client was killed before it has reported a pop");
        }
    }
    None
}

/// The deliveries of an element that was taken: who may have it, and why it comes again.
fn in_turn(history: &History, deliveries: &[Delivery], findings: &mut Findings) {
    let mut taken: Vec<&Delivery> = deliveries.iter().filter(|delivery| delivery.taken.is_some()).collect();
    taken.sort_by_key(|delivery| delivery.fence());
    for pair in taken.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        let (before, after) = (first.taken.unwrap_or_default(), second.taken.unwrap_or_default());
        let excuse = history.recorded.disturbances.loss_between(first.call.begin, second.call.end);
        let is_wrong = before.0 >= after.0 || before.1 >= after.1 || second.call.end < first.call.begin;
        if is_wrong && excuse.is_none() {
            findings.broken("fences", format!("{}; {}", first.call, second.call));
        }
        let is_killed = history.recorded.disturbances.killed.contains_key(&first.call.client);
        let is_given_back = first.settled.is_some_and(|settled| !is_done(settled));
        let from = first.call.begin.saturating_sub(LEASE);
        if !is_killed
            && !is_given_back
            && !history.recorded.disturbances.is_disturbed(first.call.client, from, second.call.end)
        {
            findings.broken("reason", format!("{}; {}", first.call, second.call));
        }
    }
    for holder in &taken {
        let Some(settled) = holder.settled else { continue };
        let Op::Settle { held, .. } = settled.op else { continue };
        let from = holder.call.begin.saturating_sub(LEASE);
        let is_lost = settled.outcome == Some(Outcome::Lost);
        if is_lost && !history.recorded.disturbances.is_disturbed(holder.call.client, from, settled.end) {
            findings.broken("reason", format!("{}; {settled}", holder.call));
        }
        let has_got = |other: &&Delivery| {
            let is_later = match other.taken {
                Some((fence, _)) => fence > holder.fence(),
                None => other.call.begin > holder.call.end,
            };
            is_later && other.call.end < settled.begin
        };
        let Some(other) = deliveries.iter().find(has_got).filter(|_| held) else { continue };
        match history.recorded.disturbances.loss_between(holder.call.begin, settled.begin) {
            Some(reason) => findings.excuse(reason),
            None => findings.broken("holders", format!("{}; {}; {settled}", holder.call, other.call)),
        }
    }
}

/// No two deliveries of a queue have the same fence.
///
/// The order of the deliveries of different elements is that of the store: a call can get an element that the store has
/// delivered for an earlier call, which was dropped or had no answer.
fn fences_differ<'a>(object: Object, deliveries: impl Iterator<Item = Delivery<'a>>, findings: &mut Findings) {
    let mut seen: HashMap<u64, &Call> = HashMap::new();
    for Delivery { call, taken, .. } in deliveries {
        let Some(first) = taken.and_then(|(fence, _)| seen.insert(fence, call)) else { continue };
        findings.broken("fences", format!("{object:?} has given a fence twice: {first}; {call}"));
    }
}
