//! Messages of topics.

use std::collections::{BTreeMap, HashMap};

use super::Findings;
use crate::grid::history::{Call, Heard, History, Object, Op, Outcome};

pub(super) fn check(history: &History, object: Object, calls: &[&Call], findings: &mut Findings) {
    let mut published: HashMap<u64, BTreeMap<u64, &Call>> = HashMap::new();
    for call in calls {
        if let Op::Publish { publisher, number } = call.op {
            published.entry(publisher).or_default().insert(number, call);
        }
    }
    for ((_, client, _), subscription) in history.subscriptions.iter().filter(|((of, ..), _)| *of == object) {
        let subscriber = format!("client {client} at {object}");
        let mut begin = 0;
        // The last message of each publisher since the last gap, and the last one at all.
        let (mut last, mut ever) = (HashMap::<u64, u64>::new(), HashMap::<u64, u64>::new());
        let mut has_gap = false;
        for (at, heard) in &subscription.events {
            match *heard {
                Heard::Subscribed => begin = *at,
                Heard::Gap => {
                    has_gap = true;
                    last.clear();
                }
                Heard::Deaf => findings.broken("messages", format!("{subscriber} does not get its own last message")),
                Heard::Message { publisher, number } => {
                    let of = published.get(&publisher);
                    let message = of.and_then(|of| of.get(&number));
                    if message.is_none_or(|call| call.outcome == Some(Outcome::Refused) || *at < call.begin) {
                        findings.broken("messages", format!("{subscriber} got {number} of {publisher}: {message:?}"));
                    }
                    if let Some(before) = ever.insert(publisher, number).filter(|before| *before >= number) {
                        let what = format!("{subscriber} got {number} of {publisher} after {before}");
                        findings.broken("messages", what);
                        continue;
                    }
                    let before = last.insert(publisher, number);
                    let from = match before {
                        Some(before) => before + 1,
                        // Messages before the subscription, or in a gap, may be missing.
                        None if has_gap => number,
                        None => 0,
                    };
                    let between = of.into_iter().flat_map(|of| of.range(from..number)).map(|(_, call)| *call);
                    let mut missing = between.filter(|call| call.is_ok() && (before.is_some() || call.begin > begin));
                    if let Some(missing) = missing.next() {
                        let what = format!("{subscriber} got {number} of {publisher} without {missing}");
                        findings.broken("messages", what);
                    }
                }
            }
        }
    }
}
