//! The stop of the dispatcher, and whether anything is under way.

use std::time::Duration;

use bandog_core::{Error, Moment, Result};
use tokio::sync::oneshot;

use super::{Dispatcher, entry::JobEntry, store::publish_change};
use crate::news::ChangedJobs;

/// Maximum time that a stop waits for a store that answers but does not accept the end of a run.
const MAX_REFUSAL: Duration = Duration::from_secs(10);

pub(super) struct Stopping {
    /// End of the drain.
    pub(super) until: Moment,
    pub(super) is_cancelled: bool,
    /// Time since which nothing runs and the store answers, but does not accept the pending events.
    pub(super) refused_since: Option<Moment>,
    pub(super) done: Option<oneshot::Sender<Result<()>>>,
}

impl Dispatcher {
    pub(super) fn is_idle(&self) -> bool {
        let is_settled = |entry: &JobEntry| entry.pending.is_none() && entry.events.is_empty();
        self.runs.is_empty() && self.ready.is_empty() && self.reserved == 0 && self.entries.iter().all(is_settled)
    }

    pub(super) fn notify_idle_waiters(&mut self) {
        if !self.idle_waiters.is_empty() && self.is_idle() && self.store.as_ref().is_none_or(|store| !store.has_news())
        {
            self.idle_waiters.drain(..).for_each(|waiter| {
                // The caller may have dropped its future.
                let _ = waiter.send(());
            });
        }
    }

    pub(super) fn has_stopped(&mut self) -> bool {
        if self.stopping.is_none() {
            // The check of every job is slow if there are many.
            return false;
        }
        let settled = self.is_idle();
        let now = self.time.moment();
        let Some(stopping) = &mut self.stopping else { return false };
        let is_over = self.runs.is_empty();
        // The stop does not wait for a store that is down: other nodes see the lease expire.
        let late = stopping.is_cancelled && is_over && (self.is_store_down || self.store.is_none());
        // Nor for a store that refuses the swaps, or has records that this version cannot read.
        let refused = if is_over && !self.is_store_down {
            now.since(*stopping.refused_since.get_or_insert(now)) >= MAX_REFUSAL
        } else {
            stopping.refused_since = None;
            false
        };
        settled || late || refused
    }

    /// The jobs whose records other nodes should read once this node is gone.
    fn jobs_to_read(&self) -> ChangedJobs {
        let is_open = |entry: &&JobEntry| {
            entry.is_shared && (!entry.events.is_empty() || entry.state.as_ref().is_some_and(|state| !state.is_idle()))
        };
        let mut changed = ChangedJobs::none();
        self.entries.iter().filter(is_open).for_each(|entry| changed.add(&entry.definition.name));
        changed
    }

    /// Releases the sessions, notifies the other nodes, and answers the caller of `stop`.
    pub(super) async fn end(mut self) {
        self.log_missed();
        let mut result = Ok(());
        let to_read = self.jobs_to_read();
        if let Some(store) = &mut self.store {
            let is_known = !store.is_idle();
            let mut changed = store.take_unpublished_news();
            changed.join(to_read);
            result = store.release_sessions().await;
            if is_known {
                // Last, so that one poll of a notified node finds everything: runs to take over, and sessions that are
                // released.
                result = result.and(publish_change(store.client(), None, &changed).await);
            }
        }
        if self.is_store_down || self.entries.iter().any(|entry| !entry.events.is_empty()) {
            result = result
                .and(Err(Error::unavailable("the store did not take the results of this node's runs").during("stop")));
        }
        if let Some(done) = self.stopping.and_then(|stopping| stopping.done) {
            // The caller may have dropped its future.
            let _ = done.send(result);
        }
    }
}
