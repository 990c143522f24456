//! The dispatcher's calls to the store. Each call is a future that resolves to a [`StoreEvent`].
//!
//! The board is a record that gets a new version with each published change of jobs or pauses. The text of the board is
//! the era: a random id of the store's present data. If the store loses its data, a node creates a new board with a new
//! era, so a new era shows that the old data was lost. The news is a record that names the jobs that have changed.
//!
//! A session is a renewed lock that proves that a node is alive. Jobs can have leases of different lengths. A node has
//! one session for each length.

use std::time::Duration;

use bandog_core::{Holding, Key, Moment, Records, Result, Swap, Version};
use bandog_sync::{Client, Guard, Notifications, OutageReporter};
use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};

use super::{
    entry::JobId,
    news_outbox::NewsOutbox,
    sessions::Sessions,
    store_event::{ReadJob, StoreEvent},
};
use crate::{
    board::publish_change,
    news::{ChangedJobs, news_key},
    nodes::register_node,
    pauses::{StoredPauses, pauses_key},
    presence::JobNames,
    records::board_key,
    recovery::read_or_create_era,
};

pub(super) struct StoreIo {
    client: Client,
    /// While this value exists, the client does not log outages. The dispatcher logs them instead, because it notices
    /// them earlier and knows the effect on jobs.
    _outages: OutageReporter,
    /// The calls that are not answered yet.
    in_flight: FuturesUnordered<BoxFuture<'static, StoreEvent>>,
    sessions: Sessions,
    /// The jobs that have changed, and whose names are not published yet.
    news: NewsOutbox,
    /// Notifications that news was published. None if the store cannot send notifications. Then only the regular polls
    /// find the changes.
    notifications: Option<Notifications>,
}

impl StoreIo {
    pub(super) fn new(client: Client) -> Self {
        let notifications = news_key().and_then(|news| client.records().subscribe(&news)).ok();
        Self {
            _outages: client.outage_reporter(),
            sessions: Sessions::new(client.clone()),
            client,
            in_flight: FuturesUnordered::new(),
            news: NewsOutbox::default(),
            notifications,
        }
    }

    /// This node's session for leases of this length. None if this node does not hold this session now. If the session
    /// is neither held nor being claimed, begins to claim it.
    pub(super) fn session(&mut self, lease: Duration) -> Option<Holding> {
        self.sessions.get(lease)
    }

    pub(super) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Handles the result of a claim of a session. If the claim succeeded, keeps the session, and begins to register
    /// this node as the holder of the session. Operators see the registered nodes with [`crate::Jobs::nodes`].
    pub(super) fn keep_session(
        &mut self,
        node: &str,
        jobs: Option<JobNames>,
        lease: Duration,
        result: Result<Guard>,
    ) -> Result<()> {
        let session = self.sessions.keep(lease, result)?;
        // The future `others` registers this node, and returns the other registered nodes.
        let others = register_node(self.client.clone(), node.to_owned(), jobs, session);
        self.call(async move { StoreEvent::NodeRegistered(others.await) });
        Ok(())
    }

    /// Drops a session that has expired, and begins to claim a new session.
    pub(super) fn replace_session(&mut self, lease: Duration, holding: &Holding) {
        self.sessions.replace(lease, holding);
    }

    /// Sends the swaps of these jobs' records.
    pub(super) fn swap(&self, sent: Moment, jobs: Vec<JobId>, swaps: Vec<Swap>) {
        let client = self.client.clone();
        self.call(async move {
            let result = client.records().swap(&swaps).await;
            StoreEvent::Swapped { jobs, sent, result }
        });
    }

    /// Reads the board and these jobs as of one moment.
    pub(super) fn read_jobs(&self, sent: Moment, jobs: Vec<ReadJob>, keys: Vec<Key>) {
        let client = self.client.clone();
        self.call(async move {
            let result = match board_key() {
                Ok(board) => client.records().read(&[&[board], &keys[..]].concat(), &[]).await,
                Err(error) => Err(error),
            };
            StoreEvent::JobsRead { jobs, sent, result }
        });
    }

