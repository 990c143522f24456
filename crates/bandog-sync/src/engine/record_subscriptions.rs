//! Users' subscriptions to records. If the backend cannot subscribe, the engine retries.

use std::time::Duration;

use bandog_core::{Key, Moment, Notifier, Result, Subscription};

use super::{Engine, backoff::jittered, msg::Ticket, timers::Timer};

/// Maximum delay of the first retry.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Maximum delay of any retry.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(64);

/// A user's subscription to a record. Most engines have none.
pub(super) struct RecordSubscriber {
    key: Key,
    notifier: Notifier,
    /// The backend's subscription. `None` until the backend has answered.
    subscription: Option<Subscription>,
    /// When the subscription is retried. `None` if no retry is planned.
    timer: Option<Moment>,
    /// Maximum delay before the next attempt, if the backend has returned a silent subscription (one that never
    /// notifies).
    retry_delay: Duration,
}

impl Engine {
    pub(super) fn subscribe_record(&mut self, id: Ticket, key: Key, notifier: Notifier) {
        if self.closing.is_some() {
            return;
        }
        self.record_subscribers
            .insert(id, RecordSubscriber { key, notifier, subscription: None, timer: None, retry_delay: RETRY_DELAY });
        self.send_record_subscription(id);
    }

    pub(super) fn unsubscribe_record(&mut self, id: Ticket) {
        let Some(mut subscriber) = self.record_subscribers.remove(&id) else { return };
        self.timers.set(Timer::RecordSubscriber(id), &mut subscriber.timer, None);
    }

    /// Handles the backend's answer to a subscription.
    pub(super) fn record_subscribed(&mut self, id: Ticket, subscription: Result<Subscription>) {
        let Some(subscriber) = self.record_subscribers.get_mut(&id) else { return };
        match subscription {
            Ok(subscription) => {
                let notifies = subscriber.subscription.is_none() || !subscription.is_silent();
                if subscription.is_silent() {
                    // A later attempt might succeed, for example because the machine has free file watches again.
                    let retry_at = self.cx.now + jittered(subscriber.retry_delay);
                    subscriber.retry_delay = MAX_RETRY_DELAY.min(subscriber.retry_delay * 2);
                    self.timers.set(Timer::RecordSubscriber(id), &mut subscriber.timer, Some(retry_at));
                }
                subscriber.subscription = Some(subscription);
                if notifies {
                    subscriber.notifier.notify(); // The record may have changed before the subscription began.
                }
            }
            Err(error) if error.is_retryable() => {
                let retry_at = self.cx.now + jittered(RETRY_DELAY);
                self.timers.set(Timer::RecordSubscriber(id), &mut subscriber.timer, Some(retry_at));
            }
            Err(error) => {
                let key = &subscriber.key;
                tracing::warn!(%key, %error, "cannot subscribe to changes of this record; it is polled instead");
                subscriber.subscription = Some(Subscription::silent());
            }
        }
    }

    /// Retries a subscription.
    pub(super) fn record_subscriber_is_due(&mut self, id: Ticket) {
        if let Some(subscriber) = self.record_subscribers.get_mut(&id) {
            subscriber.timer = None;
            self.send_record_subscription(id);
        }
    }

    /// Notifies all subscribers, because a notification may have been missed.
    pub(super) fn notify_record_subscribers(&self) {
        self.record_subscribers.values().for_each(|subscriber| subscriber.notifier.notify());
    }

    fn send_record_subscription(&mut self, id: Ticket) {
        let Some(subscriber) = self.record_subscribers.get(&id) else { return };
        self.calls.subscribe_record(id, subscriber.key.clone(), subscriber.notifier.clone());
    }
}
