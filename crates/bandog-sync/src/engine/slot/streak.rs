//! Streaks: how a busy client lets other clients get the key.
//!
//! A *turn* is the use of a hold by one call. A *streak* is a row of turns of this client during which other clients
//! had no chance to get the key. In a streak the hold goes from one call of this client to the next, without a request
//! to the store.
//!
//! A streak has a maximum number of turns and a maximum duration. At its end the client releases the hold and *rests*:
//! it does not claim the key for a few round trips. That is long enough for a client that the release has notified. The
//! rest is skipped if the store reports that the release has notified no client.
//!
//! A call that arrives while the release is in flight continues the streak. So a single task that locks in a loop also
//! reaches the end of a streak, and rests.
//!
//! # Starving clients
//! Resting is fair in most cases, but it promises nothing. Beside several busy clients the key is free for about one
//! round trip at a time, and a waiting client that polls may never meet such a moment. So a client that has waited for
//! [`STARVES_AFTER`](super::attempt) says in its claims that it starves, and the store keeps a note of that while the
//! key is held. The next release *offers* the key: for at most [`bandog_core::OFFER`], the store grants it only to
//! starving clients. A client that got the key this way has to wait for [`STARVES_AFTER`](super::attempt) again before
//! it starves.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{MAX_BLOCK, Moment};

/// Maximum number of turns in a streak.
pub(crate) const MAX_TURNS: NonZeroU32 = MAX_BLOCK;
/// Maximum duration of a streak, unless [`MAX_STREAK_TRIPS`] round trips take longer.
const MAX_STREAK: Duration = Duration::from_millis(20);
/// Maximum duration of a streak in round trips, if that is longer than [`MAX_STREAK`].
const MAX_STREAK_TRIPS: u32 = 16;
/// Duration of a rest, in round trips.
const REST_TRIPS: u32 = 4;
/// Maximum duration of a rest.
const MAX_REST: Duration = Duration::from_secs(1);
/// Minimum duration of a streak whose release always checks for starving clients. The check is one more command for
/// Redis, and adds a fifth to the cost of a release.
const ALWAYS_OFFERS_AFTER: Duration = Duration::from_millis(5);
/// After a shorter streak, the release checks at random, with a probability of 1 to this number. That is enough,
/// because a key with short streaks is released often.
const OFFERS_ONCE_IN: u32 = 16;

/// The present streak of this client at a key.
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

    /// Whether the streak has reached one of its limits.
    pub(super) fn must_end(self, now: Moment, round_trip: Duration) -> bool {
        self.turns >= MAX_TURNS.get() || now.since(self.since) >= MAX_STREAK.max(round_trip * MAX_STREAK_TRIPS)
    }

    /// Whether the release at the end of the streak offers the key to starving clients.
    pub(super) fn offers_at_end(self, now: Moment) -> bool {
        now.since(self.since) >= ALWAYS_OFFERS_AFTER || fastrand::u32(..OFFERS_ONCE_IN) == 0
    }
}

/// The end of a rest that begins now.
pub(super) fn end_of_rest(now: Moment, round_trip: Duration) -> Moment {
    now + (round_trip * REST_TRIPS).min(MAX_REST)
}
