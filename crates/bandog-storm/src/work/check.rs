//! The laws that each history of work queues must obey. docs/work.md has the promises.
//!
//! - `lost`: an element whose push was acknowledged was done, removed, or was there at the end, dead or waiting for others;
//! - `unknown`: no element was handled that was not pushed;
//! - `once`: each push adds at most one element, and so do all pushes with the same id of `once` together;
//! - `holders`: no handler began while another one of the same element, or of one with the same key, believed that it has it;
//! - `fences`: no two deliveries of an element, or of elements with the same key, have the same fence;
//! - `attempts`: attempts increase by one, unless the element was handed back or retried;
//! - `deliveries`: no attempt is greater than the number of deliveries, and only such elements and given up ones are dead;
//! - `twice`: no element was handled after it was done, or given up and not retried;
//! - `reason`: an element is delivered again only for a reason;
//! - `order`: elements with the same key came in the order of their pushes;
//! - `parts`: an element that waits for others came when all of them were done;
//! - `limit`: the concurrency was not exceeded;
//! - `late`: each call ends in time;
//! - `errors`: no call gets an error that it must not get;
//! - `empty`: at the end, only dead elements and those that wait for others were in the queues;
//! - `left`: no key and no row is left.
//!
//! A fault that loses data of the store excuses what was written shortly before it. These excuses are counted.

mod deliveries;
mod elements;
mod holders;
mod order;

use std::collections::{BTreeMap, HashMap};

use bandog::work::ElementId;

use super::history::{Call, End, Handling, History, How, Op, Queue};
use crate::{
    calls::{Findings, JUDGE, Outcome},
    history::{CallId, Nanos},
};

/// The number of deliveries after which an element is dead.
const DELIVERIES: u32 = 5;

/// Checks all laws.
pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::default();
    history.recorded.check_ends(&mut findings);
    let facts = Facts::of(history);
    for queue in Queue::ALL {
        elements::check(&facts, queue, &mut findings);
        order::check(&facts, queue, &mut findings);
    }
    for ((queue, _), handlings) in &facts.elements {
        deliveries::check(&facts, *queue, handlings, &mut findings);
    }
    holders::check(&facts, &mut findings);
    for left in &history.left {
        findings.broken("left", left.clone());
    }
    findings
}

/// The history, in the orders in which the laws need it.
struct Facts<'h> {
    history: &'h History,
    /// The pushes, by their values.
    pushes: HashMap<u64, &'h Call>,
    /// The handlings of each element, in the order of their fences.
    elements: BTreeMap<(Queue, ElementId), Vec<&'h Handling>>,
    /// The settlements, by their handlings.
    settled: HashMap<(u32, CallId), &'h Call>,
    /// The calls by which an operator may have retried or removed elements.
    retries: Vec<&'h Call>,
    removals: HashMap<(Queue, ElementId), &'h Call>,
}

impl<'h> Facts<'h> {
    fn of(history: &'h History) -> Self {
        let (mut pushes, mut settled, mut removals) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut retries = Vec::new();
        for call in &history.recorded.calls {
            // A call that has changed no element, or was refused.
            let has_effect = !matches!(call.outcome, Some(Outcome::Found(0) | Outcome::Refused));
            match call.op {
                Op::Push { value, .. } => _ = pushes.insert(value, call),
                Op::Settle { handling, .. } => _ = settled.insert((call.client, handling), call),
                Op::Retry(_) | Op::RetryAll if has_effect => retries.push(call),
                Op::Remove(element) if has_effect && call.client != JUDGE => {
                    removals.entry((call.object, element)).or_insert(call);
                }
                _ => {}
            }
        }
        let mut elements = BTreeMap::<_, Vec<&Handling>>::new();
        for handling in &history.handlings {
            elements.entry((handling.queue, handling.element)).or_default().push(handling);
        }
        elements.values_mut().for_each(|handlings| handlings.sort_by_key(|handling| handling.fence));
        Self { history, pushes, elements, settled, retries, removals }
    }

    fn settlement(&self, handling: &Handling) -> Option<&'h Call> {
        self.settled.get(&(handling.client, handling.id)).copied()
    }

    /// The time at which the store has acknowledged that the handler has settled the element in this way.
    fn acknowledged(&self, handling: &Handling, how: How) -> Option<Nanos> {
        let (_, end) = handling.left?;
        let call = self.settlement(handling).filter(|call| call.is_ok() && end == End::Settles(how))?;
        Some(call.end)
    }

    /// Whether the element may be done by this handler.
    fn may_be_done(&self, handling: &Handling) -> bool {
        match handling.left {
            Some((_, End::Ok)) => true,
            Some((_, End::Settles(How::Done))) => {
                let outcome = self.settlement(handling).and_then(|call| call.outcome);
                outcome.is_none_or(|outcome| outcome == Outcome::Ok || outcome.is_unclear())
            }
            _ => false,
        }
    }

    /// Whether an operator may have retried the element between these times.
    fn may_be_retried(&self, queue: Queue, element: ElementId, from: Nanos, to: Nanos) -> bool {
        self.retries.iter().any(|call| {
            let is_meant = call.op == Op::RetryAll || call.op == Op::Retry(element);
            // The store may apply a call later, if its client got no answer.
            let end = if call.is_unclear() { Nanos::MAX } else { call.end };
            call.object == queue && is_meant && call.begin <= to && end >= from
        })
    }

    /// Whether nothing has disturbed any client or the store between these times.
    fn is_calm(&self, from: Nanos, to: Nanos) -> bool {
        let disturbances = &self.history.recorded.disturbances;
        let faults = disturbances.faults.iter().map(|fault| (fault.from, fault.to));
        let stalls = disturbances.stalls.iter().map(|(_, from, to)| (*from, *to));
        !faults.chain(stalls).any(|(begin, end)| begin <= to && end >= from)
    }

    /// A fault that may have undone something between these times.
    fn loss_between(&self, from: Nanos, to: Nanos) -> Option<&'static str> {
        self.history.recorded.disturbances.loss_between(from, to)
    }
}

/// Reports a violation, unless this reason excuses it.
fn broken(findings: &mut Findings, excuse: Option<&'static str>, law: &'static str, what: impl FnOnce() -> String) {
    match excuse {
        Some(reason) => findings.excuse(reason),
        None => findings.broken(law, what()),
    }
}
