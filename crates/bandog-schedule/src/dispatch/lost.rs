//! A store that has lost what it was told: all of it, or the latest.
//!
//! The board names an era. A record that is not there was forgotten on purpose if the era is the one that this node knew;
//! if it is another one, the store has lost its data, and this node brings back what it remembers. What is then written
//! is decided in [`crate::plan`].

use std::sync::Arc;

use bandog_core::{Record, Result, Version};

use super::{Dispatch, JobId, LOOK, Turn, at};
use crate::{
    plan::{EARLY, Event, Memory},
    state::JobState,
};

impl Dispatch {
    /// What the board says; none if it is not there, and is asked for.
    pub(super) fn hear_board(&mut self, board: Option<Record>) -> Option<String> {
        let desk = self.desk.as_mut()?;
        let Some(era) = board.map(|board| board.value).filter(|era| !era.is_empty()) else {
            desk.ask_era();
            return None;
        };
        if desk.era.replace(era.clone()).is_some_and(|known| known != era) {
            tracing::error!(
                jobs = self.entries.iter().filter(|entry| entry.is_shared).count(),
                "the store has lost its data, or is another one: this node writes its jobs again as it remembers them; \
                 ticks that may have run before are recorded as missed"
            );
        }
        Some(era)
    }

    pub(super) fn got_era(&mut self, result: Result<String>) {
        let Some(desk) = &mut self.desk else { return };
        desk.asked_era();
        match result {
            // The board is read with the jobs.
            Ok(_) => self.read_all(),
            Err(error) => self.unanswered(&error),
        }
    }

    /// A job whose record is there, at a moment when the board told of this era: its board alone was lost, if that is
    /// another one than before.
    pub(super) fn is_there(&mut self, job: JobId, era: Option<&str>) {
        let born = self.entries[at(job)].state.as_mut().and_then(|state| state.born.as_mut());
        if let Some((born, era)) = born.zip(era).filter(|(born, era)| born.era != *era) {
            era.clone_into(&mut born.era);
        }
    }

    /// The store answers again. It may be another one, or have lost what it was told last: everything is read again, at
    /// once if that was not done just now, and otherwise after the next look.
    pub(super) fn read_after_outage(&mut self) {
        let now = self.time.moment();
        let Some(desk) = &mut self.desk else { return };
        if desk.outage.is_none_or(|last| now.since(last) >= LOOK) {
            desk.outage = Some(now);
            self.read_all();
        } else {
            desk.board = None;
        }
    }

    /// A job whose record is not there, at a moment when the board told of this era.
    pub(super) fn is_gone(&mut self, job: JobId, era: Option<&str>) {
        let now = self.time.now();
        let entry = &mut self.entries[at(job)];
        let Some(era) = era.filter(|_| entry.flight.is_none()) else {
            // It is read again once there is one.
            return;
        };
        let Some(version) = entry.version.take() else {
            // This node has not made it yet.
            if let Some(born) = entry.state.as_mut().and_then(|state| state.born.as_mut()) {
                era.clone_into(&mut born.era);
            }
            return;
        };
        let Some(known) = entry.state.take() else { return };
        let spec = known.spec.clone();
        entry.is_told = false;
        if known.born.as_ref().is_some_and(|born| born.era != era) {
            // Nobody knows whether others have claimed ticks until now.
            let born = now.saturating_add(EARLY).saturating_add(1);
            entry.state = Some(Box::new(JobState::born(&entry.task.policy, born, spec, era)));
            entry.events.insert(0, Event::Lost(Memory { state: Arc::new(*known), version, is_later: true }));
            self.ready.push_back((job, Turn::Usual));
        } else {
            // Somebody has forgotten it; this node has it still, and says so at its next tick or in a day.
            tracing::info!(job = %entry.task.name, "the job was forgotten: it begins anew");
            entry.state = Some(Box::new(JobState::born(&entry.task.policy, now, spec, era)));
            self.reconcile(job);
            self.arm_at(job, now);
        }
    }

    /// Compares a record that was just read with what this node knew to be there.
    pub(super) fn remember(&mut self, job: JobId, read: Version, known: Option<(Version, Box<JobState>)>) {
        let moment = self.time.moment();
        let entry = &mut self.entries[at(job)];
        let Some(state) = &mut entry.state else { return };
        for event in &mut entry.events {
            if let Event::Lost(memory) = event {
                memory.is_later = read < memory.version;
            }
        }
        if let Some((version, known)) = known {
            if state.born.is_none() {
                // A node of a version before has written it.
                state.born.clone_from(&known.born);
            }
            let is_later = read < version;
            if state.lacks(&known, is_later) {
                // A tick that ran unclaimed is one that the store never had.
                let is_sure = is_later || !entry.events.iter().any(|event| matches!(event, Event::Unclaimed(_)));
                if let Some(desk) = self.desk.as_mut().filter(|_| is_sure && state.is_known_era(&known)) {
                    desk.tell_of_fall(moment, &entry.task.name);
                }
                entry.events.insert(0, Event::Lost(Memory { state: Arc::new(*known), version, is_later }));
            }
        }
        if entry.events.iter().any(|event| matches!(event, Event::Lost(_))) {
            // What runs here is as it was, until that is written.
            return;
        }
        self.reconcile(job);
    }
}
