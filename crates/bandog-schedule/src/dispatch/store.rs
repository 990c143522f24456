//! The dispatcher's calls to the store: those in flight, this node's sessions, and the board.

use std::time::Duration;

use bandog_core::{ClientId, Error, Holding, Key, Moment, Reading, Records, Result, Swap, Swapped, Swaps, Version};
use bandog_sync::{Client, Guard, Notifications, OutageReporter};
use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time;

use super::JobId;
use crate::{
    news::{ChangedJobs, add_news_item, news_key},
    nodes::{NodeInfos, register_node},
    pauses::{StoredPauses, pauses_key},
};

/// Maximum number of records in one call.
pub(crate) const BATCH: usize = 256;
/// Prefix of the locks of nodes' sessions.
pub(crate) const SESSION_PREFIX: &str = "schedule/node/";
/// Maximum number of a session's lock; the first is 1.
const MAX_SESSIONS: u32 = 10_000;
/// Minimum interval between two log entries about a store that fell back to an earlier state.
const ROLLBACK_LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Delay before a failed attempt to claim a session is repeated.
const SESSION_RETRY: Duration = Duration::from_millis(500);

/// An answer of the store, or a notification.
pub(crate) enum StoreEvent {
    Swapped {
        jobs: Vec<JobId>,
        sent: Moment,
        result: Result<Swaps>,
    },
    Polled {
        sent: Moment,
        holdings: Vec<Holding>,
        result: Result<Reading>,
    },
    JobsRead {
        jobs: Vec<ReadJob>,
        sent: Moment,
        result: Result<Reading>,
    },
    SessionClaimed {
        lease: Duration,
        result: Result<Guard>,
    },
    /// The session expires soon, unless a renewal succeeds.
    SessionExpiring {
        lease: Duration,
        holding: Holding,
    },
    SessionLost {
        lease: Duration,
        holding: Holding,
    },
    NewsPublished(Result<()>),
    /// The board and the news record.
    NewsRead {
        sent: Moment,
        result: Result<Reading>,
    },
    /// The other nodes. This node has registered itself.
    NodeRegistered(Result<NodeInfos>),
    /// The era of the store.
    EraRead(Result<String>),
    /// A node or an operator has published news.
    Notified,
}

/// A job whose record is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadJob {
    pub(crate) job: JobId,
    /// The version that this node knew when it sent the call.
    pub(crate) known: Option<Version>,
}

/// A renewed lock that proves that this node lives. A node has one for each length of lease.
struct Session {
    lease: Duration,
    held: Option<(Guard, Holding)>,
}

pub(crate) struct StoreIo {
    client: Client,
    /// Keeps the engine from logging outages. The dispatcher calls the store more often, and its messages name the
    /// effect on jobs.
    _outages: OutageReporter,
    in_flight: FuturesUnordered<BoxFuture<'static, StoreEvent>>,
    sessions: Vec<Session>,
    pub(crate) board: Option<Version>,
    /// The last known era of the store.
    pub(crate) era: Option<String>,
    is_reading_era: bool,
    /// Time of the last read of all records after an outage.
    pub(crate) all_read_at: Option<Moment>,
    /// Time of the last log entry about a store that fell back.
    rollback_logged_at: Option<Moment>,
    /// Jobs that the other nodes have to read again.
    news: Option<ChangedJobs>,
    /// The part of the news that is being published.
    publishing: Option<ChangedJobs>,
    /// The last poll could not find which jobs have changed. The news item may not have been written yet.
    pub(crate) is_news_missing: bool,
    /// Notifications of news. None if the store has none; the polls are enough then.
    notifications: Option<Notifications>,
}

