//! The dispatcher's calls to the store. Each call is a future in flight that ends with a [`StoreEvent`].
//!
//! The board is a record whose version changes whenever nodes have to read something. Its text is the era: a random
//! name of the store's data, which is another one after the store has lost its data. The news is a record that names
//! the jobs that have changed.

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
    records::board_key,
    recovery::read_or_create_era,
};

pub(super) struct StoreIo {
    client: Client,
    /// Keeps the client from logging outages. The dispatcher calls the store more often, and its messages name the
    /// effect on jobs.
    _outages: OutageReporter,
    in_flight: FuturesUnordered<BoxFuture<'static, StoreEvent>>,
    sessions: Sessions,
    /// Jobs whose records the other nodes have to read again.
    news: NewsOutbox,
    /// Notifications of news. None if the store has no notifications. Then the regular polls find the changes.
    notifications: Option<Notifications>,
}

impl StoreIo {
    pub(super) fn new(client: Client) -> Self {
        let notifications = news_key().and_then(|news| client.subscribe(&news)).ok();
        Self {
            _outages: client.outage_reporter(),
            sessions: Sessions::new(client.clone()),
            client,
            in_flight: FuturesUnordered::new(),
            news: NewsOutbox::default(),
            notifications,
        }
    }

    /// The session of this lease. If there is none, claims one.
    pub(super) fn session(&mut self, lease: Duration) -> Option<Holding> {
        self.sessions.get(lease)
    }

    pub(super) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Keeps a claimed session, and registers this node with it for [`crate::Jobs::nodes`].
    pub(super) fn keep_session(&mut self, node: &str, lease: Duration, result: Result<Guard>) -> Result<()> {
        let session = self.sessions.keep(lease, result)?;
        let others = register_node(self.client.clone(), node.to_owned(), session);
        self.call(async move { StoreEvent::NodeRegistered(others.await) });
        Ok(())
    }

    /// Drops a session that has expired, and claims the next one.
    pub(super) fn replace_session(&mut self, lease: Duration, holding: &Holding) {
        self.sessions.replace(lease, holding);
    }

    pub(super) fn swap(&self, sent: Moment, jobs: Vec<JobId>, swaps: Vec<Swap>) {
        let client = self.client.clone();
        self.call(async move {
            let result = client.swap(&swaps).await;
            StoreEvent::Swapped { jobs, sent, result }
        });
    }

    /// Reads the board and these jobs as of one moment.
    pub(super) fn read_jobs(&self, sent: Moment, jobs: Vec<ReadJob>, keys: Vec<Key>) {
        let client = self.client.clone();
        self.call(async move {
            let result = match board_key() {
                Ok(board) => client.read(&[&[board], &keys[..]].concat(), &[]).await,
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
                Ok(keys) => client.read(&keys, &holdings).await,
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
                Ok(keys) => client.read(&keys, &[]).await,
                Err(error) => Err(error),
            };
            StoreEvent::NewsRead { sent, result }
        });
    }

    /// Reads the era of the store's data, or creates one. A board without an era gets the known one.
    pub(super) fn read_era(&self, known: Option<String>) {
        let client = self.client.clone();
        self.call(async move { StoreEvent::EraRead(read_or_create_era(&client, known).await) });
    }

    /// Writes the record of pauses again after the store has lost it.
    pub(super) fn write_pauses(&self, from: Option<Version>, stored: &StoredPauses) {
        let (client, value) = (self.client.clone(), stored.write());
        self.call(async move {
            let swap = async { client.swap(&[Swap::new(pauses_key()?, from, value?)]).await };
            StoreEvent::NewsPublished(swap.await.map(|_| ()))
        });
    }

    /// Makes the other nodes read this job's record.
    pub(super) fn add_news(&mut self, job: &str) {
        self.news.add(job);
    }

    pub(super) fn has_news(&self) -> bool {
        self.news.is_waiting()
    }

    /// Publishes the news, if there is any and no publication is in flight. `known`: the board as this node knows it.
    pub(super) fn publish_news(&mut self, known: impl FnOnce() -> Option<(Version, String)>) {
        let Some(changed) = self.news.begin() else { return };
        let (client, known) = (self.client.clone(), known());
        self.call(async move { StoreEvent::NewsPublished(publish_change(&client, known, &changed).await) });
    }

    /// Allows the next publication.
    pub(super) fn news_published(&mut self) {
        self.news.published();
    }

    /// The next answer of the store or notification.
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

    /// Releases the sessions, and makes the other nodes read the jobs in `to_read` and those of unpublished news.
    pub(super) async fn end(&mut self, to_read: ChangedJobs) -> Result<()> {
        let was_used = self.news.is_waiting() || !self.in_flight.is_empty() || !self.sessions.is_idle();
        let mut changed = self.news.take_all();
        changed.join(to_read);
        self.in_flight.clear();
        let result = self.sessions.release_all().await;
        if !was_used {
            return result;
        }
        // This call notifies the other nodes, so it is the last one. Then one poll of a notified node finds both the
        // runs to take over and the released sessions.
        result.and(publish_change(&self.client, None, &changed).await)
    }

    fn call(&self, call: impl Future<Output = StoreEvent> + Send + 'static) {
        self.in_flight.push(Box::pin(call));
    }
}
