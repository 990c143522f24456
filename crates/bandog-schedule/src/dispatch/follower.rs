//! Keeps this node's copies of the jobs' records equal to the store: polls, reads the changed records, sends the swaps,
//! and handles the answers.
//!
//! The board is a record that gets a new version with each published change of jobs or pauses. Its text is the era: a
//! random name of the store's data. If the store loses its data, the next board has another era. The news is a record
//! that names the jobs that have changed.

use std::{
    collections::{BTreeSet, HashSet},
    time::{Duration, SystemTime},
};

use bandog_core::{Error, Holding, Key, Moment, Reading, Record, Result, Swaps};
use bandog_sync::{Client, Guard};

use super::{
    entry::JobId,
    known_board::{Changed, KnownBoard, ToRead},
    outage::{OutageEnd, OutageLog},
    planner::{Planner, Taken},
    polls::Polls,
    store::StoreIo,
    store_event::{ReadJob, SessionEvent, StoreEvent},
};
use crate::{
    news::{ChangedJobs, News},
    nodes::warn_about_other_zones,
    presence::JobNames,
    records::BATCH,
    recovery::{EraWatch, PausesRead, compare_pauses},
};

pub(super) struct Follower {
    /// None for a scheduler without a store.
    store: Option<StoreIo>,
    /// The last known version of the board.
    board: KnownBoard,
    /// The last known era.
    era: EraWatch,
    /// The times of the next polls.
    polls: Polls,
    outages: OutageLog,
}

impl Follower {
    pub(super) fn new(client: Option<Client>, poll_interval: Duration, now: Moment) -> Self {
        Self {
            store: client.map(StoreIo::new),
            board: KnownBoard::default(),
            era: EraWatch::default(),
            polls: Polls::new(poll_interval, now),
            outages: OutageLog::default(),
        }
    }

    /// Plans the jobs that are ready.
    pub(super) fn plan_ready(&mut self, planner: &mut Planner) {
        planner.plan_ready(&mut self.store, self.outages.is_down());
    }

    pub(super) fn has_store(&self) -> bool {
        self.store.is_some()
    }

    pub(super) fn is_store_down(&self) -> bool {
        self.outages.is_down()
    }

    /// Whether there is news that is not published yet.
    pub(super) fn has_news(&self) -> bool {
        self.store.as_ref().is_some_and(StoreIo::has_news)
    }

    /// Makes the next regular poll due.
    pub(super) fn poll_now(&mut self, now: Moment) {
        self.polls.poll_now(now);
    }

    pub(super) fn until_next_poll(&self, now: Moment) -> Duration {
        self.polls.until_next(now)
    }

    /// Time until the next poll that a notification has requested.
    pub(super) fn until_notified_poll(&self, now: Moment) -> Option<Duration> {
        self.polls.until_requested(now)
    }

    /// Polls the store, if a poll is due. Once per poll interval, also logs the jobs that have waited long for a slot.
    pub(super) fn poll(&mut self, planner: &mut Planner) {
        let now = planner.local().moment();
        let is_new_interval = self.polls.begins_interval(now);
        if is_new_interval {
            planner.local_mut().log_long_waits();
        }
        let Some(store) = &self.store else { return };
        if self.polls.begins_poll(is_new_interval, now) {
            let sessions = store.sessions();
            let holdings: HashSet<Holding> = planner
                .local()
                .jobs()
                .sessions_of_runs()
                .filter(|held| !sessions.holds(held))
                // This node's own sessions are checked too, because a store that loses its data also loses the
                // sessions.
                .chain(sessions.all().map(|(_, held)| held.clone()))
                .collect();
            store.poll(now, holdings.into_iter().collect());
        }
    }

    /// Sends the round's swaps together, and publishes the news.
    pub(super) fn send(&mut self, planner: &mut Planner) {
        let sent = planner.local().moment();
        let Some(store) = &mut self.store else { return };
        loop {
            let (jobs, swaps) = planner.take_swaps(BATCH);
            if jobs.is_empty() {
                break;
            }
            store.swap(sent, jobs, swaps);
        }
        store.publish_news(|| self.board.version().zip(self.era.known().cloned()));
    }

