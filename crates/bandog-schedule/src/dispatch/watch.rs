//! Looking around: words of others, nodes that died, records as they are. Once a second, and when the board rings.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use bandog_core::{Holding, Key, Moment, Reading, Record, Result};
use bandog_cron::Time;

use super::{
    Dispatch, Entry, JobId, Turn, at,
    desk::{Asked, BATCH, key},
};
use crate::{
    job::Task,
    news::News,
    plan::Event,
    state::{JobState, Live, Spec},
    trigger::Ms,
};

/// Interval, in looks that no notification asked for, at which all jobs are read again, should one have been missed.
pub(super) const READ_AGAIN: u32 = 30;
/// A look that a ring asks for comes no sooner after another such look.
const GATHER: Duration = Duration::from_millis(50);
/// No claim is made so much before its tick, whatever the store's clock does in small steps: what is more is told of.
const AHEAD: Ms = 60_000;

impl Dispatch {
    /// The board has rung. Of rings that come together one is followed at once, and all others by one look after it.
    pub(super) fn rung(&mut self) {
        let now = self.time.moment();
        self.ring_at.get_or_insert(self.answered_ring.map_or(now, |last| now.max(last + GATHER)));
    }

    /// When the look is due that a ring has asked for. What the last one found is taken in first.
    pub(super) fn ring_due(&self) -> Option<Moment> {
        self.ring_at.filter(|_| !self.is_looking && self.reading == 0)
    }

