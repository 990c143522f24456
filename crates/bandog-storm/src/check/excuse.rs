//! Overlaps that docs/GUARANTEES.md allows: a hold that the store lost is believed in until its holder learns of the
//! loss.

use super::{Call, History};
use crate::{
    fault::{Fault, FaultKind},
    history::Nanos,
};

/// The faults after which two clients may believe for a while.
#[derive(Debug)]
pub(super) struct Excuses(Vec<Fault>);

impl Excuses {
    pub(super) fn of(history: &History) -> Self {
        Self(history.faults.iter().filter(|fault| fault.kind.forgets()).copied().collect())
    }

    /// The fault that allows `older` to believe until `to` although `newer` had been granted: it came before the grant
    /// of `newer`, and removed the hold of `older`. That hold may have been passed on within its process since, so the
    /// grant of `older` may be later than the fault. No renewal succeeds after such a fault, so no client may believe
    /// for longer than a ttl after it.
    pub(super) fn find(&self, older: &Call, newer: &Call, to: Nanos) -> Option<FaultKind> {
        let (Some(old), Some(new)) = (&older.grant, &newer.grant) else { return None };
        let here = |fault: &&Fault| fault.name.is_none_or(|name| name == older.name);
        let before = |fault: &&Fault| fault.from <= new.at;
        let in_time = |fault: &&Fault| old.granted_until.max(to) <= fault.to.saturating_add(older.ttl);
        self.0.iter().filter(here).filter(before).find(in_time).map(|fault| fault.kind)
    }
}