impl StoreIo {
    pub(crate) fn new(client: Client) -> Self {
        let notifications = news_key().and_then(|news| client.subscribe(&news)).ok();
        Self {
            _outages: client.outage_reporter(),
            client,
            in_flight: FuturesUnordered::new(),
            sessions: Vec::new(),
            board: None,
            era: None,
            is_reading_era: false,
            all_read_at: None,
            rollback_logged_at: None,
            news: None,
            publishing: None,
            is_news_missing: false,
            notifications,
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.news.is_none() && self.in_flight.is_empty()
    }

    /// Makes the other nodes read this job's record.
    pub(crate) fn add_news(&mut self, job: &str) {
        self.news.get_or_insert_with(ChangedJobs::none).add(job);
    }

    pub(crate) fn has_news(&self) -> bool {
        self.news.is_some()
    }

    /// Takes all news that the other nodes may not have.
    pub(crate) fn take_unpublished_news(&mut self) -> ChangedJobs {
        let mut untold = ChangedJobs::none();
        self.publishing.take().into_iter().chain(self.news.take()).for_each(|changed| untold.join(changed));
        untold
    }

    /// The session of this lease. If there is none, claims one.
    pub(crate) fn session(&mut self, lease: Duration) -> Option<Holding> {
        if let Some(session) = self.sessions.iter().find(|session| session.lease == lease) {
            return session.held.as_ref().filter(|(guard, _)| !guard.is_lost()).map(|(_, holding)| holding.clone());
        }
        self.sessions.push(Session { lease, held: None });
        self.claim_session(lease);
        None
    }

    /// Whether this is a session of this node that has not been lost.
    pub(crate) fn holds(&self, holding: &Holding) -> bool {
        let held = self.sessions.iter().filter_map(|session| session.held.as_ref());
        held.filter(|(guard, _)| !guard.is_lost()).any(|(_, held)| held == holding)
    }

    fn claim_session(&self, lease: Duration) {
        let client = self.client.clone();
        self.in_flight.push(Box::pin(async move {
            StoreEvent::SessionClaimed { lease, result: claim_lowest_free(&client, lease).await }
        }));
    }

    /// Keeps a session and watches for its expiry. After an error it claims again. Returns the session's holding.
    pub(crate) fn keep_session(&mut self, lease: Duration, result: Result<Guard>, margin: Duration) -> Result<Holding> {
        let guard = match result {
            Ok(guard) => guard,
            Err(error) => {
                let client = self.client.clone();
                self.in_flight.push(Box::pin(async move {
                    time::sleep(SESSION_RETRY).await;
                    StoreEvent::SessionClaimed { lease, result: claim_lowest_free(&client, lease).await }
                }));
                return Err(error);
            }
        };
        let holding = guard.holding();
        let (endangered, lost) = (guard.expiring(margin), guard.lost());
        let (soon, then) = (holding.clone(), holding.clone());
        self.in_flight.push(Box::pin(async move {
            endangered.await;
            StoreEvent::SessionExpiring { lease, holding: soon }
        }));
        self.in_flight.push(Box::pin(async move {
            lost.await;
            StoreEvent::SessionLost { lease, holding: then }
        }));
        if let Some(session) = self.sessions.iter_mut().find(|session| session.lease == lease) {
            session.held = Some((guard, holding.clone()));
        }
        Ok(holding)
    }

    /// Watches a session again that was close to expiry and has been renewed.
    pub(crate) fn watch_session_again(&self, lease: Duration, holding: &Holding, margin: Duration) {
        let held =
            self.sessions.iter().find(|session| session.lease == lease).and_then(|session| session.held.as_ref());
        let Some((guard, _)) = held.filter(|(_, held)| held == holding) else { return };
        let (endangered, soon) = (guard.expiring(margin), holding.clone());
        self.in_flight.push(Box::pin(async move {
            time::sleep(margin).await;
            endangered.await;
            StoreEvent::SessionExpiring { lease, holding: soon }
        }));
    }

    /// Drops a session that has expired, and claims the next one.
    pub(crate) fn replace_session(&mut self, lease: Duration, holding: &Holding) {
        let Some(session) = self.sessions.iter_mut().find(|session| session.lease == lease) else { return };
        if session.held.as_ref().is_some_and(|(_, held)| held == holding) {
            session.held = None;
            self.claim_session(lease);
        }
    }

    /// Releases every session, so that the other nodes see at once that this node has stopped.
    pub(crate) async fn release_sessions(&mut self) -> Result<()> {
        self.in_flight.clear();
        let mut result = Ok(());
        for session in self.sessions.drain(..) {
            let Some((guard, _)) = session.held else { continue };
            let released = guard.release().await;
            result = result.and(released);
        }
        result
    }

    pub(crate) fn swap(&self, sent: Moment, jobs: Vec<JobId>, swaps: Vec<Swap>) {
        let client = self.client.clone();
        self.in_flight.push(Box::pin(async move {
            let result = client.swap(&swaps).await;
            StoreEvent::Swapped { jobs, sent, result }
        }));
    }

    /// Reads the board and these jobs as of one moment.
    pub(crate) fn read(&self, sent: Moment, jobs: Vec<ReadJob>, keys: Vec<Key>) {
        let client = self.client.clone();
        self.in_flight.push(Box::pin(async move {
            let result = match board_key() {
                Ok(board) => client.read(&[&[board], &keys[..]].concat(), &[]).await,
                Err(error) => Err(error),
            };
            StoreEvent::JobsRead { jobs, sent, result }
        }));
    }

    /// Reads the store's era, or writes a new one. A board without a text keeps the known era.
    pub(crate) fn read_era(&mut self) {
        if !std::mem::replace(&mut self.is_reading_era, true) {
            let (client, known) = (self.client.clone(), self.era.clone());
            self.in_flight.push(Box::pin(async move { StoreEvent::EraRead(read_or_create_era(&client, known).await) }));
        }
    }

    /// Allows the next read of the era.
    pub(crate) fn era_was_read(&mut self) {
        self.is_reading_era = false;
    }

    /// Logs that the store fell back to an earlier state, once for many jobs.
    pub(crate) fn log_rollback(&mut self, now: Moment, job: &str) {
        if self.rollback_logged_at.replace(now).is_none_or(|last| now.since(last) > ROLLBACK_LOG_INTERVAL) {
            tracing::error!(
                job,
                "the store fell back to an earlier state, as after a failover or from a backup: this node writes the \
                 records of this job and others again as it remembers them; a tick that only a restarted node claimed \
                 may run twice"
            );
        }
    }

    /// The sessions that this node has not lost as far as it knows, each with its lease.
    pub(crate) fn own_sessions(&self) -> impl Iterator<Item = (Duration, &Holding)> {
        self.sessions.iter().filter_map(|session| Some((session.lease, &session.held.as_ref()?.1)))
    }

    /// Reads the board, the pauses, and whether the sessions of other nodes are held.
    pub(crate) fn poll(&self, sent: Moment, holdings: Vec<Holding>) {
        let client = self.client.clone();
        self.in_flight.push(Box::pin(async move {
            let result = match board_key().and_then(|board| Ok([board, pauses_key()?])) {
                Ok(keys) => client.read(&keys, &holdings).await,
                Err(error) => Err(error),
            };
            StoreEvent::Polled { sent, holdings, result }
        }));
    }

    /// Reads the board and the news as of one moment.
    pub(crate) fn read_news(&self, sent: Moment) {
        let client = self.client.clone();
        self.in_flight.push(Box::pin(async move {
            let result = match board_key().and_then(|board| Ok([board, news_key()?])) {
                Ok(keys) => client.read(&keys, &[]).await,
                Err(error) => Err(error),
            };
            StoreEvent::NewsRead { sent, result }
        }));
    }

    /// Registers this node for [`crate::Jobs::nodes`].
    pub(crate) fn register_node(&self, node: &str, session: Holding) {
        let others = register_node(self.client.clone(), node.to_owned(), session);
        self.in_flight.push(Box::pin(async move { StoreEvent::NodeRegistered(others.await) }));
    }

    /// Writes the record of pauses again after the store has lost it.
    pub(crate) fn write_pauses(&self, from: Option<Version>, stored: &StoredPauses) {
        let (client, value) = (self.client.clone(), stored.write());
        self.in_flight.push(Box::pin(async move {
            let swap = async { client.swap(&[Swap::new(pauses_key()?, from, value?)]).await };
            StoreEvent::NewsPublished(swap.await.map(|_| ()))
        }));
    }

    /// Publishes the news, if there is any. News that come while a publication is in flight follow after it.
    pub(crate) fn publish_news(&mut self) {
        if self.publishing.is_some() {
            return;
        }
        let Some(changed) = self.news.take() else { return };
        self.publishing = Some(changed.clone());
        let (client, known) = (self.client.clone(), self.board.zip(self.era.clone()));
        self.in_flight
            .push(Box::pin(async move { StoreEvent::NewsPublished(publish_change(&client, known, &changed).await) }));
    }

    /// Ends the publication, whether it succeeded or not.
    pub(crate) fn news_published(&mut self) {
        self.publishing = None;
    }

    /// The next answer of the store or notification.
    pub(crate) async fn next_event(&mut self) -> StoreEvent {
        let Self { in_flight, notifications, .. } = self;
        tokio::select! {
            Some(done) = in_flight.next() => done,
            Some(Ok(())) = async { Some(notifications.as_mut()?.next().await) } => StoreEvent::Notified,
            else => std::future::pending().await,
        }
    }
}

/// The key of the board: a record whose version changes whenever the nodes have to read something.
pub(crate) fn board_key() -> Result<Key> {
    Key::new("schedule/board")
}

/// The key of a job's record.
pub(crate) fn job_key(name: &str) -> Result<Key> {
    Key::new(format!("{JOB_PREFIX}{name}"))
}

/// Prefix of the keys of jobs.
pub(crate) const JOB_PREFIX: &str = "job/";

/// Gives the board a new version, and adds a news item with the changed jobs, which notifies every node. The text of
/// the board stays. `known` is the board as the caller knows it, which saves a round trip.
pub(crate) async fn publish_change(
    client: &Client,
    known: Option<(Version, String)>,
    changed: &ChangedJobs,
) -> Result<()> {
    let board = board_key()?;
    let (mut from, mut era) = match known {
        Some((version, era)) => (Some(version), era),
        None => (None, new_era()),
    };
    loop {
        let swap = Swap { notifies: true, ..Swap::new(board.clone(), from, era.clone()) };
        let swaps = client.swap(&[swap]).await?;
        match single_answer(swaps.each)? {
            Swapped::Differs(Some(record)) => (from, era) = (Some(record.version), record.value),
            // The store has lost the board.
            Swapped::Differs(None) => (from, era) = (None, new_era()),
            Swapped::Done(Some(to)) => return add_news_item(client, from, to, changed).await,
            Swapped::Done(None) | Swapped::Early(_) | Swapped::NotHeld => return Ok(()),
        }
    }
}

/// Reads the text of the board, which names the era of the store's data. A store that lost its data has a new era.
pub(crate) async fn read_or_create_era(client: &Client, known: Option<String>) -> Result<String> {
    let board = board_key()?;
    let (mut from, mut era) = (None, new_era());
    loop {
        let swaps = client.swap(&[Swap::new(board.clone(), from, era.clone())]).await?;
        match single_answer(swaps.each)? {
            Swapped::Differs(Some(record)) if !record.value.is_empty() => return Ok(record.value),
            // Older versions write an empty text.
            Swapped::Differs(Some(record)) => {
                from = Some(record.version);
                era = known.clone().unwrap_or(era);
            }
            Swapped::Differs(None) => from = None,
            Swapped::Done(_) | Swapped::Early(_) | Swapped::NotHeld => return Ok(era),
        }
    }
}

/// Each era is unique.
fn new_era() -> String {
    ClientId::random().to_string()
}

/// The answer to a call with one item.
pub(crate) fn single_answer<T>(answers: Vec<Result<T>>) -> Result<T> {
    let too_few = || Err(Error::unavailable("the store gave no answer").ambiguous());
    answers.into_iter().next().unwrap_or_else(too_few)
}

/// Claims the session lock with the lowest free number. So the numbers never exceed the largest number of nodes at a
/// time.
async fn claim_lowest_free(client: &Client, lease: Duration) -> Result<Guard> {
    for number in 1..=MAX_SESSIONS {
        let lock = client.mutex(format!("{SESSION_PREFIX}{number}")).watchdog(lease).quiet();
        if let Some(guard) = lock.try_lock().await? {
            return Ok(guard);
        }
    }
    Err(Error::unavailable(format!("all {MAX_SESSIONS} sessions of nodes are held")))
}
