//! Streaks: how a busy client lets other clients get the key.
//!
//! A *hold* is what the store gives for a claim. A *turn* begins when a call gets the hold, and ends when the last
//! guard of the turn is dropped. A *streak* is a sequence of turns of this client during which other clients had no
//! chance to get the key. In a streak the hold goes from one call of this client to the next, without a request to the
//! store.
//!
//! A streak has a maximum number of turns and a maximum duration. At its end the client releases the hold and *rests*:
//! it does not claim the key for a few round trips. In this time, a client that was notified of the release can claim
//! the key. If the store reports that the release has notified no client, the rest ends immediately.
//!
//! A call that arrives while the release is in flight continues the streak. So even a single task that locks in a loop
//! reaches the end of a streak. Then the client rests.
//!
//! # Starving clients
//! In most cases, a rest is enough to let another client get the key, but this is not guaranteed. If several clients
//! are busy, the key is free for only about one round trip at a time, and a waiting client that polls might never meet
//! such a moment. So a client that has waited for [`STARVES_AFTER`](super::attempt) says in its claims that it
//! *starves*. The store then writes a note that a client starves, and keeps the note while the key is held. The next
//! release *offers* the key: for at most [`bandog_core::OFFER`], the store grants the key only to starving clients. A
//! client that got the key through an offer must wait for [`STARVES_AFTER`](super::attempt) again before it starves
//! again.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{MAX_BLOCK, Moment};

/// Maximum number of turns in a streak.
pub(crate) const MAX_TURNS: NonZeroU32 = MAX_BLOCK;
/// Maximum duration of a streak, unless [`MAX_STREAK_TRIPS`] round trips take longer.
const MAX_STREAK: Duration = Duration::from_millis(20);
/// Number of round trips (of a request and its answer) that a streak can last, even if they take longer than
/// [`MAX_STREAK`].
const MAX_STREAK_TRIPS: u32 = 16;
/// Duration of a rest, in round trips.
const REST_TRIPS: u32 = 4;
/// Maximum duration of a rest.
const MAX_REST: Duration = Duration::from_secs(1);
/// If a streak has lasted for this time, its release always checks for starving clients. With Redis, the check is one
/// more command, and makes a release about a fifth more expensive.
const ALWAYS_OFFERS_AFTER: Duration = Duration::from_millis(5);
/// After a shorter streak, the release checks only with a probability of one in this number. That is enough, because a
/// key with short streaks is released often.
const OFFERS_ONCE_IN: u32 = 16;

/// The present streak of this client at a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streak {
    /// Number of turns so far.
    turns: u32,
    /// When the streak began.
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
        self.turns >= MAX_TURNS.get() || self.has_lasted(now, round_trip)
    }

    /// Whether the streak has reached its maximum duration. The turns of readers, which run at the same time, have no
    /// other limit.
    pub(super) fn has_lasted(self, now: Moment, round_trip: Duration) -> bool {
        now.since(self.since) >= MAX_STREAK.max(round_trip * MAX_STREAK_TRIPS)
    }

    /// Whether the release at the end of the streak checks for starving clients, and offers the key to them.
    pub(super) fn offers_at_end(self, now: Moment) -> bool {
        now.since(self.since) >= ALWAYS_OFFERS_AFTER || fastrand::u32(..OFFERS_ONCE_IN) == 0
    }
}

/// The end of a rest that begins now.
pub(super) fn end_of_rest(now: Moment, round_trip: Duration) -> Moment {
    now + (round_trip * REST_TRIPS).min(MAX_REST)
}
