//! Compares a record in the store with the copy that a node remembers.

use crate::state::{JobState, LiveRun};

/// How the store's record relates to the one that a node remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lineage {
    /// They are versions of the same record: either may be the later one.
    Same,
    /// An operator has forgotten the job and a node created it again, or an operator has set its watermark back.
    Recreated,
    /// The store lost its data, and a node created the record again.
    StoreLost,
}

impl Lineage {
    pub(super) fn of(state: &JobState, known: &JobState) -> Self {
        match (&state.born, &known.born) {
            // When the store has lost the board alone, the era changes, but the jobs are still the same.
            (Some(born), Some(was)) if born.at == was.at && born.resets == was.resets => Self::Same,
            (Some(born), Some(was)) if born.at == was.at || born.era == was.era => Self::Recreated,
            (Some(_), Some(_)) => Self::StoreLost,
            // Nodes of older versions do not write `born`.
            (_, _) => Self::Same,
        }
    }
}

/// Whether the record lacks a change that this node has seen confirmed. `is_later`: the known copy has a greater
/// version than the record.
pub(super) fn lacks(state: &JobState, known: &JobState, is_later: bool) -> bool {
    let is_behind = || state.watermark < known.watermark || state.fence < known.fence;
    let is_undone = || state.running.iter().any(|live| has_ended(known, live));
    match Lineage::of(state, known) {
        Lineage::Same => is_later || is_behind() || is_undone(),
        Lineage::Recreated => false,
        Lineage::StoreLost => is_fresh(state) || is_behind() || is_undone(),
    }
}

/// Whether another node has changed the record since the store fell back to an earlier state.
pub(super) fn is_beyond(state: &JobState, known: &JobState) -> bool {
    state.watermark > known.watermark || state.fence > known.fence || state.run > known.run
}

/// Whether this state shows that the run has started and ended. Such a run never becomes live again.
pub(super) fn has_ended(state: &JobState, live: &LiveRun) -> bool {
    live.fence <= state.fence && !has(state, live)
}

pub(super) fn has(state: &JobState, live: &LiveRun) -> bool {
    state.running.iter().any(|other| other.fence == live.fence)
}

/// Whether no node has added its copy to the record since a node created it.
pub(super) fn is_fresh(state: &JobState) -> bool {
    state.born.as_ref().is_some_and(|born| born.fresh)
}
