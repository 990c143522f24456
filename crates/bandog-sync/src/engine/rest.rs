//! How a client that has had many turns at a key lets other clients go first.
//!
//! A client passes a hold on among its own calls for one streak ([`super::hold`]). Then it gives the hold back and
//! rests: for a few round trips, which are enough for a waiter that the release has woken, or not at all if the store
//! says that the release has woken nobody. A call that comes while the release is on its way goes on with the streak,
//! so a single task that locks in a loop rests as well.
//!
//! That is fair most of the time, and promises nothing: beside several busy clients the key is free for about one round
//! trip, and a waiter that polls may never meet it. So a waiter that has waited for [`STARVING`] says so with its claims.
//! The store notes it while the key is held, and the next release offers the key to such waiters alone
//! ([`bandog_core::OFFER`]): they compete with each other only, and the one that is served starts anew.

use std::time::Duration;

use bandog_core::{Key, Moment};

use super::{
    Engine,
    msg::Patience,
    queue::RECHECK,
    slot::{Attempt, Stage, Streak, WakeUps},
    timers::Timer,
};

/// A client that has waited for so long goes before those that have not.
const STARVING: Duration = Duration::from_secs(1);
/// A client that has had the key for so long always looks for waiters that starve when it gives the key back: that is one
/// more command for Redis, a fifth of a release's cost.
const OFFERS_AFTER: Duration = Duration::from_millis(5);
/// Shorter spells look by chance, once in so many releases: a key that is busy with them is given back often.
const OFFERS_ONCE_IN: u32 = 16;

impl Attempt {
    /// Whether to ask for an offer: only a waiter that would notice it in time does.
    pub(super) fn starves(&self, now: Moment, wake_ups: &WakeUps) -> bool {
        let waited = self.from.is_none() && now.since(self.since) >= STARVING;
        waited && (wake_ups.is_subscribed() || self.polls.is_quick(now))
    }
}

impl Streak {
    /// Whether the release at its end offers the key to waiters that starve.
    pub(super) fn offers(self, now: Moment) -> bool {
        now.since(self.since) >= OFFERS_AFTER || fastrand::u32(..OFFERS_ONCE_IN) == 0
    }
}

impl Engine {
    /// Lets other clients go first for a while, after the hold was given back.
    pub(super) fn rest(&mut self, key: &Key) {
        let until = self.now + (self.trip * 4).min(RECHECK);
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.stage = Stage::Resting;
        self.timers.set(Timer::Slot(key.clone()), &mut slot.timer, Some(until));
    }

    /// No call of this client waits for the key any more, whose hold is being given back.
    pub(super) fn leave(&mut self, key: &Key, streak: Streak) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.stage = Stage::Leaving(streak);
        }
    }

    /// The store has answered the release of a key that no call of this client waited for.
    pub(super) fn left(&mut self, key: &Key) {
        if let Some(slot) = self.slots.get_mut(key)
            && matches!(slot.stage, Stage::Leaving(_))
        {
            slot.stage = Stage::Idle;
            self.drop_if_unwanted(key);
        }
    }

    /// A call has come while the key's last hold is being given back.
    pub(super) fn come_again(&mut self, key: &Key, streak: Streak, patience: Patience) {
        // A call that does not wait asks at once, as the promise of `try_lock` is.
        if streak.is_tired(self.now, self.trip) && !patience.ends_within(RECHECK * 2) {
            return self.rest(key);
        }
        self.claim_next(key);
    }
}
