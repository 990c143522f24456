//! Polls: commands of operators, sessions that have expired, and changed records. Once a second, and after each
//! notification.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use bandog_core::{Holding, Key, Moment, Reading, Record, Result};
use bandog_cron::Time;

use super::{
    Dispatcher, JobEntry, JobId, SlotPriority, at,
    store::{BATCH, ReadJob, job_key},
};
use crate::{
    job::JobDefinition,
    news::News,
    plan::Event,
    state::{JobSpec, JobState, LiveRun},
    trigger::{DurationMs, UnixMs},
};

/// Interval between two reads of all jobs, in regular polls. It covers a notification that was lost.
pub(super) const READ_ALL_EVERY: u32 = 30;
/// Minimum interval between two polls that notifications asked for.
const MIN_POLL_DISTANCE: Duration = Duration::from_millis(50);
/// Minimum distance of a future watermark that is logged. Small steps of the store's clock stay below it.
const MAX_AHEAD_MS: DurationMs = 60_000;

impl Dispatcher {
    /// A notification of news has arrived. The first of several causes a poll at once, and the others cause one poll
    /// after it.
    pub(super) fn notified(&mut self) {
        let now = self.time.moment();
        self.notified_poll.get_or_insert(self.last_notified_poll.map_or(now, |last| now.max(last + MIN_POLL_DISTANCE)));
    }

    /// Time of the poll that a notification asked for; none while the last poll is still being read.
    pub(super) fn notified_poll_due(&self) -> Option<Moment> {
        self.notified_poll.filter(|_| !self.is_polling && self.reads_in_flight == 0)
    }

    /// Polls the store, if it is time. Once per interval it also logs jobs that wait long for a slot.
    pub(super) fn poll(&mut self) {
        let now = self.time.moment();
        let is_time = now >= self.next_poll;
        if is_time {
            self.next_poll = now + self.poll_interval;
            self.log_long_waits(now);
        }
        if !is_time && self.notified_poll_due().is_none_or(|due| now < due) {
            return;
        }
        let Some(store) = &mut self.store else { return };
        if !self.is_polling {
            self.is_polling = true;
            if self.notified_poll.take().is_some() {
                self.last_notified_poll = Some(now);
            }
            let others = self.entries.iter().filter_map(|entry| entry.state.as_ref());
            let sessions: HashSet<Holding> = others
                .flat_map(|state| &state.running)
                .filter_map(LiveRun::holding)
                .filter(|held| !store.holds(held))
                // This node's own sessions: a store that has lost its data has lost them, too.
                .chain(store.own_sessions().map(|(_, held)| held.clone()))
                .collect();
            store.poll(now, sessions.into_iter().collect());
        }
    }

    pub(super) fn polled(&mut self, holdings: &[Holding], reading: Reading) {
        let stands = holdings.iter().zip(reading.held);
        let dead: Vec<&Holding> =
            stands.filter(|(_, held)| matches!(held, Ok(false))).map(|(holding, _)| holding).collect();
        if !dead.is_empty() {
            for (job, entry) in (0..).zip(&mut self.entries) {
                let Some(state) = &entry.state else { continue };
                for holding in &dead {
                    let event = Event::NodeDied((*holding).clone());
                    let had = state.running.iter().any(|live| live.holding().as_ref() == Some(holding));
                    if had && !entry.events.contains(&event) {
                        entry.events.push(event);
                        self.ready.push_back((job, SlotPriority::Normal));
                    }
                }
            }
        }
        let own = self.store.iter().flat_map(|store| store.own_sessions());
        let lost: Vec<(Duration, Holding)> =
            own.filter(|(_, held)| dead.contains(held)).map(|(lease, held)| (lease, held.clone())).collect();
        lost.iter().for_each(|(lease, held)| self.lose_session(*lease, held));
        let mut records = reading.records.into_iter();
        let board = records.next().and_then(Result::ok).flatten();
        let version = board.as_ref().map(|board| board.version);
        let known_era = self.store.as_ref().and_then(|store| store.era.clone());
        let era = self.take_era(board);
        let is_same_era = known_era.is_none() || era == known_era;
        self.pauses_read(records.next());
        let sent = self.time.moment();
        let Some(store) = &mut self.store else { return };
        let is_time = sent >= self.read_all_at;
        if is_time {
            self.read_all_at = sent + self.poll_interval * READ_ALL_EVERY;
        }
        if is_time || (store.board != version && (store.board.is_none() || !is_same_era)) {
            store.board = version;
            store.is_news_missing = false;
            self.read_all();
        } else if store.board != version {
            store.read_news(sent);
            self.reads_in_flight += 1;
        }
        if is_time {
            self.plan_jobs_that_need_a_write();
        }
    }

