//! The end, and whether anything is under way.

use std::time::Duration;

use bandog_core::{Error, Moment, Result};
use tokio::sync::oneshot;

use super::{Dispatch, desk::bump, entry::Entry};
use crate::news::Changed;

/// So long a stop waits for a store that answers, and yet does not take the end of a run.
const SETTLE: Duration = Duration::from_secs(10);

pub(super) struct Stopping {
    /// Until when runs may go on.
    pub(super) until: Moment,
    pub(super) is_cancelled: bool,
    /// Since when nothing runs any more and the store answers, but does not take what is to be told.
    pub(super) ended: Option<Moment>,
    pub(super) done: Option<oneshot::Sender<Result<()>>>,
}

impl Dispatch {
    pub(super) fn is_quiet(&self) -> bool {
        let is_settled = |entry: &Entry| entry.flight.is_none() && entry.events.is_empty();
        self.runs.is_empty() && self.ready.is_empty() && self.reserved == 0 && self.entries.iter().all(is_settled)
    }

    pub(super) fn tell_idlers(&mut self) {
        if !self.idlers.is_empty() && self.is_quiet() && self.desk.as_ref().is_none_or(|desk| !desk.has_news()) {
            self.idlers.drain(..).for_each(|idler| {
                // Whoever asked may have gone.
                let _ = idler.send(());
            });
        }
    }

    pub(super) fn has_stopped(&mut self) -> bool {
        if self.stopping.is_none() {
            // To ask every job whether it is quiet takes a while if there are many.
            return false;
        }
        let settled = self.is_quiet();
        let now = self.time.moment();
        let Some(stopping) = &mut self.stopping else { return false };
        let is_over = self.runs.is_empty();
        // A store that does not answer is not waited for: the lease tells the others.
        let late = stopping.is_cancelled && is_over && (self.is_away || self.desk.is_none());
        // Nor is one that answers and refuses, or keeps what this version cannot read.
        let refused = if is_over && !self.is_away {
            now.since(*stopping.ended.get_or_insert(now)) >= SETTLE
        } else {
            stopping.ended = None;
            false
        };
        settled || late || refused
    }

    /// The jobs whose records say something that the other nodes can act on once this node is gone.
    fn concerned(&self) -> Changed {
        let is_open = |entry: &&Entry| {
            entry.is_shared && (!entry.events.is_empty() || entry.state.as_ref().is_some_and(|state| !state.is_idle()))
        };
        let mut changed = Changed::none();
        self.entries.iter().filter(is_open).for_each(|entry| changed.add(&entry.task.name));
        changed
    }

    /// Tells the others, and goes.
    pub(super) async fn end(mut self) {
        self.tell_of_all_left();
        let mut told = Ok(());
        let concerned = self.concerned();
        if let Some(desk) = &mut self.desk {
            let is_known = !desk.is_idle();
            let mut changed = desk.take_untold();
            changed.join(concerned);
            told = desk.leave().await;
            if is_known {
                // Last, so that whoever is woken sees in one look all that there is: runs to take over, sessions that
                // have ended.
                told = told.and(bump(desk.client(), None, &changed).await);
            }
        }
        if self.is_away || self.entries.iter().any(|entry| !entry.events.is_empty()) {
            told = told
                .and(Err(Error::unavailable("the store could not be told how runs of this node ended").during("stop")));
        }
        if let Some(done) = self.stopping.and_then(|stopping| stopping.done) {
            // Whoever asked may have gone.
            let _ = done.send(told);
        }
    }
}
