//! Requests that wait to be sent, and when they are sent together.
//!
//! Claims and releases of a round are sent in batches. Renewals of many holds are sent in one call.

use std::{collections::VecDeque, time::Duration};

use bandog_core::{Key, Moment, Step};

use super::msg::HoldId;

/// Maximum number of steps in one call. A larger batch would delay its first step.
const MAX_BATCH: usize = 32;
/// Minimum number of steps in flight to a near store at which a batch that is not full waits for the next answer: many
/// small batches would cost both sides more than the wait.
const GATHER_FROM: usize = MAX_BATCH / 2;
/// Maximum round trip of a near store, and maximum time for which a batch waits for more steps.
const NEAR: Duration = Duration::from_millis(1);
/// Maximum number of keys in one renewal call.
const MAX_RENEWALS: usize = 512;
/// Maximum number of renewal calls in flight, so that they do not crowd out claims.
const MAX_RENEWAL_CALLS: usize = 2;

pub(super) struct Outbox {
    steps: Vec<Step>,
    renewals: VecDeque<(Key, HoldId)>,
    /// When the last batch was sent.
    sent_at: Moment,
}

impl Outbox {
    pub(super) fn new(now: Moment) -> Self {
        Self { steps: Vec::new(), renewals: VecDeque::new(), sent_at: now }
    }

    pub(super) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    pub(super) fn push_renewal(&mut self, key: Key, hold: HoldId) {
        self.renewals.push_back((key, hold));
    }

    /// Whether no step waits.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Time after which steps that wait for others are sent alone.
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        (!self.steps.is_empty()).then_some(NEAR)
    }

    /// Whether a batch is to be sent now. A batch that is not full waits for more steps, if the store is near and half a
    /// batch is in flight.
    pub(super) fn is_ready(&self, steps_in_flight: usize, round_trip: Duration, now: Moment) -> bool {
        let can_wait = self.steps.len() < MAX_BATCH && steps_in_flight >= GATHER_FROM;
        let waits = can_wait && round_trip < NEAR && now.since(self.sent_at) < NEAR;
        !self.steps.is_empty() && !waits
    }

    /// Takes the next batch, which is sent now.
    pub(super) fn take_batch(&mut self, now: Moment) -> Vec<Step> {
        self.sent_at = now;
        let rest = self.steps.split_off(self.steps.len().min(MAX_BATCH));
        std::mem::replace(&mut self.steps, rest)
    }

    /// Takes the holds of the next renewal call, if one may be sent.
    pub(super) fn take_renewals(&mut self, calls_in_flight: usize) -> Option<Vec<(Key, HoldId)>> {
        if self.renewals.is_empty() || calls_in_flight >= MAX_RENEWAL_CALLS {
            return None;
        }
        let count = self.renewals.len().min(MAX_RENEWALS);
        Some(self.renewals.drain(..count).collect())
    }
}
