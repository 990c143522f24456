//! The history, in the orders in which the laws need it.

use std::collections::{BTreeMap, HashMap};

use bandog::work::ElementId;

use crate::{
    calls::{Findings, JUDGE, Outcome},
    fault::FaultKind,
    history::{CallId, Nanos},
    work::history::{Call, End, Handling, History, How, Op, Queue},
};

/// The number of deliveries after which an element is dead.
pub(super) const DELIVERIES: u32 = 5;

/// The number of bytes of the largest payload and result.
pub(super) const LARGEST: u32 = 1 << 20;
/// The number of bytes of the smallest payload or result that a server may refuse whose limit of packets is 1 MiB: each of its
/// bytes can need two of a packet, which has others beside it.
pub(super) const SMALL: u32 = 480 << 10;

/// Maximum time from a delivery to the begin of its handler: an element waits for a slot for half a second, or is delivered
/// by a request that is repeated. If it takes longer, the lease is over.
pub(super) const BEGINS_WITHIN: Nanos = 3_000_000_000;

/// The history, in the orders in which the laws need it.
pub(super) struct Facts<'h> {
    pub(super) history: &'h History,
    /// The pushes, by their values.
    pub(super) pushes: HashMap<u64, &'h Call>,
    /// The handlings of each element, in the order of their fences.
    pub(super) elements: BTreeMap<(Queue, ElementId), Vec<&'h Handling>>,
    /// The settlements, by their handlings.
    settled: HashMap<(u32, CallId), &'h Call>,
    /// The calls by which an operator may have retried or removed elements.
    retries: Vec<&'h Call>,
    pub(super) removals: HashMap<(Queue, ElementId), &'h Call>,
}

impl<'h> Facts<'h> {
    pub(super) fn of(history: &'h History) -> Self {
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

    pub(super) fn settlement(&self, handling: &Handling) -> Option<&'h Call> {
        self.settled.get(&(handling.client, handling.id)).copied()
    }

    /// The time at which the store has acknowledged that the handler has settled the element in this way.
    pub(super) fn acknowledged(&self, handling: &Handling, how: How) -> Option<Nanos> {
        let (_, end) = handling.left?;
        let call = self.settlement(handling).filter(|call| call.is_ok() && end == End::Settles(how))?;
        Some(call.end)
    }

    /// Whether the element may be done by this handler.
    pub(super) fn may_be_done(&self, handling: &Handling) -> bool {
        match handling.left {
            Some((_, End::Ok)) => true,
            Some((_, End::Answers(bytes))) => bytes <= LARGEST,
            Some((_, End::Settles(How::Done))) => {
                let outcome = self.settlement(handling).and_then(|call| call.outcome);
                outcome.is_none_or(|outcome| outcome == Outcome::Ok || outcome.is_unclear())
            }
            _ => false,
        }
    }

    /// Whether an operator may have retried the element between these times.
    pub(super) fn may_be_retried(&self, queue: Queue, element: ElementId, from: Nanos, to: Nanos) -> bool {
        self.retries.iter().any(|call| {
            let is_meant = call.op == Op::RetryAll || call.op == Op::Retry(element);
            // The store may apply a call later, if its client got no answer.
            let end = if call.is_unclear() { Nanos::MAX } else { call.end };
            call.object == queue && is_meant && call.begin <= to && end >= from
        })
    }

    /// Whether a connection of before this time may take only small packets: its limit is that of the server when it was opened.
    pub(super) fn may_be_small(&self, before: Nanos) -> bool {
        let mut faults = self.history.recorded.disturbances.faults.iter();
        faults.any(|fault| fault.kind == FaultKind::SmallPackets && fault.from <= before)
    }

    /// Whether a result with this number of bytes may be refused, so that the element is dead.
    pub(super) fn may_be_refused(&self, bytes: u32, at: Nanos) -> bool {
        bytes > LARGEST || bytes >= SMALL && self.may_be_small(at)
    }

    /// The number of deliveries between these times that have ended because their payload has panicked.
    pub(super) fn unread(&self, value: u64, from: Nanos, to: Nanos) -> u32 {
        let at = self.history.unread.get(&value).into_iter().flatten();
        u32::try_from(at.filter(|at| (from..=to).contains(*at)).count()).unwrap_or(u32::MAX)
    }

    /// Whether nothing has disturbed any client or the store between these times.
    pub(super) fn is_calm(&self, from: Nanos, to: Nanos) -> bool {
        let disturbances = &self.history.recorded.disturbances;
        let faults = disturbances.faults.iter().map(|fault| (fault.from, fault.to));
        // A handler that blocks a thread of its runtime holds up others that wait for it.
        let pauses = disturbances.pauses().map(|(_, from, to)| (from, to));
        !faults.chain(pauses).any(|(begin, end)| begin <= to && end >= from)
    }

    /// A fault that may have undone something between these times.
    pub(super) fn loss_between(&self, from: Nanos, to: Nanos) -> Option<&'static str> {
        self.history.recorded.disturbances.loss_between(from, to)
    }

    /// As [`Facts::loss_between`], for what the times of the server decide: later ones may be smaller. A statement of a database has
    /// the time at which it began.
    pub(super) fn loss_of_time_between(&self, from: Nanos, to: Nanos) -> Option<&'static str> {
        let from = from.saturating_sub(BEGINS_WITHIN);
        let mut faults = self.history.recorded.disturbances.faults.iter();
        let mut is_set_back =
            || faults.any(|fault| fault.kind == FaultKind::ClockSetBack && fault.from <= to && fault.to >= from);
        self.loss_between(from, to).or_else(|| is_set_back().then_some("the clock of the server was set back"))
    }
}

/// Reports a violation, unless this reason excuses it.
pub(super) fn broken(
    findings: &mut Findings,
    excuse: Option<&'static str>,
    law: &'static str,
    what: impl FnOnce() -> String,
) {
    match excuse {
        Some(reason) => findings.excuse(reason),
        None => findings.broken(law, what()),
    }
}
