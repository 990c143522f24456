//! How a client lets other clients go first after a streak of turns at a key.
//!
//! During a streak, a client passes its hold on among its own calls ([`super::hold`]). Then it releases the hold and
//! rests for a few round trips: long enough for a waiter that the release has woken. It does not rest if the store
//! reports that the release has woken no client. A call that comes while the release is in flight continues the streak,
//! so a single task that locks in a loop rests as well.
//!
//! That is fair in most cases, and no promise: beside several busy clients the key is free for about one round trip,
//! and a waiter that polls may never meet that moment. So a waiter that has waited for [`STARVES_AFTER`] reports with
//! its claims that it starves. The store notes it while the key is held. The next release offers the key to such
//! waiters alone ([`bandog_core::OFFER`]): they compete with each other only, and the one that is served starts anew.

use std::time::Duration;

use bandog_core::{Key, Moment};

use super::{
    Engine,
    msg::Patience,
    queue::MAX_POLL_INTERVAL,
    slot::{Attempt, Stage, Streak, WakeUps},
    timers::Timer,
};

/// Time after which a waiting client starves, and goes before others.
const STARVES_AFTER: Duration = Duration::from_secs(1);
/// Round trip up to which a waiter can take an offer before the offer expires.
const MAX_ROUND_TRIP: Duration = Duration::from_millis(100);
/// Minimum length of a streak whose release always checks for starving waiters. The check is one more command for
/// Redis: a fifth of a release's cost.
const ALWAYS_OFFERS_AFTER: Duration = Duration::from_millis(5);
/// Shorter streaks check at random, in one of this number of releases: a key with short streaks is released often.
const OFFERS_ONCE_IN: u32 = 16;

impl Attempt {
    /// Whether the claim asks for an offer: only if the lock changes hands beside this waiter, and if the waiter would
    /// notice the offer in time. A waiter for one long hold does not.
    pub(super) fn asks_for_offer(&self, now: Moment, wake_ups: &WakeUps, round_trip: Duration) -> bool {
        let waited = self.from.is_none() && now.since(self.since) >= STARVES_AFTER;
        let is_woken = self.is_contended && wake_ups.is_subscribed();
        waited && round_trip < MAX_ROUND_TRIP && (is_woken || self.polls.is_quick(now))
    }
}

impl Streak {
    /// Whether the release at its end offers the key to waiters that starve.
    pub(super) fn offers_at_end(self, now: Moment) -> bool {
        now.since(self.since) >= ALWAYS_OFFERS_AFTER || fastrand::u32(..OFFERS_ONCE_IN) == 0
    }
}

impl Engine {
    /// Lets other clients go first for a few round trips, after the hold was released.
    pub(super) fn rest(&mut self, key: &Key) {
        let until = self.now + (self.round_trip * 4).min(MAX_POLL_INTERVAL);
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.stage = Stage::Resting;
        self.timers.set(Timer::Slot(key.clone()), &mut slot.timer, Some(until));
    }

    /// No call of this client waits for the key, and the release of its hold is in flight.
    pub(super) fn mark_releasing(&mut self, key: &Key, streak: Streak) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.stage = Stage::Releasing(streak);
        }
    }

    /// The release of a key without waiters has been answered.
    pub(super) fn release_ended(&mut self, key: &Key) {
        if let Some(slot) = self.slots.get_mut(key)
            && matches!(slot.stage, Stage::Releasing(_))
        {
            slot.stage = Stage::Idle;
            self.clean_up_if_unwanted(key);
        }
    }

    /// A call has come while the release of the key's last hold is in flight.
    pub(super) fn lock_while_releasing(&mut self, key: &Key, streak: Streak, patience: Patience) {
        // A call that soon gives up claims at once, as `try_lock` promises.
        if streak.must_end(self.now, self.round_trip) && !patience.ends_within(MAX_POLL_INTERVAL * 2) {
            return self.rest(key);
        }
        self.claim_next(key);
    }
}
