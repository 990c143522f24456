//! How a client that has had many turns at a key lets other clients go first.
//!
//! A client passes a hold on among its own calls for one spell ([`super::hold`]). Then it gives the hold back and
//! rests: for a few round trips, which are enough for a waiter that the release has woken, or not at all if the store
//! says that the release has woken nobody. A call that comes while the release is on its way goes on with the spell,
//! so a single task that locks in a loop rests as well.
//!
//! A waiter whose store cannot wake it polls ([`super::polls`]). For it a client that had a key all the time for
//! [`SHARE`] × [`COURTESY`] leaves it alone for [`COURTESY`], whatever the store said.

use std::time::Duration;

use bandog_core::{Key, Moment};

use super::{
    Engine,
    msg::Patience,
    queue::RECHECK,
    slot::{Slot, Spell, Stage, Waiter},
    timers::Timer,
};

/// Shortest time that a busy client leaves a key alone for waiters that poll.
pub(super) const COURTESY: Duration = Duration::from_millis(20);
/// Longest time of the same.
const LONGEST: Duration = Duration::from_millis(250);
/// One part in this many of a client's time at a key is left to waiters that poll.
const SHARE: u32 = 64;
/// A client that has had a key for this long is remembered for [`KNOWN_FOR`] after it has given it back.
const KNOWN_AFTER: Duration = Duration::from_millis(10);
const KNOWN_FOR: Duration = Duration::from_millis(50);

/// What a resting client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// For waiters that the release has woken: it ends when there are none.
    Woken,
    /// For waiters that poll, of which the store may not know.
    Polling,
}

impl Slot {
    /// How long the key is left alone now for waiters that poll, if it is time to do so and all of our own can wait.
    fn courtesy(&self, now: Moment) -> Option<Duration> {
        let share = now.since(self.alone_since?) / SHARE;
        let time = share.min(LONGEST);
        let hurries = |waiter: &Waiter| waiter.until.is_some_and(|until| until <= now + time);
        (share >= COURTESY && !self.queue.values().any(|waiter| hurries(waiter))).then_some(time)
    }
}

impl Engine {
    /// Lets other clients go first for a while, after the hold was given back.
    pub(super) fn rest(&mut self, key: &Key) {
        let now = self.now;
        let Some(slot) = self.slots.get_mut(key) else { return };
        let woken = (self.trip * 4).min(RECHECK);
        let (rest, time) = match slot.courtesy(now) {
            Some(time) => (Rest::Polling, time.max(woken)),
            None => (Rest::Woken, woken),
        };
        if rest == Rest::Polling {
            slot.alone_since = None;
        }
        slot.stage = Stage::Resting(rest);
        self.timers.set(Timer::Slot(key.clone()), &mut slot.timer, Some(now + time));
    }

    /// Nobody of this client waits for the key any more, whose hold is being given back.
    pub(super) fn leave(&mut self, key: &Key, spell: Spell) {
        let now = self.now;
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.stage = Stage::Leaving(Some(spell));
        if slot.alone_since.is_some_and(|since| now.since(since) >= KNOWN_AFTER) {
            self.timers.set(Timer::Slot(key.clone()), &mut slot.timer, Some(now + KNOWN_FOR));
        }
    }

    /// The store has answered the release of a key that nobody of this client waited for.
    pub(super) fn left(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        match slot.stage {
            Stage::Leaving(_) if slot.timer.is_some() => slot.stage = Stage::Leaving(None),
            Stage::Leaving(_) => {
                slot.stage = Stage::Idle;
                self.drop_if_unwanted(key);
            }
            Stage::Idle | Stage::Claiming(_) | Stage::Waiting(_) | Stage::Held(_) | Stage::Resting(_) => {}
        }
    }

    /// A call has come while the key's last hold is being given back.
    pub(super) fn come_again(&mut self, key: &Key, spell: Option<Spell>, patience: Patience) {
        let now = self.now;
        let Some(slot) = self.slots.get(key) else { return };
        let tired = spell.is_some_and(|spell| spell.is_tired(now, self.trip)) || slot.courtesy(now).is_some();
        // A call that does not wait asks at once, as the promise of `try_lock` is.
        if tired && !patience.ends_within(RECHECK * 2) {
            return self.rest(key);
        }
        self.claim_next(key);
    }
}
