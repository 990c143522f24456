//! The faults, kills and stalls of a run, and what they excuse.

use std::collections::BTreeMap;

use crate::{
    fault::{Fault, FaultKind},
    history::Nanos,
};

/// Time before a failover in which acknowledged writes may not have reached a replica.
const BEHIND: Nanos = 1_000_000_000;
/// Maximum time after which the store applies a call whose client got no answer: it may wait in the socket of a server that is
/// stopped.
const APPLIED_WITHIN: Nanos = 10_000_000_000;

/// What has disturbed the clients and the store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disturbances {
    /// The times at which clients were killed.
    pub(crate) killed: BTreeMap<u32, Nanos>,
    pub(crate) faults: Vec<Fault>,
    /// Whether a client that is stopped or cut off can have locks of the store for which the others wait.
    pub(crate) has_locks: bool,
    /// Whether a call can end late because the store holds its request or its answer.
    pub(crate) holds_calls: bool,
    /// Times in which a client could not run, because of the machine. `None`: all clients.
    pub(crate) stalls: Vec<(Option<u32>, Nanos, Nanos)>,
    /// Times in which a task has blocked the runtime of a client. `None`: that of all clients.
    pub(crate) blocked: Vec<(Option<u32>, Nanos, Nanos)>,
}

impl Disturbances {
    /// All clients run in one process, so what concerns the process of one of them concerns all.
    pub(crate) fn concern_all(&mut self) {
        self.stalls.iter_mut().chain(&mut self.blocked).for_each(|(client, ..)| *client = None);
    }

    /// The faults that concern this client, or the store.
    pub(crate) fn faults_of(&self, client: u32) -> impl Iterator<Item = &Fault> {
        self.faults.iter().filter(move |fault| fault.client.is_none_or(|other| other == client))
    }

    /// Whether a fault or a stall has disturbed this client, or the store, between these times.
    pub(crate) fn is_disturbed(&self, client: u32, from: Nanos, to: Nanos) -> bool {
        let concerns = |of: Option<u32>| self.has_locks || of.is_none_or(|of| of == client);
        let faults = self.faults.iter().filter(|fault| concerns(fault.client)).map(|fault| (fault.from, fault.to));
        let pauses = self.pauses().filter(|(of, ..)| concerns(*of)).map(|(_, from, to)| (from, to));
        faults.chain(pauses).any(|(begin, end)| begin <= to && end >= from)
    }

    /// The stalls, and the times in which runtimes were blocked.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = (Option<u32>, Nanos, Nanos)> {
        self.stalls.iter().chain(&self.blocked).copied()
    }

    /// The total time between `from` and `to` in which this client could not run.
    pub(crate) fn stopped(&self, client: u32, from: Nanos, to: Nanos) -> Nanos {
        let stops = self.faults_of(client).filter(|fault| {
            let holds = matches!(fault.kind, FaultKind::HoldRequests | FaultKind::HoldAnswers | FaultKind::Outage);
            fault.kind.stops_the_worker() || self.holds_calls && holds
        });
        let pauses = self.pauses().filter(|(of, ..)| of.is_none_or(|of| of == client));
        let spans = stops.map(|fault| (fault.from, fault.to)).chain(pauses.map(|(_, from, to)| (from, to)));
        let mut spans: Vec<_> = spans.collect();
        spans.retain(|(begin, end)| *begin <= to && *end >= from);
        spans.sort_unstable();
        let (mut sum, mut seen) = (0, from);
        for (begin, end) in spans {
            sum += end.min(to).saturating_sub(begin.max(seen));
            seen = seen.max(end);
        }
        sum
    }

    /// The time after which the store does not apply a call any more whose client got no answer before `end`.
    pub(crate) fn applied_until(&self, end: Nanos) -> Nanos {
        let outages = self
            .faults
            .iter()
            .filter(|fault| matches!(fault.kind, FaultKind::Outage | FaultKind::Overtaken) && fault.from <= end);
        let over = outages.map(|fault| fault.to).fold(end, Nanos::max);
        over.saturating_add(APPLIED_WITHIN)
    }

    /// A fault that may have undone a write that was made between `begin` and `end`, before `until`.
    pub(crate) fn loss(&self, begin: Nanos, end: Nanos, until: Nanos) -> Option<&'static str> {
        let mut losses = self.faults.iter().filter(|fault| fault.kind.loses_objects());
        let fault = losses.find(|fault| match fault.kind {
            FaultKind::Flushed | FaultKind::LogDeleted => begin <= fault.to && fault.from <= until,
            _ => {
                begin <= fault.to
                    && end.saturating_add(BEHIND) >= fault.from
                    && fault.from.saturating_sub(BEHIND) <= until
            }
        })?;
        Some(match fault.kind {
            FaultKind::Flushed => "the store was emptied",
            FaultKind::LogDeleted => "the log of the database was deleted",
            _ => "a replica took over",
        })
    }

    /// A fault that may have undone something between these times.
    pub(crate) fn loss_between(&self, from: Nanos, to: Nanos) -> Option<&'static str> {
        self.loss(from, to.max(from), to)
    }
}
