//! Checks the order of a fair mutex. The history shows the order of the store's queue in two ways: clients sometimes
//! asked the store for the queue, and a call that begins later than such a question cannot be before a claim of that
//! queue. The order of the grants is the order of their fences.

use std::collections::{BTreeMap, HashMap};

use super::{Call, Findings, History, Name, Position};
use crate::{fault::FaultKind, history::Nanos, locks::share::Share};

const QUEUE: &str = "a fair mutex is granted in the order of its queue";
const LATER: &str = "a fair mutex is granted to a waiting call before a call that began later";

/// If a client could not reach the store for this part of the time for which a place is kept, the place might have expired.
const PLACE_EXPIRES: Nanos = 2;
/// If a client could not reach the store for this time in total, the answer of its grant might have come too late. Then
/// the call claims again, at the end of the queue.
const ANSWER_IS_LATE: Nanos = 200_000_000;

/// Checks the order under one name.
pub(super) fn check(history: &History, name: usize, findings: &mut Findings) {
    let calls = || history.calls.iter().filter(|call| call.name == name && call.share == Share::Fair);
    let granted: HashMap<u64, &Call> = calls().filter_map(|call| Some((call.grant.as_ref()?.claim, call))).collect();
    if granted.is_empty() {
        return;
    }
    let losses = Losses::of(history, name);
    let mut queues: BTreeMap<_, Vec<&Position>> = BTreeMap::new();
    for position in history.positions.iter().filter(|position| position.name == name) {
        queues.entry((position.at, position.by)).or_default().push(position);
    }
    // For each claim, the end of the first question whose answer had the claim.
    let mut seen: HashMap<u64, &Position> = HashMap::new();
    for queue in queues.values_mut() {
        queue.sort_by_key(|position| position.position);
        // If a request was repeated, the first one can reach the store after the grant. Then the claim has a place again,
        // although its call does not wait any more. Such a place expires, and shows no order.
        queue.retain(|position| {
            granted.get(&position.claim).is_none_or(|call| call.answered_at() >= Some(position.from))
        });
        let in_queue = queue.iter().filter_map(|position| Some((*position, *granted.get(&position.claim)?)));
        let in_queue: Vec<_> = in_queue.collect();
        for ((earlier, first), (_, second)) in in_queue.iter().zip(in_queue.iter().skip(1)) {
            if first.fence() > second.fence() && !losses.excuse(earlier, first) {
                let what = format!("{first} was before {second} in the queue");
                findings.broken_at(QUEUE, &Name(name), earlier.at, what);
            }
        }
        for position in queue.iter() {
            seen.entry(position.claim).or_insert(position);
        }
    }
    check_later(&granted, &seen, &losses, name, findings);
}

/// Finds calls that began after another call had a place, and were granted before it.
fn check_later(
    granted: &HashMap<u64, &Call>,
    seen: &HashMap<u64, &Position>,
    losses: &Losses<'_>,
    name: usize,
    findings: &mut Findings,
) {
    let mut by_begin: Vec<&Call> = granted.values().copied().collect();
    by_begin.sort_by_key(|call| call.asked);
    // For each call, the call with the smallest fence among this call and all that began later.
    let mut first_of_later = by_begin.clone();
    for index in (0..first_of_later.len().saturating_sub(1)).rev() {
        if first_of_later[index + 1].fence() < first_of_later[index].fence() {
            first_of_later[index] = first_of_later[index + 1];
        }
    }
    for (claim, position) in seen {
        let Some(waiting) = granted.get(claim) else { continue };
        let from = by_begin.partition_point(|call| call.asked < position.at);
        let Some(later) = first_of_later.get(from).filter(|later| later.fence() < waiting.fence()) else { continue };
        if !losses.excuse(position, waiting) {
            let what = format!("{later} began when {waiting} was in the queue, and was granted first");
            findings.broken_at(LATER, &Name(name), later.asked, what);
        }
    }
}

/// The events after which a claim can lose its place.
struct Losses<'a> {
    history: &'a History,
    /// The faults after which the queue of this name might be empty.
    of_store: Vec<(Nanos, Nanos)>,
}

impl<'a> Losses<'a> {
    fn of(history: &'a History, name: usize) -> Self {
        let here = |fault: &&crate::fault::Fault| fault.name.is_none_or(|of| of == name) && fault.kind.undoes();
        let of_store = history.faults().filter(here).map(|fault| (fault.from, fault.to)).collect();
        Self { history, of_store }
    }

    /// Whether this call might have lost its place between the question and its grant.
    fn excuse(&self, position: &Position, call: &Call) -> bool {
        let (from, to) = (position.from, call.answered_at().unwrap_or(Nanos::MAX));
        // A short lease can expire before the client knows of the grant, even if the store answers fast.
        !call.watched
            || self.of_store.iter().any(|(begin, end)| *begin <= to && *end >= from)
            || self.away(call, from.saturating_sub(self.history.terms.place), to)
                > self.history.terms.place / PLACE_EXPIRES
            || self.away(call, from, to) > ANSWER_IS_LATE
    }

    /// The total time between `from` and `to` in which the client of this call might not have reached the store. A
    /// process that does not run can also keep the others from a store that is a file.
    fn away(&self, call: &Call, from: Nanos, to: Nanos) -> Nanos {
        let faults = self.history.faults().filter(|fault| fault.client.is_none_or(|of| of == call.client));
        let faults = faults.filter(|fault| fault.kind != FaultKind::Evict).map(|fault| (fault.from, fault.to));
        let pauses = self.history.recorded.disturbances.pauses().map(|(_, from, to)| (from, to));
        faults.chain(pauses).map(|(begin, end)| end.min(to).saturating_sub(begin.max(from))).sum()
    }
}
