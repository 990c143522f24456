//! When a waiter asks again though nothing woke it.
//!
//! Normally it asks within a second, since releases wake it. But a release wakes nobody if this client may not
//! subscribe, or if the holder may not publish. Next to a client that takes the lock again and again, a poll each
//! second would find the lock free only by luck. So a waiter watches how long the present hold has left: if that grew
//! twice in a short time although nothing woke the waiter, then the lock changes hands, and the waiter polls quickly:
//! several times within one [`bandog_core::OFFER`].

use std::time::Duration;

use bandog_core::Moment;

use super::queue::{RECHECK, jittered};

/// Interval of quick polls.
const QUICK: Duration = Duration::from_millis(20);
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
    /// Until when the waiter polls quickly.
    quick: Option<Moment>,
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
            self.quick = Some(now + QUICK_FOR);
        }
    }

    /// A release has woken the waiter.
    pub(super) fn woken(&mut self) {
        *self = Self::default();
    }

    /// How long the waiter waits before it asks again. `subscribed` says whether releases should wake it.
    pub(super) fn pause(&self, now: Moment, subscribed: bool) -> Duration {
        if self.is_quick(now) {
            jittered(QUICK)
        } else if subscribed {
            jittered(RECHECK)
        } else {
            // Often enough to tell a renewal from a new hold.
            jittered(RECHECK.min((self.longest / 8).max(QUICK)))
        }
    }

    pub(super) fn is_quick(&self, now: Moment) -> bool {
        self.quick.is_some_and(|until| now < until)
    }
}
