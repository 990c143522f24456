//! What docs/GUARANTEES.md does not promise: a hold that the store forgot is believed in until its holder learns it.

use super::{Call, History};
use crate::{
    fault::{Fault, Kind},
    history::Nanos,
};

/// The faults after which two may believe for a while.
#[derive(Debug)]
pub(super) struct Excuses(Vec<Fault>);

impl Excuses {
    pub(super) fn of(history: &History) -> Self {
        Self(history.faults.iter().filter(|fault| fault.kind.forgets()).copied().collect())
    }

    /// Why `older` may still have believed until `to` although `newer` had been granted: a fault that came after
    /// `older` had asked and before `newer` was told, not longer ago than the ttl of `older`. No renewal succeeds
    /// after such a fault, so longer than that nobody may believe.
    pub(super) fn find(&self, older: &Call, newer: &Call, to: Nanos) -> Option<Kind> {
        let told = newer.told().unwrap_or(Nanos::MAX);
        let here = |fault: &&Fault| fault.name.is_none_or(|name| name == older.name);
        let between = |fault: &&Fault| older.asked <= fault.to && fault.from <= told;
        let soon = |fault: &&Fault| to <= fault.to.saturating_add(older.ttl);
        self.0.iter().filter(here).filter(between).find(soon).map(|fault| fault.kind)
    }
}
