//! Overlaps that docs/GUARANTEES.md allows. In an overlap, two clients believe at the same time that they hold the same
//! lock. This happens if the store loses a hold (a granted lock). The old holder then still believes that it holds the
//! lock, until it notices the loss.

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
        Self(history.faults().filter(|fault| fault.kind.forgets()).copied().collect())
    }

    /// Searches for a fault that explains an overlap of two calls: `newer` has been granted the lock, but `older`
    /// believes until `to` that it holds the lock. Such a fault began before the grant of `newer`, and removed the hold
    /// of `older` from the store. After the fault no renewal succeeds, so the belief of `older` is allowed to last for
    /// at most one more ttl.
    ///
    /// The grant of `older` can be later than the fault: the client might have received the hold for an earlier call,
    /// and might have handed the hold over to `older` after the fault.
    pub(super) fn find(&self, older: &Call, newer: &Call, to: Nanos) -> Option<FaultKind> {
        let (Some(old), Some(new)) = (&older.grant, &newer.grant) else { return None };
        let here = |fault: &&Fault| fault.name.is_none_or(|name| name == older.name);
        let before = |fault: &&Fault| fault.from <= new.at;
        let in_time = |fault: &&Fault| old.granted_until.max(to) <= fault.to.saturating_add(older.ttl);
        self.0.iter().filter(here).filter(before).find(in_time).map(|fault| fault.kind)
    }
}
