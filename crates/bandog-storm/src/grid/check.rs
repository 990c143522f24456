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

use super::history::{Call, History, Kind, Object, Op, Outcome};
use crate::{
    fault::{Fault, FaultKind},
    history::{Nanos, nanos},
    plan::SLACK,
};

/// Maximum number of violations of one law that are reported in full.
const REPORTED: usize = 5;
/// Time before a failover in which acknowledged writes may not have reached a replica.
const BEHIND: Nanos = 1_000_000_000;
/// Maximum time for which an element that was pushed before a server lost all its data was still there: the lease of a
/// popped element whose client was killed, and more.
const STAYS: Nanos = 45_000_000_000;

/// The results of the checker.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) violations: Vec<(&'static str, String)>,
    /// Number of cases that docs/grid.md allows, by their reason.
    pub(super) excused: BTreeMap<&'static str, u64>,
    /// Number of elements that were pushed with an acknowledgement, and number of deliveries.
    pub(super) pushed: u64,
    pub(super) delivered: u64,
    /// The longest time by which a call exceeded its limit.
    pub(super) worst_overrun: Nanos,
}

impl Findings {
    fn broken(&mut self, law: &'static str, what: String) {
        self.violations.push((law, what));
    }

    fn excuse(&mut self, reason: &'static str) {
        *self.excused.entry(reason).or_default() += 1;
    }

    /// Number of violations of each law.
    pub(super) fn laws(&self) -> BTreeMap<&'static str, usize> {
        let mut laws = BTreeMap::new();
        self.violations.iter().for_each(|(law, _)| *laws.entry(*law).or_default() += 1);
        laws
    }

    /// The first violations of each law.
    pub(super) fn report(&self) -> Vec<String> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let reported = self.violations.iter().filter(|(law, _)| {
            let count = seen.entry(law).or_default();
            *count += 1;
            *count <= REPORTED
        });
        reported.map(|(law, what)| format!("{law}: {what}")).collect()
    }
}

/// Checks all laws.
pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::default();
    let mut objects: BTreeMap<Object, Vec<&Call>> = BTreeMap::new();
    for call in &history.calls {
        objects.entry(call.object).or_default().push(call);
        in_time(history, call, &mut findings);
        no_errors(history, call, &mut findings);
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

fn in_time(history: &History, call: &Call, findings: &mut Findings) {
    let took = call.end.saturating_sub(call.begin);
    if call.outcome.is_none() || took <= call.limit {
        return;
    }
    let took = took.saturating_sub(history.stopped(call.client, call.begin, call.end));
    findings.worst_overrun = findings.worst_overrun.max(took.saturating_sub(call.limit));
    if took > call.limit.saturating_add(nanos(SLACK)) {
        findings.broken("late", format!("{call} took {} ms", took / 1_000_000));
    }
}

fn no_errors(history: &History, call: &Call, findings: &mut Findings) {
    let is_wrong = match call.outcome {
        Some(Outcome::Broken) => true,
        Some(Outcome::Denied) => {
            let is_missing = |fault: &&Fault| fault.kind == FaultKind::RightMissing;
            let mut missing = history.faults.iter().filter(is_missing);
            !missing.any(|fault| fault.from <= call.end && call.begin <= fault.to)
        }
        _ => false,
    };
    if is_wrong {
        findings.broken("errors", call.to_string());
    }
}

fn filter(history: &History, calls: &[&Call], findings: &mut Findings) {
    let mut inserted = BTreeMap::new();
    for call in calls {
        match call.op {
            Op::Insert(item) if call.is_ok() => _ = inserted.insert(item, call),
            Op::Contains(item) if call.outcome == Some(Outcome::No) => {
                let Some(insert) = inserted.get(&item).filter(|insert| insert.end < call.begin) else { continue };
                match loss(history, insert.begin, insert.end, call.end) {
                    Some(reason) => findings.excuse(reason),
                    None => findings.broken("filter", format!("{insert}; {call}")),
                }
            }
            _ => {}
        }
    }
}

/// A fault that may have undone a write that was made between `begin` and `end`, before `until`.
fn loss(history: &History, begin: Nanos, end: Nanos, until: Nanos) -> Option<&'static str> {
    let mut losses = history.faults.iter().filter(|fault| fault.kind.loses_objects());
    let fault = losses.find(|fault| match fault.kind {
        FaultKind::Flushed => begin <= fault.to && fault.from <= until,
        _ => {
            begin <= fault.to && end.saturating_add(BEHIND) >= fault.from && fault.from.saturating_sub(BEHIND) <= until
        }
    })?;
    Some(match fault.kind {
        FaultKind::Flushed => "the store was emptied",
        _ => "a replica took over",
    })
}

/// A fault that may have undone something between these times.
fn loss_between(history: &History, from: Nanos, to: Nanos) -> Option<&'static str> {
    loss(history, from, to.max(from), to)
}
