//! What the engine knows of the store's health, and the ping that it sends when it knows too little.

use std::time::Duration;

use bandog_core::{Error, Moment, Result};
use tokio::sync::oneshot;

use super::{Engine, timers::Timer};
use crate::Health;

/// Maximum age of an answer that counts as the present state, and minimum interval between two pings.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum time that a caller waits for the ping: half of what Kubernetes gives a probe by default.
const PATIENCE: Duration = Duration::from_millis(500);

/// The store's newest answers.
#[derive(Default)]
pub(super) struct Vitals {
    last_answer: Option<Moment>,
    /// When the present outage began, and its newest error.
    fault: Option<(Moment, Error)>,
    /// When the last ping was sent.
    pinged: Option<Moment>,
    /// Cancels the ping that is in flight when it is dropped.
    ping: Option<oneshot::Sender<()>>,
    /// Callers that wait for that ping.
    callers: Vec<oneshot::Sender<Health>>,
    /// When they are answered without it.
    timer: Option<Moment>,
}

impl Vitals {
    /// The store has answered a request.
    pub(super) fn answered(&mut self, now: Moment) {
        self.last_answer = Some(now);
        self.fault = None;
    }

    /// The store has not answered a request, or refuses this client.
    pub(super) fn failed(&mut self, now: Moment, error: &Error) {
        let since = self.fault.as_ref().map_or(now, |(since, _)| *since);
        self.fault = Some((since, error.clone()));
    }

    fn is_within(moment: Option<Moment>, now: Moment, time: Duration) -> bool {
        moment.is_some_and(|moment| now.since(moment) < time)
    }
}

impl Engine {
    pub(super) fn health(&mut self, caller: oneshot::Sender<Health>) {
        if self.closing.is_some() {
            return; // To be dropped says `Closed`.
        }
        let (now, vitals) = (self.now, &mut self.vitals);
        let is_known = vitals.fault.is_none() && Vitals::is_within(vitals.last_answer, now, FRESH);
        let is_pinged = Vitals::is_within(vitals.pinged, now, FRESH);
        // A ping that is older than a caller's patience would keep the next caller for nothing.
        let is_awaited = vitals.ping.is_some() && Vitals::is_within(vitals.pinged, now, PATIENCE);
        if is_known || (!is_awaited && (is_pinged || vitals.ping.is_some())) {
            self.tell_health(caller);
            return;
        }
        vitals.callers.push(caller);
        if is_awaited {
            return;
        }
        let (ping, cancelled) = oneshot::channel();
        (vitals.pinged, vitals.ping) = (Some(now), Some(ping));
        self.timers.set(Timer::Health, &mut vitals.timer, Some(now + PATIENCE.min(self.timeout)));
        self.calls.probe(cancelled);
    }

    /// The ping was answered, has failed, or was cancelled.
    pub(super) fn probed(&mut self, answer: Option<Result<()>>) {
        self.vitals.ping = None;
        if let Some(answer) = answer {
            self.note_answer("ping", &answer);
            if let Err(error) = answer {
                self.vitals.failed(self.now, &error);
            }
        }
        self.tell_callers();
    }

    /// The callers' patience has ended.
    pub(super) fn health_is_due(&mut self) {
        self.vitals.timer = None;
        self.tell_callers();
    }

    /// A client that closes does not wait for a ping.
    pub(super) fn stop_probing(&mut self) {
        self.vitals.ping = None;
        self.vitals.callers.clear();
    }

    fn tell_callers(&mut self) {
        self.timers.set(Timer::Health, &mut self.vitals.timer, None);
        for caller in std::mem::take(&mut self.vitals.callers) {
            self.tell_health(caller);
        }
    }

    fn tell_health(&self, caller: oneshot::Sender<Health>) {
        let Vitals { last_answer, fault, .. } = &self.vitals;
        let age = |moment: Moment| self.now.since(moment);
        let health = Health {
            reachable: fault.is_none() && last_answer.is_some(),
            last_answer: last_answer.map(age),
            away_for: fault.as_ref().map(|(since, _)| age(*since)),
            error: fault.as_ref().map(|(_, error)| error.to_string()),
            holds: self.holds.len(),
            waiting: self.waiting,
        };
        // The caller may have gone.
        let _ = caller.send(health);
    }
}
