//! Observers of an election.

use std::{pin::pin, time::Duration};

use bandog_core::{Error, Key, Result};
use futures_util::future::{Either, select};

use super::leader::{self, Leader};
use crate::{
    Client, Notifications,
    pause::{at_most, check_limit, check_timer, pause},
};

/// Interval at which an observer polls the record, because a notification can be lost, and because no notification is
/// sent when a leader dies.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Reports the leader of an election, and its changes. Created by [`super::Election::observe`].
///
/// The store notifies observers when a leader is elected or resigns. Observers also poll once a second. So the death of
/// a leader is reported at most a second after its ttl, unless the next leader is reported first.
#[derive(Debug)]
pub struct Observer {
    client: Client,
    /// The record, and the key of the mutex that the leader holds. An error if the name is not allowed.
    names: Result<(Key, Key)>,
    /// `None` before the first call of [`Observer::changed`].
    notifications: Option<Notifications>,
    seen: Seen,
}

/// The leaders that an observer has seen.
#[derive(Debug, Default)]
struct Seen {
    /// The leader that was returned last. `None` before the first call.
    last: Option<Option<Leader>>,
    /// The leader that was read last, also if it did not hold the mutex.
    read: Option<Leader>,
}

impl Observer {
    pub(super) fn new(client: Client, names: Result<(Key, Key)>) -> Self {
        Self { client, names, notifications: None, seen: Seen::default() }
    }

    /// The first call returns the present leader immediately. Each later call waits until there is a change, and
    /// returns the new leader. `None` means that there is no leader.
    ///
    /// If several changes happen between two calls, only the newest leader is returned. A leader that this call
    /// returns can already have been replaced.
    ///
    /// If a Redis master fails and its replicas do not have its last writes, an earlier leader can be returned again,
    /// with its lower fence: the new master does not know the last one.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the name of the election is not allowed, or the call was made outside a Tokio runtime.
    /// - `ErrorKind::Denied`: the store refused the request.
    /// - `ErrorKind::Unsupported`: the store does not support records.
    /// - `ErrorKind::Corrupt`: the record was not written by an election.
    /// - `ErrorKind::Closed`: the client was closed with [`Client::close`].
    ///
    /// It is no error if the store does not answer: the call continues to wait.
    ///
    /// # Panics
    /// Panics in a Tokio runtime without timers.
    ///
    /// # Cancel safety
    /// If the future is dropped, no change is missed: the next call reports it.
    pub async fn changed(&mut self) -> Result<Option<Leader>> {
        check_timer("changed")?;
        let (record, key) = self.names.as_ref().map_err(Error::clone)?;
        let notifications = match &mut self.notifications {
            Some(notifications) => notifications,
            empty @ None => empty.insert(self.client.subscribe(record)?),
        };
        loop {
            match self.seen.poll(&self.client, record, key).await {
                Ok(Some(leader)) => return Ok(leader),
                Ok(None) => {}
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%record, %error, "an observer could not read the record");
                }
                Err(error) => return Err(error),
            }
            let notified = pin!(notifications.next());
            match select(notified, pin!(pause(self.client.handle(), POLL_INTERVAL))).await {
                Either::Left((notified, _)) => notified?,
                Either::Right((paused, _)) => paused?,
            }
        }
    }

    /// As [`Observer::changed`], but waits for at most `limit`. The maximum is 365 days. Returns `None` if there was no
    /// change by then. If `limit` is zero, the call reads the leader once.
    ///
    /// # Errors
    /// As [`Observer::changed`], and `ErrorKind::Misused` if the limit is too long. With a limit of zero,
    /// `ErrorKind::Unavailable` if the store does not answer.
    ///
    /// # Cancel safety
    /// As [`Observer::changed`].
    pub async fn changed_for(&mut self, limit: Duration) -> Result<Option<Option<Leader>>> {
        check_timer("changed_for")?;
        if let Some(limit) = check_limit(limit)? {
            let clock = self.client.clock();
            return at_most(self.changed(), limit, clock).await.transpose();
        }
        let (record, key) = self.names.as_ref().map_err(Error::clone)?;
        self.seen.poll(&self.client, record, key).await
    }
}

impl Seen {
    /// Reads the leader. Returns it if it is not the one that was returned last.
    async fn poll(&mut self, client: &Client, record: &Key, key: &Key) -> Result<Option<Option<Leader>>> {
        let present = leader::read(client, record, key, self.read.clone()).await?;
        self.read = present.clone().or_else(|| self.read.take());
        if self.last.as_ref() == Some(&present) {
            return Ok(None);
        }
        self.last = Some(present.clone());
        Ok(Some(present))
    }
}
