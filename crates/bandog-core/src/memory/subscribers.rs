//! The subscribers of locks or of records.

use std::collections::{BTreeMap, HashMap};

use crate::{ClaimId, Key, Notifier, Reports};

/// The subscribers of each key. Within a key, each subscriber has the id that [`Subscribers::add`] returned for it.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    of_keys: HashMap<Key, BTreeMap<u64, Subscriber>>,
    last_id: u64,
}

#[derive(Debug)]
struct Subscriber {
    notifier: Notifier,
    /// The claim in the queue of a fair mutex that the subscriber waits for. None if the subscriber wants every
    /// notification of its key.
    queued: Option<ClaimId>,
}

impl Subscribers {
    /// Adds a subscriber, and returns the id with which [`Subscribers::remove`] removes the subscriber. `queued`: the
    /// claim in the queue of a fair mutex that the subscriber waits for.
    pub(super) fn add(&mut self, key: &Key, queued: Option<ClaimId>, notifier: Notifier) -> u64 {
        self.last_id += 1;
        self.of_keys.entry(key.clone()).or_default().insert(self.last_id, Subscriber { notifier, queued });
        self.last_id
    }

    /// Removes the subscriber with this id, and returns its notifier, which the caller drops without the lock. None if the
    /// key has no such subscriber.
    pub(super) fn remove(&mut self, key: &Key, id: u64) -> Option<Notifier> {
        let of_key = self.of_keys.get_mut(key)?;
        let removed = of_key.remove(&id);
        if of_key.is_empty() {
            self.of_keys.remove(key);
        }
        removed.map(|subscriber| subscriber.notifier)
    }

    /// Notifies the subscribers of a key: those that want every notification, and the subscriber of the claim `next`,
    /// which is the next one in the queue of a fair mutex. Returns false if there is none.
    pub(super) fn notify(&self, key: &Key, next: Option<ClaimId>, reports: &mut Reports) -> bool {
        let Some(of_key) = self.of_keys.get(key) else {
            return false;
        };
        let is_meant = |subscriber: &&Subscriber| subscriber.queued.is_none() || subscriber.queued == next;
        let mut has_notified = false;
        for Subscriber { notifier, .. } in of_key.values().filter(is_meant) {
            let notifier = notifier.clone();
            reports.add(move || notifier.notify());
            has_notified = true;
        }
        has_notified
    }
}
