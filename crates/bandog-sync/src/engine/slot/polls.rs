//! When a waiter claims again although no notification came.
//!
//! Normally it polls within a second, since releases wake it. But a release wakes no waiter if this client may not
//! subscribe, or if the holder may not publish. Beside a client that takes the lock again and again, a poll each second
//! would find the lock free only by luck. So a waiter watches how long the present hold has left. If that grew twice in
//! a short time although no notification came, then the lock changes hands. The waiter polls quickly then: several
//! times within one [`bandog_core::OFFER`].

use std::time::Duration;

use bandog_core::Moment;

use crate::engine::backoff::jittered;

/// Maximum interval between two claims of a waiter that no notification wakes; half of it is the minimum.
pub(super) const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of quick polls.
const QUICK_INTERVAL: Duration = Duration::from_millis(20);
/// Time for which a waiter polls quickly after it last saw the lock change hands.
const QUICK_FOR: Duration = Duration::from_secs(5);
/// Maximum difference of two answers without a renewal between them: stores count in milliseconds.
const SLACK: Duration = Duration::from_millis(5);

/// The remaining time that a store reports for a hold without an end.
const ENDLESS: Duration = Duration::from_secs(1);

/// What a waiter knows of the holds that it was refused for.
#[derive(Debug, Default)]
pub(super) struct Polls {
    /// The longest remaining time of a hold: about its ttl.
    longest_left: Duration,
    /// When the present hold ends, if it is neither renewed nor released; and the remaining time that the store
    /// reported.
    expected_end: Option<(Moment, Duration)>,
    /// When the remaining time was last seen to grow.
    last_change: Option<Moment>,
    quick_until: Option<Moment>,
}

impl Polls {
    /// The store has refused a claim of this moment, and reports how long the present hold has left.
    pub(super) fn refused(&mut self, asked_at: Moment, now: Moment, left: Duration) {
        self.longest_left = self.longest_left.max(left);
        let is_endless = |before| left == ENDLESS && before == ENDLESS;
        let more = |(ends, before): (Moment, _)| left > ends.since(asked_at) + SLACK && !is_endless(before);
        let has_grown = self.expected_end.is_some_and(more);
        self.expected_end = Some((now + left, left));
        if !has_grown {
            return;
        }
        // A renewal also adds time, but only each third of the ttl.
        if self.last_change.replace(now).is_some_and(|before| now.since(before) < self.longest_left / 6) {
            self.quick_until = Some(now + QUICK_FOR);
        }
    }

    /// A notification has come.
    pub(super) fn notified(&mut self) {
        *self = Self::default();
    }

    /// How long the waiter waits before the next poll. `subscribed`: whether releases should wake it.
    pub(super) fn interval(&self, now: Moment, subscribed: bool) -> Duration {
        if self.is_quick(now) {
            jittered(QUICK_INTERVAL)
        } else if subscribed {
            jittered(MAX_POLL_INTERVAL)
        } else {
            // Frequent enough to distinguish a renewal from a new hold.
            jittered(MAX_POLL_INTERVAL.min((self.longest_left / 8).max(QUICK_INTERVAL)))
        }
    }

    pub(super) fn is_quick(&self, now: Moment) -> bool {
        self.quick_until.is_some_and(|until| now < until)
    }
}
