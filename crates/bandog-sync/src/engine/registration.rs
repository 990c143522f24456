//! Tells the store's registry who this client is, while it holds or waits for something.

use std::time::Duration;

use bandog_core::{ErrorKind, Key, MAX_WAITS, Member, Moment, Result};

use super::{Engine, slot::Stage, timers::Timer};

/// Whoever is done sooner is not told of: no operator could have seen it.
const FIRST: Duration = Duration::from_millis(100);
/// What a client waits for is told anew after this time at the earliest.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Registration {
    member: Member,
    /// For how long an announcement lasts; it is repeated after a third of that.
    ttl: Duration,
    /// When the last announcement went out, if the registry may still have it.
    said: Option<Moment>,
    timer: Option<Moment>,
    /// The store does not let this user into its registry.
    refused: bool,
}

impl Registration {
    pub(super) fn new(member: Member, ttl: Duration) -> Self {
        Self { member, ttl, said: None, timer: None, refused: false }
    }
}

impl Engine {
    /// A hold has begun.
    pub(super) fn noticed_hold(&mut self, key: &Key) {
        if self.registration.timer.is_none() {
            self.announce_by(self.now + FIRST);
        } else if self.registration.member.waits.contains(key) {
            self.announce_soon();
        }
    }

    /// A wait has begun.
    pub(super) fn noticed_wait(&mut self) {
        self.announce_soon();
    }

    /// The registry may have been lost.
    pub(super) fn announce_again(&mut self) {
        if self.registration.said.is_some() {
            self.announce_by(self.now);
        }
    }

    fn announce_soon(&mut self) {
        let first = self.now + FIRST;
        self.announce_by(self.registration.said.map_or(first, |said| first.max(said + AGAIN)));
    }

    fn announce_by(&mut self, moment: Moment) {
        let Registration { timer, refused, .. } = &mut self.registration;
        if *refused || self.closing.is_some() {
            return;
        }
        let earlier = timer.map_or(moment, |set| set.min(moment));
        self.timers.set(Timer::Registration, timer, Some(earlier));
    }

    pub(super) fn registration_is_due(&mut self, now: Moment) {
        self.registration.timer = None;
        let waits = self.slots.iter().filter(|(_, slot)| slot.waits()).map(|(key, _)| key.clone());
        self.registration.member.waits = waits.take(MAX_WAITS).collect();
        if self.holds.is_empty() && self.registration.member.waits.is_empty() {
            return self.withdraw();
        }
        self.registration.said = Some(now);
        self.calls.announce(self.registration.member.clone(), self.registration.ttl);
        self.announce_by(now + self.registration.ttl / 3);
    }

    /// The registry has answered.
    pub(super) fn announced(&mut self, answer: Result<()>) {
        let Err(error) = answer else { return };
        if error.kind() == ErrorKind::Denied && !self.registration.refused {
            tracing::warn!(%error, "operators cannot see who holds this client's locks");
            self.registration.refused = true;
            self.timers.set(Timer::Registration, &mut self.registration.timer, None);
        }
    }

    /// Takes this client out of the registry, if it may be there.
    pub(super) fn withdraw(&mut self) {
        self.timers.set(Timer::Registration, &mut self.registration.timer, None);
        // A store that does not answer is not waited for: the row ends with its ttl.
        if self.registration.said.take().is_some() && !self.away {
            self.calls.withdraw(self.client);
        }
    }
}

impl super::Slot {
    /// Whether somebody here waits for another client.
    fn waits(&self) -> bool {
        !self.queue.is_empty() && matches!(self.stage, Stage::Waiting(_) | Stage::Claiming(_))
    }
}
