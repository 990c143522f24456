//! The state of the store's answers, as the engine has seen them.

use std::time::Duration;

use bandog_core::{Error, Moment};
use tokio::sync::oneshot;

use crate::Health;

/// The store's newest answers.
#[derive(Default)]
pub(in crate::engine) struct StoreHealth {
    pub(in crate::engine) last_answer: Option<Moment>,
    /// When the present outage began, and the newest error of the outage. `None` if there is no outage.
    pub(in crate::engine) fault: Option<(Moment, Error)>,
    /// When the last ping was sent.
    pub(in crate::engine) pinged: Option<Moment>,
    /// The ping that is in flight. The drop of this sender cancels the ping.
    pub(in crate::engine) ping: Option<oneshot::Sender<()>>,
    /// Callers that wait for the ping.
    pub(in crate::engine) callers: Vec<oneshot::Sender<Health>>,
    /// The latest moment at which the waiting callers get an answer, even if the ping has no answer.
    pub(in crate::engine) timer: Option<Moment>,
}

impl StoreHealth {
    /// Records that the store has answered a request.
    pub(in crate::engine) fn answered(&mut self, now: Moment) {
        self.last_answer = Some(now);
        self.fault = None;
    }

    /// Records that the store has not answered a request, or has refused this client.
    pub(in crate::engine) fn failed(&mut self, now: Moment, error: &Error) {
        let since = self.fault.as_ref().map_or(now, |(since, _)| *since);
        self.fault = Some((since, error.clone()));
    }

    /// If the ping in flight is late, returns the moment when the ping was sent. A ping is late if two conditions are
    /// met: it was sent at least `patience` ago, and the store has not answered any request since it was sent.
    pub(in crate::engine) fn late_since(&self, now: Moment, patience: Duration) -> Option<Moment> {
        let sent = self.pinged.filter(|_| self.ping.is_some())?;
        let is_late = now.since(sent) >= patience && self.last_answer.is_none_or(|answer| answer < sent);
        is_late.then_some(sent)
    }

    /// Whether `moment` is less than `time` ago.
    pub(in crate::engine) fn is_within(moment: Option<Moment>, now: Moment, time: Duration) -> bool {
        moment.is_some_and(|moment| now.since(moment) < time)
    }
}
