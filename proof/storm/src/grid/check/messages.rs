//! Messages of topics.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    calls::{Findings, Outcome},
    grid::history::{Call, Heard, History, Kind, Object, Op},
    history::Nanos,
};

/// Time after a fault of a server in which the messages around the fault are missed, or come.
const RELAYED_WITHIN: Nanos = 15_000_000_000;

pub(super) fn check(history: &History, object: Object, calls: &[&Call], findings: &mut Findings) {
    let mut published: HashMap<u64, BTreeMap<u64, &Call>> = HashMap::new();
    for call in calls {
        if let Op::Publish { publisher, number } = call.op {
            published.entry(publisher).or_default().insert(number, call);
        }
    }
    for ((_, client, _), subscription) in history.subscriptions.iter().filter(|((of, ..), _)| *of == object) {
        let subscriber = format!("client {client} at {object:?}");
        let mut begin = 0;
        // The last message of each publisher since the last gap, and the last one at all.
        let (mut last, mut ever) = (HashMap::<u64, u64>::new(), HashMap::<u64, u64>::new());
        let (mut has_gap, mut seen) = (false, HashSet::new());
        let is_relayed = history.relays && object.0 == Kind::Topic;
        for (at, heard) in &subscription.events {
            match *heard {
                Heard::Subscribed => begin = *at,
                Heard::Gap => {
                    has_gap = true;
                    last.clear();
                    if history.relays {
                        // The next node of a slot may have messages that the former one had, too.
                        seen.clear();
                        ever.clear();
                    }
                }
                Heard::Deaf => findings.broken("messages", format!("{subscriber} does not get its own last message")),
                Heard::Message { publisher, number } => {
                    let relayed = is_relayed.then(|| broken_link(history, *at)).flatten();
                    let of = published.get(&publisher);
                    let message = of.and_then(|of| of.get(&number));
                    let is_late = message
                        .is_some_and(|call| call.is_unclear())
                        .then_some("a message without an answer came late");
                    if message.is_none_or(|call| call.outcome == Some(Outcome::Refused) || *at < call.begin) {
                        findings.broken("messages", format!("{subscriber} got {number} of {publisher}: {message:?}"));
                    }
                    if !seen.insert((publisher, number)) {
                        findings.broken("messages", format!("{subscriber} got {number} of {publisher} twice"));
                        continue;
                    }
                    let newest = ever.entry(publisher).or_insert(number);
                    if *newest > number {
                        match relayed.or(is_late) {
                            Some(reason) => findings.excuse(reason),
                            None => {
                                let what = format!("{subscriber} got {number} of {publisher} after {newest}");
                                findings.broken("messages", what);
                            }
                        }
                        continue;
                    }
                    *newest = number;
                    let before = last.insert(publisher, number);
                    let from = match before {
                        Some(before) => before + 1,
                        // Messages before the subscription, or in a gap, may be missing.
                        None if has_gap => number,
                        None => 0,
                    };
                    let between = of.into_iter().flat_map(|of| of.range(from..number)).map(|(_, call)| *call);
                    let mut missing = between.filter(|call| call.is_ok() && (before.is_some() || call.begin > begin));
                    match (missing.next(), relayed) {
                        (None, _) => {}
                        (Some(_), Some(reason)) => findings.excuse(reason),
                        (Some(missing), None) => {
                            let what = format!("{subscriber} got {number} of {publisher} without {missing}");
                            findings.broken("messages", what);
                        }
                    }
                }
            }
        }
    }
}

/// A fault of a server, which may have broken a link to another one or moved a slot, shortly before this time.
fn broken_link(history: &History, at: Nanos) -> Option<&'static str> {
    let mut faults = history.recorded.disturbances.faults.iter().filter(|fault| fault.client.is_none());
    let is_near = faults.any(|fault| fault.from <= at && fault.to.saturating_add(RELAYED_WITHIN) >= at);
    is_near.then_some("a message went from node to node")
}
