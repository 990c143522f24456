//! When a waiting client claims the key again although no notification arrived. Such a claim is a *poll*.
//!
//! Normally a release notifies the waiting clients, and a poll each second is enough. But there are no notifications if
//! the store does not allow this client to subscribe, or does not allow the holder to publish. In that case, slow polls
//! are not enough if another client takes the lock again and again. Between two holds of that client the lock is free
//! only for a moment, and a poll would meet that moment only by luck.
//!
//! So a waiting client watches the remaining time of the present hold, which the store reports with each refusal. If
//! that time grew twice within a short period and no notification arrived, the lock changes hands, but this client is
//! not notified. The client then polls quickly, several times within [`bandog_core::OFFER`]. [`bandog_core::OFFER`] is
//! the maximum time for which a released key is reserved for clients that have waited for a long time.

use std::time::Duration;

use bandog_core::Moment;

use crate::engine::backoff::jittered;

/// Maximum interval between two polls. The interval is random, and at least half of this.
pub(super) const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Polls end at multiples of this time, so that the claims for many keys are sent together. One wake-up for each claim would
/// cost a client that waits for a hundred keys several percent of a core.
const GRID: Duration = Duration::from_millis(125);

/// Maximum interval between two quick polls.
const QUICK_INTERVAL: Duration = Duration::from_millis(20);
/// Time for which a client polls quickly after it last saw that the lock changes hands.
const QUICK_FOR: Duration = Duration::from_secs(5);
/// Maximum error of the remaining time that a store reports. Stores count in milliseconds.
const MAX_ROUNDING_ERROR: Duration = Duration::from_millis(5);

/// The remaining time that a store reports for a hold that never expires.
const NEVER_EXPIRES: Duration = Duration::from_secs(1);

/// The holds of other clients, as far as a waiting client knows them from the refusals of its claims.
#[derive(Debug, Default)]
pub(super) struct Polls {
    /// The longest remaining time that the store has reported. This time is close to the ttl of the other clients'
    /// holds.
    longest_remaining: Duration,
    /// When the present hold ends if it is neither renewed nor released, and the remaining time from which this moment
    /// was computed.
    expected_end: Option<(Moment, Duration)>,
    /// When the remaining time last grew.
    last_change: Option<Moment>,
    /// The client polls quickly until this moment.
    quick_until: Option<Moment>,
}

impl Polls {
    /// Records a refusal of the claim that was sent at `asked_at`. `remaining` is the remaining time of the present
    /// hold.
    pub(super) fn refused(&mut self, asked_at: Moment, now: Moment, remaining: Duration) {
        self.longest_remaining = self.longest_remaining.max(remaining);
        let never_expires = |before| remaining == NEVER_EXPIRES && before == NEVER_EXPIRES;
        let is_longer = |(ends, before): (Moment, _)| {
            remaining > ends.since(asked_at) + MAX_ROUNDING_ERROR && !never_expires(before)
        };
        let has_grown = self.expected_end.is_some_and(is_longer);
        self.expected_end = Some((now + remaining, remaining));
        if !has_grown {
            return;
        }
        // A renewal also lengthens the remaining time. But renewals are a third of the ttl apart. So if the time grew
        // twice within a shorter interval, there is a new hold.
        if self.last_change.replace(now).is_some_and(|before| now.since(before) < self.longest_remaining / 6) {
            self.quick_until = Some(now + QUICK_FOR);
        }
    }

    /// Records a notification. It shows that quick polls are not necessary.
    pub(super) fn notified(&mut self) {
        *self = Self::default();
    }

    /// Interval before the next poll. `subscribed`: whether this client expects notifications of releases.
    pub(super) fn interval(&self, now: Moment, subscribed: bool) -> Duration {
        if self.polls_quickly(now) {
            jittered(QUICK_INTERVAL)
        } else if subscribed {
            slow_interval(now)
        } else {
            // Polls at this interval are frequent enough to distinguish a renewal from a new hold.
            jittered(MAX_POLL_INTERVAL.min((self.longest_remaining / 8).max(QUICK_INTERVAL)))
        }
    }

    pub(super) fn polls_quickly(&self, now: Moment) -> bool {
        self.quick_until.is_some_and(|until| now < until)
    }
}

/// The random interval between two polls of a client that expects notifications: at most [`MAX_POLL_INTERVAL`].
pub(super) fn slow_interval(now: Moment) -> Duration {
    let end = (now + jittered(MAX_POLL_INTERVAL - GRID)).as_nanos();
    let grid = u64::try_from(GRID.as_nanos()).unwrap_or(1);
    Moment::from_nanos(end.next_multiple_of(grid)).since(now)
}
