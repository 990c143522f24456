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

    /// Why `older` may still have believed until `to` although `newer` had been granted: a fault that came before
    /// `newer` was told, and took the hold of `older` away. That hold may have been passed on within its process
    /// since, so what counts is not when `older` asked but until when it was told that it holds: no renewal succeeds
    /// after such a fault, so longer than a ttl after it nobody may believe, and nobody can have been told so.
    pub(super) fn find(&self, older: &Call, newer: &Call, to: Nanos) -> Option<Kind> {
        let (Some(old), Some(new)) = (&older.grant, &newer.grant) else { return None };
        let here = |fault: &&Fault| fault.name.is_none_or(|name| name == older.name);
        let before = |fault: &&Fault| fault.from <= new.at;
        let in_time = |fault: &&Fault| old.told_until.max(to) <= fault.to.saturating_add(older.ttl);
        self.0.iter().filter(here).filter(before).find(in_time).map(|fault| fault.kind)
    }
}
