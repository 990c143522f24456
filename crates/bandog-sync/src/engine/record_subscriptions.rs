//! Users' subscriptions to records and latches. If the backend cannot subscribe, the engine retries.

pub(super) mod state;

use std::time::Duration;

use bandog_core::{Key, Moment, Notifier, Result, Subscription};

use self::state::{Polls, RecordSubscriber};
use super::{actor::Engine, backoff::jittered, timers::Timer};
use crate::terms::Ticket;

/// Maximum delay of the first retry.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Maximum delay of any retry.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(64);

/// Maximum interval between two notifications of a subscriber that waits for a latch. Each notification makes it poll.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

impl Engine {
    pub(super) fn subscribe_record(&mut self, id: Ticket, key: Key, notifier: Notifier) {
        self.add_subscriber(id, key, notifier, None);
    }

    /// Subscribes to a latch. The subscriber is also notified at this moment, if there is one.
    pub(super) fn subscribe_latch(&mut self, id: Ticket, key: Key, notifier: Notifier, until: Option<Moment>) {
        let next = self.cx.now + jittered(POLL_INTERVAL);
        self.add_subscriber(id, key, notifier, Some(Polls { next, until }));
    }

    fn add_subscriber(&mut self, id: Ticket, key: Key, notifier: Notifier, polls: Option<Polls>) {
        if self.closing.is_some() {
            return;
        }
        let subscriber = RecordSubscriber {
            key,
            notifier,
            polls,
            subscription: None,
            retry_at: None,
            timer: None,
            retry_delay: RETRY_DELAY,
        };
        self.record_subscribers.insert(id, subscriber);
        self.send_record_subscription(id);
        self.set_subscriber_timer(id);
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
                    subscriber.retry_at = Some(self.cx.now + jittered(subscriber.retry_delay));
                    subscriber.retry_delay = MAX_RETRY_DELAY.min(subscriber.retry_delay * 2);
                }
                subscriber.subscription = Some(subscription);
                if notifies {
                    subscriber.notifier.notify(); // The record may have changed before the subscription began.
                }
            }
            Err(error) if error.is_retryable() => {
                subscriber.retry_at = Some(self.cx.now + jittered(RETRY_DELAY));
            }
            Err(error) => {
                let key = &subscriber.key;
                tracing::warn!(%key, %error, "cannot subscribe to changes of this record or latch; it is polled instead");
                subscriber.subscription = Some(Subscription::silent());
            }
        }
        self.set_subscriber_timer(id);
    }

    /// Retries a subscription, or notifies the subscriber so that it polls.
    pub(super) fn record_subscriber_is_due(&mut self, id: Ticket) {
        let Some(subscriber) = self.record_subscribers.get_mut(&id) else { return };
        let now = self.cx.now;
        subscriber.timer = None;
        if let Some(polls) = &mut subscriber.polls {
            let is_over = polls.until.take_if(|until| *until <= now).is_some();
            if is_over || polls.next <= now {
                polls.next = now + jittered(POLL_INTERVAL);
                subscriber.notifier.notify();
            }
        }
        if subscriber.retry_at.take_if(|retry_at| *retry_at <= now).is_some() {
            self.send_record_subscription(id);
        }
        self.set_subscriber_timer(id);
    }

    fn set_subscriber_timer(&mut self, id: Ticket) {
        let Some(subscriber) = self.record_subscribers.get_mut(&id) else { return };
        let due = subscriber.next_due();
        self.timers.set(Timer::RecordSubscriber(id), &mut subscriber.timer, due);
    }

    /// Notifies all subscribers, because a notification may have been missed.
    pub(super) fn notify_record_subscribers(&self) {
        self.record_subscribers.values().for_each(|subscriber| subscriber.notifier.notify());
    }

    fn send_record_subscription(&mut self, id: Ticket) {
        let Some(subscriber) = self.record_subscribers.get(&id) else { return };
        let (key, notifier) = (subscriber.key.clone(), subscriber.notifier.clone());
        match subscriber.polls {
            None => self.calls.subscribe_record(id, key, notifier),
            Some(_) => self.calls.subscribe_latch(id, key, notifier),
        }
    }
}