    /// The board has changed: reads the jobs that the news names, or all jobs if the news has a gap.
    pub(super) fn news_read(&mut self, reading: Reading) {
        let mut records = reading.records.into_iter().map(|record| record.ok().flatten());
        let (board, news) = (records.next().flatten(), records.next().flatten());
        let version = board.as_ref().map(|board| board.version);
        self.take_era(board);
        let now = self.time.moment();
        let Some(store) = &mut self.store else { return };
        let news = news.map(|news| News::read(&news.value)).unwrap_or_default();
        let jobs = store.board.zip(version).and_then(|(known, now)| news.since(known, now));
        if jobs.is_none() && !store.is_news_missing {
            store.is_news_missing = true;
            self.notified_poll.get_or_insert(now + MIN_POLL_DISTANCE);
            return;
        }
        (store.board, store.is_news_missing) = (version, false);
        match jobs {
            Some(names) => {
                let jobs: BTreeSet<JobId> = names.into_iter().filter_map(|name| self.named(name)).collect();
                self.read_jobs(&jobs.into_iter().collect::<Vec<_>>());
            }
            None => self.read_all(),
        }
    }

    /// The shared job of this name.
    fn named(&self, name: &str) -> Option<JobId> {
        let found = self.by_name.binary_search_by(|job| (*self.entries[at(*job)].definition.name).cmp(name));
        let job = *self.by_name.get(found.ok()?)?;
        self.entries[at(job)].is_shared.then_some(job)
    }

    pub(super) fn read_all(&mut self) {
        let shared = (0..).zip(&self.entries).filter(|(_, entry)| entry.is_shared);
        let jobs: Vec<JobId> = shared.map(|(job, _)| job).collect();
        self.read_jobs(&jobs);
    }

    pub(super) fn read_jobs(&mut self, jobs: &[JobId]) {
        let sent = self.time.moment();
        let Some(store) = &self.store else { return };
        let named = jobs.iter().filter_map(|job| {
            let entry = &self.entries[at(*job)];
            let read = ReadJob { job: *job, known: entry.version };
            Some((read, job_key(&entry.definition.name).ok()?))
        });
        let named: Vec<(ReadJob, Key)> = named.collect();
        for some in named.chunks(BATCH) {
            let (jobs, keys) = some.iter().cloned().unzip();
            store.read(sent, jobs, keys);
            self.reads_in_flight += 1;
        }
    }

    /// Takes the board and the records that were read as of one moment.
    pub(super) fn jobs_read(&mut self, asked: Vec<ReadJob>, records: Vec<Result<Option<Record>>>) {
        let mut records = records.into_iter();
        let board = records.next().and_then(Result::ok).flatten();
        let era = self.take_era(board);
        let mut outdated = Vec::new();
        for (ReadJob { job, known: version }, record) in asked.into_iter().zip(records) {
            let known = self.entries[at(job)].version;
            let read = record.as_ref().map(|record| record.as_ref().map(|record| record.version));
            if known != version && read.is_ok_and(|read| read < known) {
                // The record was read before the answer to a swap arrived that has a later version.
                outdated.push(job);
                continue;
            }
            match record {
                Ok(None) => self.record_missing(job, era.as_deref()),
                Ok(Some(record)) => {
                    self.take_record(job, Ok(record));
                    self.record_found(job, era.as_deref());
                }
                Err(error) => _ = self.take_record(job, Err(error)),
            }
        }
        self.read_jobs(&outdated);
    }

    /// Takes a record. False: this version of bandog cannot read it.
    pub(super) fn take_record(&mut self, job: JobId, record: Result<Record>) -> bool {
        let now = self.time.now();
        let entry = &mut self.entries[at(job)];
        if entry.pending.is_some() || record.as_ref().is_ok_and(|record| Some(record.version) == entry.version) {
            // The answer in flight will bring a newer state.
            return true;
        }
        let name = &entry.definition.name;
        let read = record.and_then(|record| Ok((record.version, JobState::read(&record.value, &job_key(name)?)?)));
        let (version, state) = match read {
            Ok(read) => read,
            Err(error) => {
                if !std::mem::replace(&mut entry.is_fault_logged, true) {
                    tracing::error!(job = %name, %error, "the job's record cannot be read: this node does not run the job until it can");
                }
                return false;
            }
        };
        warn_about_future_watermark(name, &state, now);
        if let Some(store) = &self.store {
            warn_about_dispute(entry, &state, store.client().ttl());
        }
        entry.is_fault_logged = false;
        let known = entry.state.replace(Box::new(state));
        let known = entry.version.replace(version).zip(known);
        self.compare_with_known(job, version, known);
        self.ready.push_back((job, SlotPriority::Normal));
        true
    }
}

/// Logs, once for each change, that another replica has registered a different job under the same name, with the same
/// or a greater revision.
fn warn_about_dispute(entry: &JobEntry, read: &JobState, ttl: Duration) {
    let JobDefinition { name, trigger, policy, .. } = &entry.definition;
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
    let ours = JobSpec::new(trigger, policy, policy.lease.unwrap_or(ttl));
    if ours != **theirs {
        tracing::warn!(
            job = %name,
            changed = ours.change_to(theirs),
            "another replica has changed the job at the same revision: this node also claims its ticks, with its own \
             settings; a \
             greater `Job::revision` prevents that"
        );
    }
}

/// Logs that the watermark lies in the future because the store's clock was set back.
pub(crate) fn warn_about_future_watermark(job: &str, state: &JobState, now: UnixMs) {
    if let Some(until) = state.rests_until(now.saturating_add(MAX_AHEAD_MS)) {
        let until = Time::from_millisecond(until);
        tracing::error!(job, %until, "a future tick was claimed, so the store's clock was set back: the job rests until then; `bandog jobs reset` lets it go on");
    }
}
