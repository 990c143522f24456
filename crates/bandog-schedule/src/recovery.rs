//! Recovery from a store that has lost data: all of it, or the latest changes.
//!
//! The era is a random name of the store's data. The board (the record that notifies nodes of changes) contains the era
//! ([`EraWatch`]), and each job's record contains the era in which the record was created. There are three cases:
//! - A record is missing, and the era has not changed: an operator has forgotten the job.
//! - A record is missing, and the era has changed: the store has lost its data. This node restores its copy of the
//!   record.
//! - A record is older than this node's copy, by its version or its content: the store fell back to an earlier state,
//!   for example after a failover. This node restores the lost changes.
//!
//! The dispatcher calls [`recover`] for each record that it reads. If data was lost, [`recover`] adds an event to the
//! job. When [`crate::plan`] applies this event, it merges the node's copy into the record by the rules of [`restore`].

mod era;
mod lineage;
mod pauses;
mod rules;

use std::sync::Arc;

use bandog_core::Version;

use self::lineage::{Lineage, lacks};
use crate::{
    dispatch::JobEntry,
    plan::{Event, KnownRecord, MAX_EARLY_MS},
    state::JobState,
    trigger::UnixMs,
};

pub(crate) use self::{
    era::{EraWatch, new_era, read_or_create_era},
    pauses::{PausesRead, compare_pauses},
    rules::restore,
};

/// A job's record, as the store answered.
#[derive(Debug)]
pub(crate) enum RecordRead {
    /// There is no record.
    Missing,
    /// The node knows this version already.
    Unchanged,
    /// The record says nothing: it cannot be parsed, or a swap is in flight, whose answer will be newer. It can be a record
    /// that another node has created after a loss, so it must not change the era of the node's copy.
    Unusable,
    Found(Version, Box<JobState>),
}

/// The next step of the node after [`recover`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovered {
    Nothing,
    /// The store has lost nothing of the record. The caller starts and drops local runs until they match the record,
    /// and plans the job.
    Current,
    /// The node's copy is newer than the record. The caller plans the job, but does not change local runs until the
    /// recovered state is written. `is_rollback`: whether the store fell back to an earlier state, which the caller
    /// logs.
    Behind {
        is_rollback: bool,
    },
    /// The store has lost all records, including this one. The caller plans the job.
    Lost,
    /// An operator has forgotten the job, but this node still has the job's code. The node writes the record again at
    /// the job's next tick, or within a day.
    Forgotten,
}

/// Handles a record that was read. Compares the record with the node's copy to find out whether the store has lost
/// data. `era`: the era that the same call to the store has read. None if the store has no era.
pub(crate) fn recover(entry: &mut JobEntry, read: RecordRead, era: Option<&str>, now: UnixMs) -> Recovered {
    match read {
        RecordRead::Missing => match era {
            Some(era) if entry.pending.is_none() => record_missing(entry, era, now),
            // The record is read again when the era is known, or when the swap in flight is answered.
            Some(_) | None => Recovered::Nothing,
        },
        RecordRead::Unchanged => {
            enter_era(entry, era);
            Recovered::Nothing
        }
        RecordRead::Unusable => Recovered::Nothing,
        RecordRead::Found(version, state) => {
            let recovered = record_found(entry, version, state);
            enter_era(entry, era);
            recovered
        }
    }
}

/// Writes this era into the node's copy of the record. If the copy has another era, the store has lost the board, but
/// not the record. So the record belongs to the new era.
fn enter_era(entry: &mut JobEntry, era: Option<&str>) {
    let born = entry.state.as_mut().and_then(|state| state.born.as_mut());
    if let Some((born, era)) = born.zip(era).filter(|(born, era)| born.era != *era) {
        era.clone_into(&mut born.era);
    }
}

/// Handles a missing record. Finds out whether the store has lost the record, or an operator has forgotten the job.
fn record_missing(entry: &mut JobEntry, era: &str, now: UnixMs) -> Recovered {
    let Some(version) = entry.version.take() else {
        // This node has not written the record yet.
        enter_era(entry, Some(era));
        return Recovered::Nothing;
    };
    let Some(known) = entry.state.take() else { return Recovered::Nothing };
    let spec = known.spec.clone();
    entry.is_fault_logged = false;
    if known.born.as_ref().is_some_and(|born| born.era != era) {
        // Before the loss, other nodes might have claimed ticks up to this time. So ticks before this time are ignored.
        let born = now.saturating_add(MAX_EARLY_MS).saturating_add(1);
        entry.state = Some(Box::new(JobState::create(&entry.definition.policy, born, spec, era)));
        entry.events.insert(0, Event::RecordLost(KnownRecord { state: Arc::new(*known), version, is_later: true }));
        Recovered::Lost
    } else {
        entry.state = Some(Box::new(JobState::create(&entry.definition.policy, now, spec, era)));
        Recovered::Forgotten
    }
}

/// Compares the record with the node's copy, and replaces the copy by the record.
fn record_found(entry: &mut JobEntry, version: Version, mut state: Box<JobState>) -> Recovered {
    // The record has another version now. So `is_later` is computed again for the earlier copies.
    for event in &mut entry.events {
        if let Event::RecordLost(known) = event {
            known.is_later = version < known.version;
        }
    }
    let mut is_rollback = false;
    let known = entry.version.replace(version).zip(entry.state.take());
    if let Some((known_version, known)) = known {
        if state.born.is_none() {
            // A node with an older version of bandog wrote the record.
            state.born.clone_from(&known.born);
        }
        let is_later = version < known_version;
        if lacks(&state, &known, is_later) {
            // A tick that ran without a claim was never in the store. So if the record lacks such a tick, this does not
            // prove that the store fell back.
            let is_sure = is_later || !entry.events.iter().any(|event| matches!(event, Event::RanUnclaimed(_)));
            is_rollback = is_sure && Lineage::of(&state, &known) == Lineage::Same;
            let known = KnownRecord { state: Arc::new(*known), version: known_version, is_later };
            entry.events.insert(0, Event::RecordLost(known));
        }
    }
    entry.state = Some(state);
    if entry.events.iter().any(|event| matches!(event, Event::RecordLost(_))) {
        return Recovered::Behind { is_rollback };
    }
    Recovered::Current
}

#[cfg(test)]
mod tests;
