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
//! - `late`: each call ends in time;
//! - `errors`: no call gets an error that it must not get;
//! - `left`: no helper key is left.
//!
//! A fault that loses data of the store excuses what was written shortly before it. These excuses are counted.

mod elements;
mod messages;
mod sums;
mod values;

use std::collections::BTreeMap;

use super::history::{Call, History, Kind, Object, Op};
use crate::calls::{Findings, Outcome};

/// Checks all laws.
pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::default();
    let mut objects: BTreeMap<Object, Vec<&Call>> = BTreeMap::new();
    history.recorded.check_ends(&mut findings);
    for call in &history.recorded.calls {
        objects.entry(call.object).or_default().push(call);
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
            Kind::Topic | Kind::Sharded => messages::check(history, *object, calls, &mut findings),
        }
    }
    for left in &history.left {
        findings.broken("left", left.clone());
    }
    findings
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
