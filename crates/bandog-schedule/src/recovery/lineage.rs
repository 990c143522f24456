//! Compares a record in the store with the copy that a node remembers.

use std::collections::HashSet;

use crate::{
    Kind,
    state::{JobState, LiveRun, QueuedRun},
    trigger::UnixMs,
};

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
    // Whether a run is under way or queued in the record, but is over according to the copy.
    let is_undone = || {
        let open = OpenRuns::of(state, known);
        state.running.iter().any(|live| open.is_over(live))
            || state.queue.iter().any(|queued| open.is_queue_over(queued))
    };
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

/// The runs of a node's copy that are under way or queued. They show which runs of the record are over.
pub(super) struct OpenRuns<'a> {
    known: &'a JobState,
    /// The ticks of the schedule.
    ticks: HashSet<UnixMs>,
    /// The numbers of the runs that operators have started.
    ids: HashSet<u64>,
    /// If the store has lost the record: the creation of the new one. Earlier ticks were claimed before the loss.
    lost: Option<UnixMs>,
}

impl<'a> OpenRuns<'a> {
    pub(super) fn of(state: &JobState, known: &'a JobState) -> Self {
        let (mut ticks, mut ids) = (HashSet::new(), HashSet::new());
        if !state.is_idle() {
            let running = known.running.iter().map(|live| (live.kind, live.id, live.tick));
            let queued = known.queue.iter().map(|queued| (queued.kind, queued.id, queued.tick));
            for (kind, id, tick) in running.chain(queued) {
                if is_of_schedule(kind) {
                    ticks.insert(tick)
                } else {
                    ids.insert(id)
                };
            }
        }
        let is_lost = Lineage::of(state, known) == Lineage::StoreLost;
        let lost = state.born.as_ref().filter(|_| is_lost).map(|born| born.at);
        Self { known, ticks, ids, lost }
    }

    /// Whether the run of the record is over according to the copy. A later attempt of the run has the same tick and the
    /// same number, so it does not start again what is over.
    pub(super) fn is_over(&self, live: &LiveRun) -> bool {
        let Self { known, .. } = self;
        // A fence is a time, so a run that began after the copy was made has a greater fence.
        let is_older = live.fence <= known.fence || self.is_before_loss(live.kind, live.tick);
        is_older && !has(known, live) && self.is_claimed_and_closed(live.kind, live.id, live.tick)
    }

    /// As [`OpenRuns::is_over`], for a run that waits in the queue of a record that the store had lost.
    pub(super) fn is_queue_over(&self, queued: &QueuedRun) -> bool {
        self.is_before_loss(queued.kind, queued.tick) && self.is_claimed_and_closed(queued.kind, queued.id, queued.tick)
    }

    fn is_claimed_and_closed(&self, kind: Kind, id: u64, tick: UnixMs) -> bool {
        match is_of_schedule(kind) {
            true => tick <= self.known.watermark && !self.ticks.contains(&tick),
            false => id <= self.known.run && !self.ids.contains(&id),
        }
    }

    fn is_before_loss(&self, kind: Kind, tick: UnixMs) -> bool {
        is_of_schedule(kind) && self.lost.is_some_and(|lost| tick < lost)
    }
}

fn is_of_schedule(kind: Kind) -> bool {
    match kind {
        Kind::Scheduled | Kind::CatchUp | Kind::Unclaimed => true,
        Kind::Manual | Kind::Backfill => false,
    }
}

/// Whether the run is under way according to this state.
pub(super) fn has(state: &JobState, live: &LiveRun) -> bool {
    state.running.iter().any(|other| other.fence == live.fence)
}

/// Whether the record is as it was created: no node has added the values of its copy of an earlier record yet.
pub(super) fn is_fresh(state: &JobState) -> bool {
    state.born.as_ref().is_some_and(|born| born.fresh)
}
