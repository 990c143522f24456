//! Compares a record in the store with the copy that a node remembers.

use crate::state::{JobState, LiveRun};

/// How the record in the store relates to the node's copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lineage {
    /// Both are versions of the same record. Either of them can be the later version.
    Same,
    /// Either an operator has forgotten the job and a node has created the job's record again, or an operator has set
    /// the job's watermark back.
    Recreated,
    /// The store has lost its data, and a node has created the record again.
    StoreLost,
}

impl Lineage {
    pub(super) fn of(state: &JobState, known: &JobState) -> Self {
        match (&state.born, &known.born) {
            // If the store has lost only the board, the era has changed, but the records are still the same.
            (Some(born), Some(was)) if born.at == was.at && born.resets == was.resets => Self::Same,
            (Some(born), Some(was)) if born.at == was.at || born.era == was.era => Self::Recreated,
            (Some(_), Some(_)) => Self::StoreLost,
            // Nodes with older versions of bandog do not write `born`.
            (_, _) => Self::Same,
        }
    }
}

/// Whether the record lacks a change that the store had confirmed to this node. `known`: the node's copy. `is_later`:
/// whether the copy has a greater version than the record.
pub(super) fn lacks(state: &JobState, known: &JobState, is_later: bool) -> bool {
    // Whether the watermark or the fence of the record is smaller than that of the copy.
    let is_behind = || state.watermark < known.watermark || state.fence < known.fence;
    // Whether a run is under way in the record, but has ended according to the copy.
    let is_undone = || state.running.iter().any(|live| has_ended(known, live));
    match Lineage::of(state, known) {
        Lineage::Same => is_later || is_behind() || is_undone(),
        Lineage::Recreated => false,
        Lineage::StoreLost => is_fresh(state) || is_behind() || is_undone(),
    }
}

/// Whether the record contains claims that the node's copy does not have. If so, another node has changed the record
/// since the store fell back to an earlier state.
pub(super) fn is_beyond(state: &JobState, known: &JobState) -> bool {
    state.watermark > known.watermark || state.fence > known.fence || state.run > known.run
}

/// Whether the run has started and ended according to this state. Such a run is never under way again.
pub(super) fn has_ended(state: &JobState, live: &LiveRun) -> bool {
    live.fence <= state.fence && !has(state, live)
}

/// Whether the run is under way according to this state.
pub(super) fn has(state: &JobState, live: &LiveRun) -> bool {
    state.running.iter().any(|other| other.fence == live.fence)
}

/// Whether the record is as it was created: no node has added the values of its copy of an earlier record yet.
pub(super) fn is_fresh(state: &JobState) -> bool {
    state.born.as_ref().is_some_and(|born| born.fresh)
}
