//! Writes this client into the store's registry while the client holds a lock or waits for one. Operators read the
//! registry, and the search for deadlocks ([`super::deadlocks`]).

pub(super) mod state;

use std::{collections::HashSet, time::Duration};

use bandog_core::{BlockedCalls, ErrorKind, Key, MAX_WAITS, Moment, Result};

use self::state::Registration;
use super::{actor::Engine, timers::Timer};

/// Delay of the first registration. If a client holds a lock for a shorter time, the client is not registered, because
/// an operator could not notice such a short hold.
const REGISTER_AFTER: Duration = Duration::from_millis(100);
/// Minimum interval between two registrations. It applies when the second registration only updates the list of locks
/// for which this client waits.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

impl Engine {
    /// Called when this client has got a lock. Plans to register the client. If the registration still says that the
    /// client waits for this lock, plans to update the registration.
    pub(super) fn register_for_hold(&mut self, key: &Key) {
        if self.registration.timer.is_none() {
            self.register_by(self.cx.now + REGISTER_AFTER);
        } else if self.registration.member.waits.contains(key) {
            self.register_soon();
        }
    }

    /// Called when a call begins to wait for a lock that another client holds.
    pub(super) fn register_for_wait(&mut self) {
        self.register_soon();
    }

    /// Called when no call of this client waits for this lock any more. If the registration still says that the client waits
    /// for it, plans to update the registration.
    pub(super) fn wait_ended(&mut self, key: &Key) {
        if self.registration.last_sent.is_some() && self.registration.member.waits.contains(key) {
            self.register_soon();
        }
    }

    /// Repeats the registration, because the store may have lost the earlier one.
    pub(super) fn register_again(&mut self) {
        if self.registration.last_sent.is_some() {
            self.register_by(self.cx.now);
        }
    }

    /// Plans a registration for the earliest moment that [`REGISTER_AFTER`] and [`MIN_INTERVAL`] allow.
    fn register_soon(&mut self) {
        let earliest = self.cx.now + REGISTER_AFTER;
        self.register_by(
            self.registration.last_sent.map_or(earliest, |last_sent| earliest.max(last_sent + MIN_INTERVAL)),
        );
    }

    /// Plans the next registration for this moment, unless an earlier moment is planned already.
    fn register_by(&mut self, moment: Moment) {
        let Registration { timer, refused, .. } = &mut self.registration;
        if *refused || self.closing.is_some() {
            return;
        }
        let earlier = timer.map_or(moment, |set| set.min(moment));
        self.timers.set(Timer::Registration, timer, Some(earlier));
    }

    /// Registers this client, or repeats its registration. If the client holds no lock and waits for no lock, removes
    /// the client from the registry instead.
    pub(super) fn registration_is_due(&mut self, now: Moment) {
        self.registration.timer = None;
        self.update_waits();
        if self.counts.holds == 0 && self.registration.member.waits.is_empty() && self.deadlocks.is_empty() {
            return self.deregister();
        }
        self.send_registration(now);
    }

    /// Registers this client now, because other members of a deadlock wait for what the row publishes.
    pub(super) fn register_now(&mut self) {
        if self.closing.is_none() {
            self.send_registration(self.cx.now);
        }
    }

    /// Registers this client until this moment, also if it ends before, because a hold of it stays in the store.
    pub(super) fn keep_registered(&mut self, until: Moment) {
        let kept_until = &mut self.registration.kept_until;
        *kept_until = kept_until.map_or(Some(until), |kept| Some(kept.max(until)));
        self.register_now();
    }

    /// Updates the list of locks for which this client waits.
    fn update_waits(&mut self) {
        let waiting = self.slots.values().filter(|entry| entry.slot.is_waiting());
        let mut seen = HashSet::new();
        let waits = waiting.map(|entry| &entry.slot.id().key).filter(|key| seen.insert(*key)).cloned();
        self.registration.member.waits = waits.take(MAX_WAITS).collect();
    }

    fn send_registration(&mut self, now: Moment) {
        self.publish_blocked();
        if self.registration.refused {
            return;
        }
        self.registration.last_sent = Some(now);
        self.calls.register(self.registration.member.clone(), self.registration.ttl_at(now));
        self.register_by(now + self.registration.ttl / 3);
    }

    /// Handles the answer to a registration.
    pub(super) fn registered(&mut self, answer: Result<()>) {
        let Err(error) = &answer else { return };
        if error.is_about_login() {
            // The password may have changed, so the next registration is sent as usual. The value is a label of a
            // metric, so it keeps the name that earlier versions have written.
            return self.record_answer("announce", &answer);
        }
        if error.kind() == ErrorKind::Denied && !self.registration.refused {
            tracing::warn!(%error, "this user may not write to the registry, so operators cannot see this client");
            self.registration.refused = true;
            self.timers.set(Timer::Registration, &mut self.registration.timer, None);
        }
    }

    /// Removes this client from the registry, unless the client is certainly not registered. The row of a client whose holds
    /// stay in the store is kept, without its waiting calls.
    pub(super) fn deregister(&mut self) {
        self.timers.set(Timer::Registration, &mut self.registration.timer, None);
        // If the store does not answer at present, no request is sent. The registration then expires after its ttl.
        if self.registration.last_sent.take().is_none() || self.outages.is_away() {
            return;
        }
        let left = self.registration.kept_until.map(|until| until.since(self.cx.now)).filter(|left| !left.is_zero());
        match left {
            Some(left) => {
                self.registration.member.waits.clear();
                self.registration.member.blocked = BlockedCalls::default();
                self.calls.register(self.registration.member.clone(), left);
            }
            None => self.calls.deregister(self.client),
        }
    }
}
