//! The laws that each history of calls on objects must obey. docs/grid.md has the promises.
//!
//! - `lost`: each element whose push was acknowledged was received, or was there at the end;
//! - `unknown`: no element was received that was not pushed;
//! - `twice`: no element was received again after it was done;
//! - `reason`: an element that is not done is delivered again, or lost by its holder, only for a reason;
//! - `holders`: no holder believed that it had an element that another call had got;
//! - `fences`: fences and the number of deliveries increase with each delivery of an element;
//! - `values`: a task reads what it wrote last in its own keys;
//! - `versions`: each version of a shared value has one successor, and none vanishes;
//! - `sums`: each addition counts as often as it should;
//! - `numbers`: unique numbers are unique;
//! - `filter`: a Bloom filter has each item that was inserted;
//! - `messages`: subscribers get the messages of a publisher in order, and without a gap that is not reported;
//! - `sizes`: a value that is too large is refused, and no other is;
//! - `ttls`: what has expired does not come back, and no object with a ttl is there at the end;
//! - `late`: each call ends in time;
//! - `errors`: no call gets an error that it must not get;
//! - `left`: no helper key is left.
//!
//! A fault that loses data of the store excuses what was written shortly before it. These excuses are counted.

mod elements;
mod messages;
mod sums;
mod values;

use std::collections::{BTreeMap, HashMap};

use super::history::{Call, History, Kind, Object, Op};
use crate::{
    calls::{Findings, Outcome, item},
    history::Nanos,
};

/// Maximum time after which the store does not return any more what has expired.
const EXPIRES_WITHIN: Nanos = 50_000_000;

/// Checks all laws.
pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::default();
    let mut objects: BTreeMap<Object, Vec<&Call>> = BTreeMap::new();
    history.recorded.check_ends(&mut findings);
    for call in &history.recorded.calls {
        objects.entry(call.object).or_default().push(call);
        size(history, call, &mut findings);
    }
    for (object, calls) in &objects {
        match object.0 {
            Kind::Queue | Kind::Deque | Kind::Sorted | Kind::Bag => {
                elements::check(history, *object, calls, &mut findings);
            }
            Kind::Map | Kind::Members | Kind::Multimap | Kind::Bits => values::owned(history, calls, &mut findings),
            Kind::Shared | Kind::Value => values::shared(history, calls, &mut findings),
            Kind::Counter | Kind::ExactCounter => sums::counter(history, *object, calls, &mut findings),
            Kind::Ids => sums::numbers(history, calls, &mut findings),
            Kind::Bloom => filter(history, calls, &mut findings),
            Kind::Fleeting | Kind::Timed => ttls(history, calls, &mut findings),
            Kind::Expiring | Kind::Lent | Kind::Strange => {}
            Kind::Topic | Kind::Sharded => messages::check(history, *object, calls, &mut findings),
        }
    }
    for left in &history.left {
        findings.broken("left", left.clone());
    }
    findings
}

/// A value is refused because of its size if it is too large, and only then.
fn size(history: &History, call: &Call, findings: &mut Findings) {
    let values = match call.op {
        Op::Push(value) | Op::ExactPush(value) | Op::Lend { value, .. } => [value, 0],
        Op::Write { value, .. } => [value, 0],
        Op::Swap { from, to, .. } => [from.unwrap_or(0), to],
        // Its value is not recorded.
        Op::Try(_) => return,
        _ => [0, 0],
    };
    let has_sizes = !matches!(call.object.0, Kind::Members | Kind::Multimap | Kind::Bits);
    let is_large =
        |value: &u64| has_sizes && history.largest > 0 && item::size(*value, history.largest) > history.largest;
    let is_large = values.iter().filter(|value| **value != 0).any(is_large);
    let is_wrong = match call.outcome {
        Some(Outcome::TooLarge) => !is_large,
        // A lent bit has no value, and a swap may find that the value is another one.
        Some(Outcome::Ok) => is_large && call.object.0 != Kind::Lent,
        _ => false,
    };
    if is_wrong {
        findings.broken_at("sizes", &call.object, call.end, call.to_string());
    }
}

/// What has expired does not come back. A write without an answer may be applied later.
fn ttls(history: &History, calls: &[&Call], findings: &mut Findings) {
    let disturbances = &history.recorded.disturbances;
    let mut writes = HashMap::new();
    for call in calls {
        match (call.op, call.outcome) {
            (Op::Lend { value, ttl, .. }, _) => {
                let applied = if call.is_unclear() { disturbances.applied_until(call.end) } else { call.end };
                let is_refused = matches!(call.outcome, Some(Outcome::Refused | Outcome::No | Outcome::TooLarge));
                let until = applied.saturating_add(Nanos::from(ttl) * 1_000_000 + EXPIRES_WITHIN);
                writes.insert(value, if is_refused { 0 } else { until });
            }
            (Op::Read { .. }, Some(Outcome::Found(value))) if value != 0 => {
                let until = writes.get(&value).copied().unwrap_or(0);
                if call.begin > until {
                    findings.broken_at("ttls", &call.object, call.begin, format!("{call}; it had expired at {until}"));
                }
            }
            _ => {}
        }
    }
}

fn filter(history: &History, calls: &[&Call], findings: &mut Findings) {
    let mut inserted = BTreeMap::new();
    for call in calls {
        match call.op {
            Op::Insert(item) if call.is_ok() => _ = inserted.insert(item, call),
            Op::Contains(item) if call.outcome == Some(Outcome::No) => {
                let Some(insert) = inserted.get(&item).filter(|insert| insert.end < call.begin) else { continue };
                match history.recorded.disturbances.loss(insert.begin, insert.end, call.end) {
                    Some(reason) => findings.excuse(reason),
                    None => findings.broken("filter", format!("{insert}; {call}")),
                }
            }
            _ => {}
        }
    }
}
