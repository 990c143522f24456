//! Faults that lose data of the store.

use crate::{fault::FaultKind, grid::history::History, history::Nanos};

/// Time before a failover in which acknowledged writes may not have reached a replica.
const BEHIND: Nanos = 1_000_000_000;
/// A fault that may have undone a write that was made between `begin` and `end`, before `until`.
pub(super) fn loss(history: &History, begin: Nanos, end: Nanos, until: Nanos) -> Option<&'static str> {
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
pub(super) fn loss_between(history: &History, from: Nanos, to: Nanos) -> Option<&'static str> {
    loss(history, from, to.max(from), to)
}
