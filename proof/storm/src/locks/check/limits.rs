//! The limits of semaphores, as far as the history shows them.

use super::History;
use crate::{
    fault::Fault,
    history::Nanos,
    locks::history::LimitChange,
    plan::{GREATER_LIMIT, LIMIT},
};

/// The changes of the limit of one semaphore.
pub(super) struct Limits<'a> {
    history: &'a History,
    name: usize,
    /// The changes to the greater limit and to the normal limit, in the order of their starts.
    changes: Vec<&'a LimitChange>,
}

impl<'a> Limits<'a> {
    pub(super) fn of(history: &'a History, name: usize) -> Self {
        let mut changes: Vec<_> = history.limits.iter().filter(|change| change.name == name).collect();
        changes.sort_by_key(|change| change.from);
        Self { history, name, changes }
    }

    /// The greatest limit that the store might have had at some time between `from` and `to`.
    pub(super) fn greatest(&self, from: Nanos, to: Nanos) -> u32 {
        // The last change to the normal limit that certainly was applied before `from`, and began after all changes to
        // the greater limit had ended.
        let is_greater = |change: &&&LimitChange| change.limit > LIMIT;
        let until = self.changes.partition_point(|change| change.from <= to);
        let Some(last) = self.changes[..until].iter().filter(is_greater).map(|change| change.to).max() else {
            return LIMIT;
        };
        let is_reset = |change: &&LimitChange| {
            let is_certain = change.sure && !self.may_be_undone(change);
            change.limit == LIMIT && is_certain && change.from >= last && change.to <= from
        };
        if self.changes[..until].iter().copied().any(|change| is_reset(&change)) { LIMIT } else { GREATER_LIMIT }
    }

    /// Whether the store might have refused the normal limit at the time `at`. The store accepts the limit before the
    /// last change. So it refuses the normal limit only if a change to the greater limit was the first use of the name,
    /// or the first use after the store had lost its data.
    pub(super) fn may_be_other(&self, at: Nanos) -> bool {
        let until = self.changes.partition_point(|change| change.from <= at);
        self.changes[..until].iter().filter(|change| change.limit > LIMIT).any(|change| {
            let of_name = self.history.calls.iter().filter(|call| call.name == self.name);
            // Only a grant proves that the store knew the name.
            let first = of_name.filter_map(|call| call.grant.as_ref()).map(|grant| grant.at).min();
            first.is_none_or(|first| first >= change.from)
                || self.history.faults().any(|fault| fault.kind.forgets() && fault.from <= change.to)
                || self.may_be_undone(change)
        })
    }

    /// Whether the store might have applied this change, and lost it when a replica took over.
    fn may_be_undone(&self, change: &LimitChange) -> bool {
        let during = |fault: &&Fault| fault.from <= change.to && fault.to >= change.from;
        self.history.faults().filter(during).any(|fault| fault.kind.undoes())
    }
}