    /// The next event from the store. Without a store, the future never resolves.
    ///
    /// # Cancel safety
    /// If the future is dropped, no event is lost.
    pub(super) async fn next_event(&mut self) -> StoreEvent {
        match &mut self.store {
            Some(store) => store.next_event().await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn handle(&mut self, event: StoreEvent, planner: &mut Planner) {
        match event {
            StoreEvent::Swapped { jobs, sent, result } => self.swapped(jobs, sent, result, planner),
            StoreEvent::JobsRead { jobs, sent, result } => {
                self.polls.read_ended();
                if let Some(reading) = self.reading(sent, result, planner) {
                    self.jobs_read(jobs, reading.records, planner);
                }
            }
            StoreEvent::Polled { sent, holdings, result } => {
                self.polls.poll_ended();
                if let Some(reading) = self.reading(sent, result, planner) {
                    self.polled(&holdings, reading, planner);
                }
            }
            StoreEvent::NewsRead { sent, result } => {
                self.polls.read_ended();
                if let Some(reading) = self.reading(sent, result, planner) {
                    self.news_read(reading, planner);
                }
            }
            StoreEvent::Session(event) => self.session_event(event, planner),
            StoreEvent::EraRead(result) => {
                self.era.read_ended();
                match result {
                    // The next call reads all jobs together with the board, which contains the era.
                    Ok(_) => self.read_all(planner),
                    Err(error) => self.unanswered(&error, planner),
                }
            }
            StoreEvent::NewsPublished(result) => {
                self.store.iter_mut().for_each(StoreIo::news_published);
                if let Err(error) = result {
                    // The other nodes find the changes within 30 s, when they read all jobs again.
                    self.unanswered(&error, planner);
                }
            }
            StoreEvent::PausesWritten(Ok(())) => {}
            StoreEvent::PausesWritten(Err(error)) => self.unanswered(&error, planner),
            StoreEvent::Notified => self.polls.notified(planner.local().moment()),
            StoreEvent::NodeRegistered(Ok(others)) => warn_about_other_zones(planner.node(), &others),
            // The registration is only for operators. This node registers itself again when it claims its next session.
            StoreEvent::NodeRegistered(Err(error)) => {
                tracing::debug!(%error, "this node was not registered for operators")
            }
        }
    }

    /// Releases the sessions, and makes the other nodes read the jobs in `to_read`.
    pub(super) async fn end(&mut self, to_read: ChangedJobs) -> Result<()> {
        match &mut self.store {
            Some(store) => store.end(to_read).await,
            None => Ok(()),
        }
    }

    fn session_event(&mut self, event: SessionEvent, planner: &mut Planner) {
        match event {
            SessionEvent::Claimed { lease, result } => self.session_claimed(lease, result, planner),
            SessionEvent::Expiring { lease, holding } => {
                let Some(store) = &mut self.store else { return };
                if store.session(lease).as_ref() == Some(&holding) {
                    planner.local().session_expires(lease);
                    store.sessions().watch_again(lease, &holding);
                }
            }
            SessionEvent::Lost { lease, holding } => self.session_lost(lease, &holding, planner),
        }
    }

    fn session_claimed(&mut self, lease: Duration, result: Result<Guard>, planner: &mut Planner) {
        let Some(store) = &mut self.store else { return };
        let jobs = JobNames::new(planner.local().jobs().shared().map(|(_, entry)| &*entry.definition.name));
        match store.keep_session(planner.node(), jobs, lease, result) {
            Ok(()) => planner.local_mut().session_claimed(lease),
            Err(error) => self.unanswered(&error, planner),
        }
    }

    fn session_lost(&mut self, lease: Duration, holding: &Holding, planner: &Planner) {
        let Some(store) = &mut self.store else { return };
        if store.sessions().all().any(|own| own == (lease, holding)) {
            planner.local().session_lost(lease);
            store.replace_session(lease, holding);
        }
    }

    fn swapped(&mut self, jobs: Vec<JobId>, sent: Moment, result: Result<Swaps>, planner: &mut Planner) {
        let each = match result {
            Ok(swaps) => {
                self.answered(sent, swaps.now, planner);
                swaps.each
            }
            Err(error) => {
                self.unanswered(&error, planner);
                jobs.iter().map(|_| Err(error.clone())).collect()
            }
        };
        for (job, answer) in jobs.into_iter().zip(each) {
            match planner.take_answer(job, answer, self.polls.retry_delay(), &mut self.store) {
                Taken::Settled => {}
                Taken::MustRead => self.read_jobs(&[job], planner),
                Taken::FellBack => self.log_rollback(job, planner),
            }
        }
        planner.local_mut().serve_slot_queue();
    }

    /// The contents of an answer. None after an error.
    fn reading(&mut self, sent: Moment, result: Result<Reading>, planner: &mut Planner) -> Option<Reading> {
        match result {
            Ok(reading) => {
                self.answered(sent, reading.now, planner);
                Some(reading)
            }
            Err(error) => {
                self.unanswered(&error, planner);
                None
            }
        }
    }

    /// Records that the store answered. `store`: the store's time in the answer.
    fn answered(&mut self, sent: Moment, store: SystemTime, planner: &mut Planner) {
        planner.local_mut().observe_time(sent, store);
        self.polls.answered();
        let Some(OutageEnd { was_logged }) = self.outages.answered() else { return };
        if was_logged {
            // This log entry has the same level as the entry about the start of the outage.
            tracing::warn!("the store answers again: ticks are claimed again");
        }
        // After an outage, another store might answer, or the store might have lost its latest data. So all records are
        // read again, either now or after the next poll.
        if self.era.may_read_all(planner.local().moment()) {
            self.read_all(planner);
        } else {
            self.board.forget();
        }
    }

    /// Records that the store did not answer, or that a call failed.
    fn unanswered(&mut self, error: &Error, planner: &Planner) {
        self.polls.unanswered();
        if error.is_retryable() && self.outages.unanswered(planner.local().moment()) {
            tracing::warn!(%error, "the store does not answer: no shared job starts until it does; runs and locks expire with their leases");
        }
    }

    /// Handles the answer to a poll. `holdings`: the sessions that the poll has checked.
    fn polled(&mut self, holdings: &[Holding], reading: Reading, planner: &mut Planner) {
        // For each checked session: whether it is held.
        let stands = holdings.iter().zip(reading.held);
        let dead: Vec<&Holding> =
            stands.filter(|(_, held)| matches!(held, Ok(false))).map(|(holding, _)| holding).collect();
        if !dead.is_empty() {
            planner.local_mut().nodes_died(&dead);
        }
        let own = self.store.iter().flat_map(|store| store.sessions().all());
        let lost: Vec<(Duration, Holding)> =
            own.filter(|(_, held)| dead.contains(held)).map(|(lease, held)| (lease, held.clone())).collect();
        lost.iter().for_each(|(lease, held)| self.session_lost(*lease, held, planner));
        let mut records = reading.records.into_iter();
        let board = records.next().and_then(Result::ok).flatten();
        let version = board.as_ref().map(|board| board.version);
        let (_, is_era_changed) = self.take_era(board, planner);
        if let Some(Ok(pauses)) = records.next() {
            self.pauses_read(pauses.as_ref(), planner);
        }
        let now = planner.local().moment();
        let reads_all = self.polls.reads_all(now);
        let to_read = if reads_all {
            self.board.polled_for_all_jobs(version)
        } else {
            self.board.polled(version, is_era_changed)
        };
        match to_read {
            ToRead::AllJobs => self.read_all(planner),
            ToRead::News => {
                self.store.iter().for_each(|store| store.read_news(now));
                self.polls.read_began();
            }
            ToRead::Nothing => {}
        }
        if reads_all {
            planner.plan_jobs_that_need_a_write();
        }
    }

    /// Handles the news, which was read because the board has changed. Reads the jobs that the news names, or all jobs
    /// if the news does not name all changes.
    fn news_read(&mut self, reading: Reading, planner: &mut Planner) {
        let mut records = reading.records.into_iter().map(|record| record.ok().flatten());
        let (board, news) = (records.next().flatten(), records.next().flatten());
        let version = board.as_ref().map(|board| board.version);
        self.take_era(board, planner);
        let news = news.map(|news| News::read(&news.value)).unwrap_or_default();
        match self.board.news_read(version, &news) {
            Changed::Jobs(names) => {
                let jobs: BTreeSet<JobId> =
                    names.into_iter().filter_map(|name| planner.local().jobs().shared_named(name)).collect();
                self.read_jobs(&jobs.into_iter().collect::<Vec<_>>(), planner);
            }
            Changed::PollAgain => self.polls.poll_again(planner.local().moment()),
            Changed::AllJobs => self.read_all(planner),
        }
    }

    fn read_all(&mut self, planner: &Planner) {
        self.read_jobs(&planner.local().jobs().shared_ids(), planner);
    }

    fn read_jobs(&mut self, jobs: &[JobId], planner: &Planner) {
        let sent = planner.local().moment();
        let Some(store) = &self.store else { return };
        let reads: Vec<(ReadJob, Key)> = jobs.iter().filter_map(|job| planner.local().jobs().read_job(*job)).collect();
        for some in reads.chunks(BATCH) {
            let (jobs, keys) = some.iter().cloned().unzip();
            store.read_jobs(sent, jobs, keys);
            self.polls.read_began();
        }
    }

    /// Handles the board and the jobs' records, which one call has read together. `asked`: the jobs of the call.
    fn jobs_read(&mut self, asked: Vec<ReadJob>, records: Vec<Result<Option<Record>>>, planner: &mut Planner) {
        let mut records = records.into_iter();
        let board = records.next().and_then(Result::ok).flatten();
        let (era, _) = self.take_era(board, planner);
        let mut outdated = Vec::new();
        for (read, record) in asked.into_iter().zip(records) {
            if planner.local().jobs().is_outdated(read, &record) {
                outdated.push(read.job);
                continue;
            }
            if planner.take_record(read.job, record, era.as_deref(), &mut self.store) == Taken::FellBack {
                self.log_rollback(read.job, planner);
            }
        }
        self.read_jobs(&outdated, planner);
    }

    /// Takes the era of the store's data from a board that was read. Returns the era, and whether it differs from the
    /// era that the node knew. If the board is missing or has no era, begins a call that reads or creates the era.
    fn take_era(&mut self, board: Option<Record>, planner: &Planner) -> (Option<String>, bool) {
        let seen = self.era.observe(board.map(|board| board.value));
        if seen.era.is_none() {
            if let Some(store) = &self.store
                && self.era.begin_read()
            {
                store.read_era(self.era.known().cloned());
            }
        } else if seen.is_changed {
            tracing::error!(
                jobs = planner.local().jobs().shared().count(),
                "the store has lost its data, or is another store: this node restores its jobs' records from \
                 its own copies; ticks that may have run before the loss are recorded as missed"
            );
        }
        (seen.era, seen.is_changed)
    }

    /// Handles the record of pauses. If the record cannot be parsed, the known pauses stay in effect.
    fn pauses_read(&self, record: Option<&Record>, planner: &mut Planner) {
        let known = planner.pauses().known();
        match compare_pauses(known, record) {
            PausesRead::Unchanged => {}
            PausesRead::Changed(pauses) => planner.set_pauses(pauses),
            PausesRead::Lost(version) => {
                self.store.iter().for_each(|store| store.write_pauses(version, &known.stored));
            }
            PausesRead::Unreadable(version, error) => {
                tracing::error!(%error, "the record of pauses cannot be read: this node does not see new pauses of all jobs and of nodes");
                planner.skip_pauses(version);
            }
        }
    }

    /// Logs that the store fell back to an earlier state. Usually many jobs are affected at the same time. In that
    /// case, only one of these jobs is logged.
    fn log_rollback(&mut self, job: JobId, planner: &Planner) {
        if self.era.may_log_rollback(planner.local().moment()) {
            let job = &**planner.local().jobs().name(job);
            tracing::error!(
                job,
                "the store fell back to an earlier state, for example after a failover or a restore from a backup: \
                 this node restores the records of this job and of others from its own copies; a tick may run twice \
                 if its claim was lost and the node that claimed it was restarted"
            );
        }
    }
}