    /// Has anybody a word, does everybody live? Once a second: who waits too long?
    pub(super) fn look(&mut self) {
        let now = self.time.moment();
        let is_time = now >= self.look_at;
        if is_time {
            self.look_at = now + self.every;
            self.tell_of_long_waits(now);
        }
        if !is_time && self.ring_due().is_none_or(|due| now < due) {
            return;
        }
        let Some(desk) = &mut self.desk else { return };
        if !self.is_looking {
            self.is_looking = true;
            if self.ring_at.take().is_some() {
                self.answered_ring = Some(now);
            }
            let others = self.entries.iter().filter_map(|entry| entry.state.as_ref());
            let sessions: HashSet<Holding> = others
                .flat_map(|state| &state.running)
                .filter_map(Live::holding)
                .filter(|held| !desk.holds(held))
                // Its own: a store that has lost its data has lost them, too.
                .chain(desk.own().map(|(_, held)| held.clone()))
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
        let own = self.desk.iter().flat_map(|desk| desk.own());
        let lost: Vec<(Duration, Holding)> =
            own.filter(|(_, held)| dead.contains(held)).map(|(lease, held)| (lease, held.clone())).collect();
        lost.iter().for_each(|(lease, held)| self.lose_session(*lease, held));
        let mut records = reading.records.into_iter();
        let board = records.next().and_then(Result::ok).flatten();
        let version = board.as_ref().map(|board| board.version);
        let known_era = self.desk.as_ref().and_then(|desk| desk.era.clone());
        let era = self.hear_board(board);
        let is_same_era = known_era.is_none() || era == known_era;
        self.learn_pauses(records.next());
        let sent = self.time.moment();
        let Some(desk) = &mut self.desk else { return };
        let is_time = sent >= self.read_all_at;
        if is_time {
            self.read_all_at = sent + self.every * READ_AGAIN;
        }
        if is_time || (desk.board != version && (desk.board.is_none() || !is_same_era)) {
            desk.board = version;
            desk.in_doubt = false;
            self.read_all();
        } else if desk.board != version {
            desk.read_news(sent);
            self.reading += 1;
        }
        if is_time {
            self.plan_rare();
        }
    }

    /// The board has changed: the jobs that changed are read, or all if that is not known.
    pub(super) fn follow_news(&mut self, reading: Reading) {
        let mut records = reading.records.into_iter().map(|record| record.ok().flatten());
        let (board, news) = (records.next().flatten(), records.next().flatten());
        let version = board.as_ref().map(|board| board.version);
        self.hear_board(board);
        let now = self.time.moment();
        let Some(desk) = &mut self.desk else { return };
        let news = news.map(|news| News::read(&news.value)).unwrap_or_default();
        let jobs = desk.board.zip(version).and_then(|(known, now)| news.since(known, now));
        if jobs.is_none() && !desk.in_doubt {
            desk.in_doubt = true;
            self.ring_at.get_or_insert(now + GATHER);
            return;
        }
        (desk.board, desk.in_doubt) = (version, false);
        match jobs {
            Some(names) => {
                let jobs: BTreeSet<JobId> = names.into_iter().filter_map(|name| self.named(name)).collect();
                self.read_again(&jobs.into_iter().collect::<Vec<_>>());
            }
            None => self.read_all(),
        }
    }

    /// The job of this name that this node shares with others.
    fn named(&self, name: &str) -> Option<JobId> {
        let found = self.by_name.binary_search_by(|job| (*self.entries[at(*job)].task.name).cmp(name));
        let job = *self.by_name.get(found.ok()?)?;
        self.entries[at(job)].is_shared.then_some(job)
    }

    pub(super) fn read_all(&mut self) {
        let shared = (0..).zip(&self.entries).filter(|(_, entry)| entry.is_shared);
        let jobs: Vec<JobId> = shared.map(|(job, _)| job).collect();
        self.read_again(&jobs);
    }

    pub(super) fn read_again(&mut self, jobs: &[JobId]) {
        let sent = self.time.moment();
        let Some(desk) = &self.desk else { return };
        let named = jobs.iter().filter_map(|job| {
            let entry = &self.entries[at(*job)];
            Some(((*job, entry.version), key(&entry.task.name).ok()?))
        });
        let named: Vec<(Asked, Key)> = named.collect();
        for some in named.chunks(BATCH) {
            let (jobs, keys) = some.iter().cloned().unzip();
            desk.read(sent, jobs, keys);
            self.reading += 1;
        }
    }

    /// Takes in the board and the records that were read at one moment.
    pub(super) fn take_in(&mut self, asked: Vec<Asked>, records: Vec<Result<Option<Record>>>) {
        let mut records = records.into_iter();
        let board = records.next().and_then(Result::ok).flatten();
        let era = self.hear_board(board);
        let mut again = Vec::new();
        for ((job, version), record) in asked.into_iter().zip(records) {
            let known = self.entries[at(job)].version;
            let read = record.as_ref().map(|record| record.as_ref().map(|record| record.version));
            if known != version && read.is_ok_and(|read| read < known) {
                // It was read before the answer came that told of a later one.
                again.push(job);
                continue;
            }
            match record {
                Ok(None) => self.is_gone(job, era.as_deref()),
                Ok(Some(record)) => {
                    self.learn(job, Ok(record));
                    self.is_there(job, era.as_deref());
                }
                Err(error) => _ = self.learn(job, Err(error)),
            }
        }
        self.read_again(&again);
    }

    /// Takes in a record as it is. False: it cannot be read.
    pub(super) fn learn(&mut self, job: JobId, record: Result<Record>) -> bool {
        let now = self.time.now();
        let entry = &mut self.entries[at(job)];
        if entry.flight.is_some() || record.as_ref().is_ok_and(|record| Some(record.version) == entry.version) {
            // The answer that is on its way is newer.
            return true;
        }
        let name = &entry.task.name;
        let read = record.and_then(|record| Ok((record.version, JobState::read(&record.value, &key(name)?)?)));
        let (version, state) = match read {
            Ok(read) => read,
            Err(error) => {
                if !std::mem::replace(&mut entry.is_told, true) {
                    tracing::error!(job = %name, %error, "the job's record cannot be read: it does not run here until it can");
                }
                return false;
            }
        };
        tell_of_rest(name, &state, now);
        if let Some(desk) = &self.desk {
            tell_of_dispute(entry, &state, desk.client().ttl());
        }
        entry.is_told = false;
        let known = entry.state.replace(Box::new(state));
        let known = entry.version.replace(version).zip(known);
        self.remember(job, version, known);
        self.ready.push_back((job, Turn::Usual));
        true
    }
}

/// Says, once for each change, that another replica has registered another job than this node's under the same name, at
/// the same revision or a greater one.
fn tell_of_dispute(entry: &Entry, read: &JobState, ttl: Duration) {
    let Task { name, trigger, policy, .. } = &entry.task;
    let known = entry.state.as_ref().and_then(|known| known.spec.as_ref());
    let Some(theirs) = read.spec.as_ref().filter(|spec| spec.revision >= policy.revision && Some(*spec) != known)
    else {
        return;
    };
    if theirs.revision > policy.revision {
        let (ours, theirs) = (policy.revision, theirs.revision);
        tracing::warn!(job = %name, ours, theirs, "the store knows a newer revision of the job: this node claims no tick of it");
        return;
    }
    let ours = Spec::new(trigger, policy, policy.lease.unwrap_or(ttl));
    if ours != **theirs {
        tracing::warn!(
            job = %name,
            changed = ours.change_to(theirs),
            "another replica has changed the job at the same revision: this node claims its ticks too, as it has it; a \
             greater `Job::revision` prevents that"
        );
    }
}

/// Says that the store's clock was set back.
pub(crate) fn tell_of_rest(job: &str, state: &JobState, now: Ms) {
    if let Some(until) = state.rests_until(now.saturating_add(AHEAD)) {
        let until = Time::from_millisecond(until);
        tracing::error!(job, %until, "a tick of the future was claimed, so the store's clock was set back: the job rests until then; `bandog jobs reset` lets it go on");
    }
}
