//! Recovery from a store that has lost data: all of it, or the latest changes.
//!
//! The board names the era of the store's data. When a record is missing and the era is the known one, an operator has
//! forgotten the job. When the era is another one, the store has lost its data, and this node writes what it remembers.
//! [`crate::plan`] decides what is written.

use std::sync::Arc;

use bandog_core::{Record, Result, Version};

use super::{Dispatcher, JobId, POLL_INTERVAL, SlotPriority, at};
use crate::{
    plan::{Event, KnownRecord, MAX_EARLY_MS},
    state::JobState,
};

impl Dispatcher {
    /// Takes the era from the board. None if there is no board; the era is read or created then.
    pub(super) fn take_era(&mut self, board: Option<Record>) -> Option<String> {
        let store = self.store.as_mut()?;
        let Some(era) = board.map(|board| board.value).filter(|era| !era.is_empty()) else {
            store.read_era();
            return None;
        };
        if store.era.replace(era.clone()).is_some_and(|known| known != era) {
            tracing::error!(
                jobs = self.entries.iter().filter(|entry| entry.is_shared).count(),
                "the store has lost its data, or is another store: this node writes its jobs' records again as it \
                 remembers them; ticks that may have run before are recorded as missed"
            );
        }
        Some(era)
    }

    pub(super) fn era_read(&mut self, result: Result<String>) {
        let Some(store) = &mut self.store else { return };
        store.era_was_read();
        match result {
            // The jobs are read together with the board.
            Ok(_) => self.read_all(),
            Err(error) => self.unanswered(&error),
        }
    }

    /// Handles a record that was read together with this era. If its own era is another one, the store has lost the
    /// board alone, and the record takes the new era.
    pub(super) fn record_found(&mut self, job: JobId, era: Option<&str>) {
        let born = self.entries[at(job)].state.as_mut().and_then(|state| state.born.as_mut());
        if let Some((born, era)) = born.zip(era).filter(|(born, era)| born.era != *era) {
            era.clone_into(&mut born.era);
        }
    }

    /// Reads everything again when the store answers after an outage: it may be another store, or have lost its latest
    /// data. If the last such read was less than a poll interval ago, the next poll does it.
    pub(super) fn read_after_outage(&mut self) {
        let now = self.time.moment();
        let Some(store) = &mut self.store else { return };
        if store.all_read_at.is_none_or(|last| now.since(last) >= POLL_INTERVAL) {
            store.all_read_at = Some(now);
            self.read_all();
        } else {
            store.board = None;
        }
    }

    /// Handles a missing record that was read together with this era.
    pub(super) fn record_missing(&mut self, job: JobId, era: Option<&str>) {
        let now = self.time.now();
        let entry = &mut self.entries[at(job)];
        let Some(era) = era.filter(|_| entry.pending.is_none()) else {
            // The record is read again once there is an era.
            return;
        };
        let Some(version) = entry.version.take() else {
            // This node has not written the record yet.
            if let Some(born) = entry.state.as_mut().and_then(|state| state.born.as_mut()) {
                era.clone_into(&mut born.era);
            }
            return;
        };
        let Some(known) = entry.state.take() else { return };
        let spec = known.spec.clone();
        entry.is_fault_logged = false;
        if known.born.as_ref().is_some_and(|born| born.era != era) {
            // Other nodes may have claimed ticks until now.
            let born = now.saturating_add(MAX_EARLY_MS).saturating_add(1);
            entry.state = Some(Box::new(JobState::create(&entry.definition.policy, born, spec, era)));
            entry.events.insert(0, Event::RecordLost(KnownRecord { state: Arc::new(*known), version, is_later: true }));
            self.ready.push_back((job, SlotPriority::Normal));
        } else {
            // An operator has forgotten the job, and this node still has it. The node writes the record again at the
            // next tick, or within a day.
            tracing::info!(job = %entry.definition.name, "an operator has forgotten the job: this node registers it again");
            entry.state = Some(Box::new(JobState::create(&entry.definition.policy, now, spec, era)));
            self.reconcile(job);
            self.schedule_at(job, now);
        }
    }

    /// Compares a record that was just read with the one that this node knew.
    pub(super) fn compare_with_known(&mut self, job: JobId, read: Version, known: Option<(Version, Box<JobState>)>) {
        let moment = self.time.moment();
        let entry = &mut self.entries[at(job)];
        let Some(state) = &mut entry.state else { return };
        for event in &mut entry.events {
            if let Event::RecordLost(memory) = event {
                memory.is_later = read < memory.version;
            }
        }
        if let Some((version, known)) = known {
            if state.born.is_none() {
                // A node of an older version wrote the record.
                state.born.clone_from(&known.born);
            }
            let is_later = read < version;
            if state.lacks(&known, is_later) {
                // The store never had a tick that ran unclaimed.
                let is_sure = is_later || !entry.events.iter().any(|event| matches!(event, Event::RanUnclaimed(_)));
                if let Some(store) = self.store.as_mut().filter(|_| is_sure && state.is_known_era(&known)) {
                    store.log_rollback(moment, &entry.definition.name);
                }
                entry.events.insert(0, Event::RecordLost(KnownRecord { state: Arc::new(*known), version, is_later }));
            }
        }
        if entry.events.iter().any(|event| matches!(event, Event::RecordLost(_))) {
            // Local runs stay as they are until the recovered state is written.
            return;
        }
        self.reconcile(job);
    }
}
