//! Recovery from a store that has lost data: all of it, or the latest changes.
//!
//! The store's board names the era of its data ([`EraWatch`]), and each job's record names the era in which it was
//! created. When a record is missing and the era is the known one, an operator has forgotten the job. When the era is
//! another one, the store has lost its data, and this node writes what it remembers. A record whose version or content
//! is older than this node's copy fell back, for example after a failover, and is treated alike.
//!
//! The dispatcher calls [`recover`] for each record that it reads. It adds an event if data was lost. With that event,
//! [`crate::plan`] merges the known copy into the record by the rules of [`restore`].

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
    /// The node knows this version already, cannot read the record, or has a swap in flight whose answer will be newer.
    Unchanged,
    Found(Version, Box<JobState>),
}

/// What the node has to do after [`recover`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovered {
    Nothing,
    /// The store has lost nothing of the record: local runs must match it, and the job is planned.
    Current,
    /// The node's copy is newer than the record. The job is planned, and local runs are not changed until the recovered
    /// state is written. `is_rollback`: whether the store fell back to an earlier state, which should be logged.
    Behind {
        is_rollback: bool,
    },
    /// The store lost all records, including this one. The job is planned.
    Lost,
    /// An operator has forgotten the job, and this node still has it. The node writes the record again at the next
    /// tick, or within a day.
    Forgotten,
}

/// Handles a record that was read together with this era: compares the record with the node's copy to find out whether
/// the store has lost data. `era` is none if the era is not known yet.
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
        RecordRead::Found(version, state) => {
            let recovered = record_found(entry, version, state);
            enter_era(entry, era);
            recovered
        }
    }
}

/// Writes this era into the node's copy of the record. If the record has another era, the store has lost the board, but
/// not the record.
fn enter_era(entry: &mut JobEntry, era: Option<&str>) {
    let born = entry.state.as_mut().and_then(|state| state.born.as_mut());
    if let Some((born, era)) = born.zip(era).filter(|(born, era)| born.era != *era) {
        era.clone_into(&mut born.era);
    }
}

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
        // Before the loss, other nodes may have claimed ticks up to this time.
        let born = now.saturating_add(MAX_EARLY_MS).saturating_add(1);
        entry.state = Some(Box::new(JobState::create(&entry.definition.policy, born, spec, era)));
        entry.events.insert(0, Event::RecordLost(KnownRecord { state: Arc::new(*known), version, is_later: true }));
        Recovered::Lost
    } else {
        entry.state = Some(Box::new(JobState::create(&entry.definition.policy, now, spec, era)));
        Recovered::Forgotten
    }
}

/// Replaces the node's copy by the record, and compares them.
fn record_found(entry: &mut JobEntry, version: Version, mut state: Box<JobState>) -> Recovered {
    for event in &mut entry.events {
        if let Event::RecordLost(known) = event {
            known.is_later = version < known.version;
        }
    }
    let mut is_rollback = false;
    let known = entry.version.replace(version).zip(entry.state.take());
    if let Some((known_version, known)) = known {
        if state.born.is_none() {
            // A node of an older version wrote the record.
            state.born.clone_from(&known.born);
        }
        let is_later = version < known_version;
        if lacks(&state, &known, is_later) {
            // A tick that ran unclaimed was never in the store, so its absence does not show a rollback.
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