    /// Reads the board, the pauses, and whether these sessions are held.
    pub(super) fn poll(&self, sent: Moment, holdings: Vec<Holding>) {
        let client = self.client.clone();
        self.call(async move {
            let result = match board_key().and_then(|board| Ok([board, pauses_key()?])) {
                Ok(keys) => client.records().read(&keys, &holdings).await,
                Err(error) => Err(error),
            };
            StoreEvent::Polled { sent, holdings, result }
        });
    }

    /// Reads the board and the news as of one moment.
    pub(super) fn read_news(&self, sent: Moment) {
        let client = self.client.clone();
        self.call(async move {
            let result = match board_key().and_then(|board| Ok([board, news_key()?])) {
                Ok(keys) => client.records().read(&keys, &[]).await,
                Err(error) => Err(error),
            };
            StoreEvent::NewsRead { sent, result }
        });
    }

    /// Reads the era from the board. If there is no board, creates a board with a new era. If the board has no era,
    /// writes the era `known` to the board, or a new era if `known` is none.
    pub(super) fn read_era(&self, known: Option<String>) {
        let client = self.client.clone();
        self.call(async move { StoreEvent::EraRead(read_or_create_era(&client, known).await) });
    }

    /// Writes the record of pauses again, because the store has lost it. `from`: the version of the record that is in
    /// the store now, and that this write replaces. None if the store has no such record.
    pub(super) fn write_pauses(&self, from: Option<Version>, stored: &StoredPauses) {
        let (client, value) = (self.client.clone(), stored.write());
        self.call(async move {
            let swap = async { client.records().swap(&[Swap::new(pauses_key()?, from, value?)]).await };
            StoreEvent::PausesWritten(swap.await.map(|_| ()))
        });
    }

    /// Adds the job to the next news, so that the other nodes read the job's record.
    pub(super) fn add_news(&mut self, job: &str) {
        self.news.add(job);
    }

    pub(super) fn has_news(&self) -> bool {
        self.news.is_waiting()
    }

    /// Publishes the changed jobs, unless no job has changed or a publication is in flight. `known`: the board's
    /// version and text as this node knows them.
    pub(super) fn publish_news(&mut self, known: impl FnOnce() -> Option<(Version, String)>) {
        let Some(changed) = self.news.begin() else { return };
        let (client, known) = (self.client.clone(), known());
        self.call(async move { StoreEvent::NewsPublished(publish_change(&client, known, &changed).await) });
    }

    /// Notes that no publication is in flight any more. From now on, `publish_news` can begin the next publication.
    pub(super) fn news_published(&mut self) {
        self.news.published();
    }

    /// The next event: an answer of the store, an event of a session, or a notification.
    ///
    /// # Cancel safety
    /// If the future is dropped, no answer is lost.
    pub(super) async fn next_event(&mut self) -> StoreEvent {
        let Self { in_flight, sessions, notifications, .. } = self;
        tokio::select! {
            Some(done) = in_flight.next() => done,
            Some(event) = sessions.next_event() => StoreEvent::Session(event),
            Some(Ok(())) = async { Some(notifications.as_mut()?.next().await) } => StoreEvent::Notified,
            else => std::future::pending().await,
        }
    }

    /// Releases the sessions. Then makes the other nodes read the jobs in `to_read`, and the jobs whose changes are not
    /// published yet.
    pub(super) async fn end(&mut self, to_read: ChangedJobs) -> Result<()> {
        // Whether the other nodes have to be notified. This is true in three cases: there is unpublished news, a call
        // is in flight, or there is a session.
        let was_used = self.news.is_waiting() || !self.in_flight.is_empty() || !self.sessions.is_idle();
        let mut changed = self.news.take_all();
        changed.join(to_read);
        self.in_flight.clear();
        let result = self.sessions.release_all().await;
        if !was_used {
            return result;
        }
        // This call notifies the other nodes, so it comes after the release of the sessions. Then a single poll of a
        // notified node finds both the released sessions and the runs that the node has to take over.
        result.and(publish_change(&self.client, None, &changed).await)
    }

    /// Begins a call. After the answer, `next_event` returns the call's event.
    fn call(&self, call: impl Future<Output = StoreEvent> + Send + 'static) {
        self.in_flight.push(Box::pin(call));
    }
}
