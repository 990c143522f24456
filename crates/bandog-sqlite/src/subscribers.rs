//! The subscribers of one handle. For each topic, there are the notifiers of its subscribers.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bandog_core::{Claim, ClaimId, Key, Kind, Notifier};

/// The topic of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Topic {
    pub(crate) key: Key,
    /// The claim in the queue of a fair mutex that the subscriber waits for. Then the subscriber is notified when this
    /// claim is next. None if the subscriber wants every notification of the key.
    pub(crate) queued: Option<ClaimId>,
}

impl Topic {
    /// The topic of all notifications of a key.
    pub(crate) fn of(key: &Key) -> Self {
        Self { key: key.clone(), queued: None }
    }

    /// The topic of a waiting claim.
    pub(crate) fn of_claim(claim: &Claim) -> Self {
        let queued = match claim.kind {
            Kind::Fair => Some(claim.id),
            Kind::Mutex | Kind::Read | Kind::Write | Kind::Permits { .. } => None,
        };
        Self { key: claim.key.clone(), queued }
    }
}

/// The subscribers of one handle: either those of locks or those of records. The watch thread notifies them.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Mutex<Notifiers>);

#[derive(Debug, Default)]
struct Notifiers {
    /// The notifiers of each topic, each with its number.
    by_topic: HashMap<Topic, BTreeMap<u64, Notifier>>,
    /// The number of the notifier that was added last.
    last_number: u64,
}

impl Subscribers {
    /// Adds a notifier for a topic. Returns its number, which [`Self::remove`] needs.
    pub(crate) fn add(&self, topic: &Topic, notifier: Notifier) -> u64 {
        let mut notifiers = self.notifiers();
        notifiers.last_number += 1;
        let number = notifiers.last_number;
        notifiers.by_topic.entry(topic.clone()).or_default().insert(number, notifier);
        number
    }

    pub(crate) fn remove(&self, topic: &Topic, number: u64) {
        let mut notifiers = self.notifiers();
        let Some(of_topic) = notifiers.by_topic.get_mut(topic) else {
            return;
        };
        let removed = of_topic.remove(&number);
        if of_topic.is_empty() {
            notifiers.by_topic.remove(topic);
        }
        drop(notifiers);
        drop(removed); // Not under the lock: what it owns may take it again.
    }

    /// Whether this topic has a subscriber.
    pub(crate) fn has(&self, topic: &Topic) -> bool {
        self.notifiers().by_topic.contains_key(topic)
    }

    /// The topics that have subscribers.
    pub(crate) fn topics(&self) -> Vec<Topic> {
        self.notifiers().by_topic.keys().cloned().collect()
    }

    /// Notifies the subscribers of all topics for which `matches` is true. Returns these topics.
    pub(crate) fn notify(&self, matches: impl Fn(&Topic) -> bool) -> Vec<Topic> {
        let notifiers = self.notifiers();
        let matching = notifiers.by_topic.iter().filter(|(topic, _)| matches(topic));
        let matching = matching.map(|(topic, of_topic)| (topic.clone(), of_topic.values().cloned().collect()));
        let matching: Vec<(Topic, Vec<Notifier>)> = matching.collect();
        drop(notifiers); // No subscriber is called under the lock.
        let notify = |(topic, of_topic): (Topic, Vec<Notifier>)| {
            of_topic.iter().for_each(Notifier::notify);
            topic
        };
        matching.into_iter().map(notify).collect()
    }

    fn notifiers(&self) -> MutexGuard<'_, Notifiers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
