//! Records that users hear: the store is asked to listen until it does, and again after a fault.

use std::time::Duration;

use bandog_core::{Key, Moment, Notifier, Result, Subscription};

use super::{
    Engine,
    msg::Ticket,
    queue::{RECHECK, jittered},
    timers::Timer,
};

/// The longest pause before a store that could not listen is asked again.
const DEAF: Duration = Duration::from_secs(64);

/// Somebody who hears a record. Most engines have none.
pub(super) struct RecordSubscriber {
    key: Key,
    notifier: Notifier,
    /// The subscription, once the store listens.
    subscription: Option<Subscription>,
    timer: Option<Moment>,
    /// How long it waits before it asks a store again that could not listen.
    pause: Duration,
}

impl Engine {
    /// Somebody wants to hear a record.
    pub(super) fn subscribe_record(&mut self, id: Ticket, key: Key, notifier: Notifier) {
        if self.closing.is_some() {
            return;
        }
        self.record_subscribers
            .insert(id, RecordSubscriber { key, notifier, subscription: None, timer: None, pause: RECHECK });
        self.ask_for_record(id);
    }

    /// Somebody hears no more.
    pub(super) fn unsubscribe_record(&mut self, id: Ticket) {
        let Some(mut hearer) = self.record_subscribers.remove(&id) else { return };
        self.timers.set(Timer::RecordSubscriber(id), &mut hearer.timer, None);
    }

    /// The backend listens, or says why not.
    pub(super) fn record_subscribed(&mut self, id: Ticket, subscription: Result<Subscription>) {
        let Some(hearer) = self.record_subscribers.get_mut(&id) else { return };
        match subscription {
            Ok(subscription) => {
                let is_news = hearer.subscription.is_none() || !subscription.is_silent();
                if subscription.is_silent() {
                    // It may be able to listen later: the machine's limits, say, are reached now and not then.
                    let again = self.now + jittered(hearer.pause);
                    hearer.pause = DEAF.min(hearer.pause * 2);
                    self.timers.set(Timer::RecordSubscriber(id), &mut hearer.timer, Some(again));
                }
                hearer.subscription = Some(subscription);
                if is_news {
                    hearer.notifier.notify(); // Something may have been written before.
                }
            }
            Err(error) if error.is_retryable() => {
                let again = self.now + jittered(RECHECK);
                self.timers.set(Timer::RecordSubscriber(id), &mut hearer.timer, Some(again));
            }
            Err(error) => {
                let key = &hearer.key;
                tracing::warn!(%key, %error, "cannot hear when this record changes; it is looked at now and then");
                hearer.subscription = Some(Subscription::silent());
            }
        }
    }

    /// A pause is over.
    pub(super) fn record_subscriber_is_due(&mut self, id: Ticket) {
        if let Some(hearer) = self.record_subscribers.get_mut(&id) {
            hearer.timer = None;
            self.ask_for_record(id);
        }
    }

    /// Notifications everybody: something may have been missed.
    pub(super) fn notify_record_subscribers(&self) {
        self.record_subscribers.values().for_each(|hearer| hearer.notifier.notify());
    }

    fn ask_for_record(&mut self, id: Ticket) {
        let Some(hearer) = self.record_subscribers.get(&id) else { return };
        self.calls.subscribe_record(id, hearer.key.clone(), hearer.notifier.clone());
    }
}
