//! Streaks: how a busy client lets other clients go first.
//!
//! A streak is the row of turns that this client has at a key without letting other clients go first. During a streak
//! the client passes its hold on among its own calls. Then it releases the hold and rests for a few round trips, which
//! is long enough for a waiter that the release has woken. It does not rest if the store reports that the release has
//! woken no client. A call that comes while the release is in flight continues the streak, so a single task that locks
//! in a loop rests as well.
//!
//! That is fair in most cases, and no promise: beside several busy clients the key is free for about one round trip,
//! and a waiter that polls may never meet that moment. So a waiter that has waited for
//! [`STARVES_AFTER`](super::attempt) reports with its claims that it starves. The store notes it while the key is held.
//! The next release offers the key to such waiters alone ([`bandog_core::OFFER`]). They compete with each other only,
//! and the waiter that is served starts anew.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{MAX_BLOCK, Moment};

/// Maximum number of turns in a streak. After it, the client lets others go first.
pub(crate) const MAX_TURNS: NonZeroU32 = MAX_BLOCK;
/// Maximum duration of a streak: this time, or [`MAX_STREAK_TRIPS`] round trips if they are longer.
const MAX_STREAK: Duration = Duration::from_millis(20);
const MAX_STREAK_TRIPS: u32 = 16;
/// Duration of a rest, in round trips.
const REST_TRIPS: u32 = 4;
/// Maximum duration of a rest.
const MAX_REST: Duration = Duration::from_secs(1);
/// Minimum length of a streak whose release always checks for starving waiters. The check is one more command for
/// Redis: a fifth of a release's cost.
const ALWAYS_OFFERS_AFTER: Duration = Duration::from_millis(5);
/// Shorter streaks check at random, in one of this number of releases: a key with short streaks is released often.
const OFFERS_ONCE_IN: u32 = 16;

/// The present streak at a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streak {
    turns: u32,
    since: Moment,
}

impl Streak {
    pub(super) fn begin(now: Moment) -> Self {
        Self { turns: 0, since: now }
    }

    pub(super) fn add_turn(&mut self) {
        self.turns += 1;
    }

    /// Whether this client must let others go first now.
    pub(super) fn must_end(self, now: Moment, round_trip: Duration) -> bool {
        self.turns >= MAX_TURNS.get() || now.since(self.since) >= MAX_STREAK.max(round_trip * MAX_STREAK_TRIPS)
    }

    /// Whether the release at the end of the streak offers the key to waiters that starve.
    pub(super) fn offers_at_end(self, now: Moment) -> bool {
        now.since(self.since) >= ALWAYS_OFFERS_AFTER || fastrand::u32(..OFFERS_ONCE_IN) == 0
    }
}

/// The end of a rest that begins now.
pub(super) fn rest_until(now: Moment, round_trip: Duration) -> Moment {
    now + (round_trip * REST_TRIPS).min(MAX_REST)
}
