//! Whether the store answers, for readiness probes. The newest answer to any request counts. If that answer is too old,
//! the engine sends a ping.

pub(super) mod state;

use std::time::Duration;

use bandog_core::{Moment, Result, rounded};
use tokio::sync::oneshot;

use self::state::StoreHealth;
use super::{actor::Engine, timers::Timer};
use crate::Health;

/// If the newest answer is younger than this, no ping is necessary. This is also the minimum interval between two
/// pings.
const MAX_ANSWER_AGE: Duration = Duration::from_secs(1);
/// Maximum time for which a caller waits for the ping: half of the default timeout of a Kubernetes probe.
const PATIENCE: Duration = Duration::from_millis(500);

impl Engine {
    /// Answers a caller of `Client::health`, immediately or after a ping.
    pub(super) fn health(&mut self, caller: oneshot::Sender<Health>) {
        if self.closing.is_some() {
            return; // The sender `caller` is dropped, so the user's call returns `ErrorKind::Closed`.
        }
        let (now, store_health) = (self.cx.now, &mut self.store_health);
        // Whether the newest answer is so young that no ping is necessary.
        let is_known =
            store_health.fault.is_none() && StoreHealth::is_within(store_health.last_answer, now, MAX_ANSWER_AGE);
        // Whether the last ping was sent so recently that the minimum interval forbids another ping.
        let is_pinged = StoreHealth::is_within(store_health.pinged, now, MAX_ANSWER_AGE);
        // Whether a new caller waits for the ping in flight. A new caller does not wait for a ping that is already
        // late.
        let is_awaited = store_health.ping.is_some() && StoreHealth::is_within(store_health.pinged, now, PATIENCE);
        if is_known || (!is_awaited && (is_pinged || store_health.ping.is_some())) {
            self.answer_with_health(caller);
            return;
        }
        store_health.callers.push(caller);
        if is_awaited {
            return;
        }
        let (ping, cancelled) = oneshot::channel();
        (store_health.pinged, store_health.ping) = (Some(now), Some(ping));
        self.timers.set(Timer::Health, &mut store_health.timer, Some(now + PATIENCE.min(self.timeout)));
        self.calls.probe(cancelled);
    }

    /// Handles the end of a ping. `None` means that the ping was cancelled.
    pub(super) fn probed(&mut self, answer: Option<Result<()>>) {
        self.store_health.ping = None;
        if let Some(answer) = answer {
            self.record_answer("ping", &answer);
            if let Err(error) = answer {
                self.store_health.failed(self.cx.now, &error);
            }
        }
        self.answer_callers();
    }

    /// Answers the callers that have waited for [`PATIENCE`].
    pub(super) fn health_is_due(&mut self) {
        self.store_health.timer = None;
        self.answer_callers();
    }

    /// Cancels the ping, because the client closes.
    pub(super) fn stop_probing(&mut self) {
        self.store_health.ping = None;
        self.store_health.callers.clear();
    }

    /// Answers all waiting callers with what is known now.
    fn answer_callers(&mut self) {
        self.timers.set(Timer::Health, &mut self.store_health.timer, None);
        for caller in std::mem::take(&mut self.store_health.callers) {
            self.answer_with_health(caller);
        }
    }

    fn answer_with_health(&self, caller: oneshot::Sender<Health>) {
        let StoreHealth { last_answer, fault, .. } = &self.store_health;
        let age = |moment: Moment| self.cx.now.since(moment);
        let late = self.store_health.late_since(self.cx.now, PATIENCE.min(self.timeout));
        let since = fault.as_ref().map(|(since, _)| *since).or(late);
        let error = fault.as_ref().map(|(_, error)| error.to_string());
        let health = Health {
            reachable: since.is_none() && last_answer.is_some(),
            last_answer: last_answer.map(age),
            away_for: since.map(age),
            error: error.or_else(|| late.map(|sent| format!("a ping has no answer for {}", rounded(age(sent))))),
            holds: self.counts.holds,
            waiting: self.counts.waiting,
        };
        // The caller may have dropped its future.
        let _ = caller.send(health);
    }
}
