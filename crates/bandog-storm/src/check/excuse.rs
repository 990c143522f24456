//! Overlaps that docs/GUARANTEES.md allows: if the store loses a hold, the holder believes that it holds the lock until
//! it notices the loss.

use super::{Call, History};
use crate::{
    fault::{Fault, FaultKind},
    history::Nanos,
};

/// The faults after which two clients are allowed to believe for a short time that they hold the same lock.
#[derive(Debug)]
pub(super) struct Excuses(Vec<Fault>);

impl Excuses {
    pub(super) fn of(history: &History) -> Self {
        Self(history.faults.iter().filter(|fault| fault.kind.forgets()).copied().collect())
    }

    /// The fault that allows `older` to believe until `to` that it holds the lock, although `newer` has been granted
    /// the lock. Such a fault began before the grant of `newer`, and removed the hold of `older` from the store. The
    /// grant of `older` can be later than the fault: the client might have received the hold for an earlier call, and
    /// passed it on to `older` after the fault. After the fault no renewal succeeds, so `older` is allowed to believe
    /// for at most one ttl.
    pub(super) fn find(&self, older: &Call, newer: &Call, to: Nanos) -> Option<FaultKind> {
        let (Some(old), Some(new)) = (&older.grant, &newer.grant) else { return None };
        let here = |fault: &&Fault| fault.name.is_none_or(|name| name == older.name);
        let before = |fault: &&Fault| fault.from <= new.at;
        let in_time = |fault: &&Fault| old.granted_until.max(to) <= fault.to.saturating_add(older.ttl);
        self.0.iter().filter(here).filter(before).find(in_time).map(|fault| fault.kind)
    }
}
