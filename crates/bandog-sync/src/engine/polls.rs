//! When a waiter asks again though nothing woke it.
//!
//! Normally it asks within a second, since releases wake it. But a release wakes nobody if this client may not
//! subscribe, or if the holder may not publish. Next to a client that takes the lock again and again, a poll each
//! second would find the lock free only by luck. So a waiter watches how long the present hold has left: if that grew
//! twice in a short time although nothing woke the waiter, then the lock changes hands, and the waiter polls quickly.

use std::time::Duration;

use bandog_core::Moment;

use super::queue::{RECHECK, jittered};

/// Interval of quick polls. A busy client leaves the lock alone for at least as long: [`super::rest::COURTESY`].
const QUICK: Duration = Duration::from_millis(20);
/// Shortest interval of quick polls, for a waiter that has polled quickly for long.
const QUICKEST: Duration = Duration::from_millis(2);
/// After each of these times the interval of quick polls is halved.
const QUICKER: Duration = Duration::from_secs(10);
/// A waiter polls quickly for this long after it last saw the lock change hands.
const QUICK_FOR: Duration = Duration::from_secs(5);
/// What two answers may differ by although nobody renewed the hold between them: stores count in milliseconds.
const SLACK: Duration = Duration::from_millis(5);

/// What a store says that a hold without an end has left.
const ENDLESS: Duration = Duration::from_secs(1);

/// What a waiter has seen of the holds that it was refused for.
#[derive(Debug, Default)]
pub(super) struct Polls {
    /// The longest time that a hold had left: about its ttl.
    longest: Duration,
    /// When the present hold ends, if it is neither renewed nor given back, and the answer that said so.
    ends: Option<(Moment, Duration)>,
    /// When a hold was last seen to have more time left than the one before.
    moved: Option<Moment>,
    /// Since when the waiter polls quickly, and until when.
    quick: Option<(Moment, Moment)>,
}

impl Polls {
    /// The store was asked at this moment, and says how long the present hold has left.
    pub(super) fn refused(&mut self, asked_at: Moment, now: Moment, left: Duration) {
        self.longest = self.longest.max(left);
        let is_endless = |before| left == ENDLESS && before == ENDLESS;
        let more = |(ends, before): (Moment, _)| left > ends.since(asked_at) + SLACK && !is_endless(before);
        let moved = self.ends.is_some_and(more);
        self.ends = Some((now + left, left));
        if !moved {
            return;
        }
        // A hold that is renewed moves as well, but only each third of its ttl.
        if self.moved.replace(now).is_some_and(|before| now.since(before) < self.longest / 6) {
            let since = self.quick.filter(|(_, until)| now < *until).map_or(now, |(since, _)| since);
            self.quick = Some((since, now + QUICK_FOR));
        }
    }

    /// A release has woken the waiter.
    pub(super) fn woken(&mut self) {
        *self = Self::default();
    }

    /// How long the waiter waits before it asks again. `subscribed` says whether releases should wake it.
    pub(super) fn pause(&self, now: Moment, subscribed: bool) -> Duration {
        match self.quick {
            Some((since, until)) if now < until => {
                let halvings = now.since(since).as_secs() / QUICKER.as_secs();
                let quick = QUICK / 2u32.pow(u32::try_from(halvings.min(8)).unwrap_or(8));
                jittered(quick.max(QUICKEST))
            }
            Some(_) | None if subscribed => jittered(RECHECK),
            // Often enough to tell a renewal from a new hold.
            Some(_) | None => jittered(RECHECK.min((self.longest / 8).max(QUICK))),
        }
    }
}
