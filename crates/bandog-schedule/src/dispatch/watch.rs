//! Looking around: words of others, nodes that died, records as they are.

use std::collections::HashSet;

use bandog_core::{Holding, Key, Reading, Record, Result};
use bandog_cron::Time;

use super::{
    Dispatch, JobId, Turn, at,
    desk::{BATCH, key},
};
use crate::{
    plan::Event,
    state::{JobState, Live},
    trigger::Ms,
};

/// Everything is read again after so many looks, should a word have been missed.
const READ_AGAIN: u32 = 30;
/// No claim is made so much before its tick, whatever the store's clock does in small steps: what is more is told of.
const AHEAD: Ms = 60_000;

impl Dispatch {
    /// Once a second: has anybody a word, does everybody live, who waits too long.
    pub(super) fn look(&mut self) {
        let now = self.time.moment();
        if now < self.look_at {
            return;
        }
        self.look_at = now + self.every;
        self.tell_of_long_waits(now);
        let Some(desk) = &mut self.desk else { return };
        if !self.is_looking {
            self.is_looking = true;
            let others = self.entries.iter().filter_map(|entry| entry.state.as_ref());
            let sessions: HashSet<Holding> = others
                .flat_map(|state| &state.running)
                .filter_map(Live::holding)
                .filter(|held| !desk.holds(held))
                .collect();
            desk.look(now, sessions.into_iter().collect());
        }
    }

    pub(super) fn looked_around(&mut self, holdings: &[Holding], reading: Reading) {
        let stands = holdings.iter().zip(reading.held);
        let dead: Vec<&Holding> =
            stands.filter(|(_, held)| matches!(held, Ok(false))).map(|(holding, _)| holding).collect();
        if !dead.is_empty() {
            for (job, entry) in (0..).zip(&mut self.entries) {
                let Some(state) = &entry.state else { continue };
                for holding in &dead {
                    let event = Event::Dead((*holding).clone());
                    let had = state.running.iter().any(|live| live.holding().as_ref() == Some(holding));
                    if had && !entry.events.contains(&event) {
                        entry.events.push(event);
                        self.ready.push_back((job, Turn::Usual));
                    }
                }
            }
        }
        let board = reading.records.into_iter().next().and_then(Result::ok).flatten().map(|record| record.version);
        let Some(desk) = &mut self.desk else { return };
        self.looks += 1;
        if desk.board != board || self.looks.is_multiple_of(READ_AGAIN) {
            desk.board = board;
            self.read_all();
        }
    }

    pub(super) fn read_all(&mut self) {
        let sent = self.time.moment();
        let Some(desk) = &self.desk else { return };
        let shared = (0..).zip(&self.entries).filter(|(_, entry)| entry.is_shared);
        let named: Vec<(JobId, Key)> =
            shared.filter_map(|(job, entry)| Some((job, key(&entry.task.name).ok()?))).collect();
        for some in named.chunks(BATCH) {
            let (jobs, keys) = some.iter().cloned().unzip();
            desk.read(sent, jobs, keys);
        }
    }

    /// Takes in a record as it is. False: it cannot be read.
    pub(super) fn learn(&mut self, job: JobId, record: Result<Option<Record>>) -> bool {
        let now = self.time.now();
        let entry = &mut self.entries[at(job)];
        if entry.flight.is_some() {
            // The answer that is on its way is newer.
            return true;
        }
        let name = &entry.task.name;
        let read = record.and_then(|record| match record {
            Some(record) if Some(record.version) == entry.version => Ok(None),
            Some(record) => {
                let state = JobState::read(&record.value, &key(name)?)?;
                Ok(Some((Some(record.version), state)))
            }
            None => {
                // Somebody has forgotten it; this node has it still.
                let spec = entry.state.take().and_then(|state| state.spec);
                Ok(Some((None, JobState::new(&entry.task.policy, now, spec))))
            }
        });
        let (version, state) = match read {
            Ok(Some(other)) => other,
            Ok(None) => return true,
            Err(error) => {
                if !std::mem::replace(&mut entry.is_told, true) {
                    tracing::error!(job = %name, %error, "the job's record cannot be read: it does not run here until it can");
                }
                return false;
            }
        };
        tell_of_rest(name, &state, now);
        entry.is_told = false;
        entry.version = version;
        entry.state = Some(Box::new(state));
        self.reconcile(job);
        if version.is_some() {
            self.ready.push_back((job, Turn::Usual));
        } else {
            self.arm_at(job, now);
        }
        true
    }
}

/// Says that the store's clock was set back.
pub(crate) fn tell_of_rest(job: &str, state: &JobState, now: Ms) {
    if let Some(until) = state.rests_until(now.saturating_add(AHEAD)) {
        let until = Time::from_millisecond(until);
        tracing::error!(job, %until, "a tick of the future was claimed, so the store's clock was set back: the job rests until then; `bandog jobs reset` lets it go on");
    }
}
