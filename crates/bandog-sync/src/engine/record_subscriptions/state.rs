//! A user's subscription.

use std::time::Duration;

use bandog_core::{Key, Moment, Notifier, Subscription};

/// A user's subscription to a record or a latch. Most engines have none.
pub(in crate::engine) struct RecordSubscriber {
    pub(in crate::engine) key: Key,
    pub(in crate::engine) notifier: Notifier,
    /// When the subscriber is notified without a reason. `None` for a record: the subscriber of a record polls by
    /// itself.
    pub(in crate::engine) polls: Option<Polls>,
    /// The backend's subscription. `None` until the backend has answered.
    pub(in crate::engine) subscription: Option<Subscription>,
    /// When the subscription is retried. `None` if no retry is planned.
    pub(in crate::engine) retry_at: Option<Moment>,
    /// The moment of the subscriber's timer: the next retry or poll. `None` if the timer is not set.
    pub(in crate::engine) timer: Option<Moment>,
    /// Maximum delay before the next attempt, if the backend has returned a silent subscription (one that never
    /// notifies).
    pub(in crate::engine) retry_delay: Duration,
}

/// When the subscriber of a latch polls.
pub(in crate::engine) struct Polls {
    pub(in crate::engine) next: Moment,
    /// The end of the subscriber's wait. `None` if the wait has no limit, or if the limit has passed.
    pub(in crate::engine) until: Option<Moment>,
}

impl RecordSubscriber {
    /// The next retry or poll.
    pub(in crate::engine) fn next_due(&self) -> Option<Moment> {
        let polls = self.polls.as_ref();
        [self.retry_at, polls.map(|polls| polls.next), polls.and_then(|polls| polls.until)].into_iter().flatten().min()
    }
}
