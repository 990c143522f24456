//! Overlaps that docs/GUARANTEES.md allows: if the store loses a hold, the holder believes that it holds the lock until
//! it notices the loss.

use super::{Call, History};
use crate::{
    fault::{Fault, FaultKind},
    history::Nanos,
};

/// The faults after which two clients may believe for a while that they hold one lock.
#[derive(Debug)]
pub(super) struct Excuses(Vec<Fault>);

impl Excuses {
    pub(super) fn of(history: &History) -> Self {
        Self(history.faults.iter().filter(|fault| fault.kind.forgets()).copied().collect())
    }

    /// The fault that allows `older` to believe until `to` that it holds the lock, although `newer` was granted the
    /// lock meanwhile. The fault removed the hold of `older`, and came before the grant of `newer`. The grant of
    /// `older` may be later than the fault, because its process may have passed the removed hold on from another call.
    /// No renewal succeeds after such a fault, so `older` may believe for a ttl after the fault at most.
    pub(super) fn find(&self, older: &Call, newer: &Call, to: Nanos) -> Option<FaultKind> {
        let (Some(old), Some(new)) = (&older.grant, &newer.grant) else { return None };
        let here = |fault: &&Fault| fault.name.is_none_or(|name| name == older.name);
        let before = |fault: &&Fault| fault.from <= new.at;
        let in_time = |fault: &&Fault| old.granted_until.max(to) <= fault.to.saturating_add(older.ttl);
        self.0.iter().filter(here).filter(before).find(in_time).map(|fault| fault.kind)
    }
}
