//! The subscribers of locks or of records.

use std::collections::{BTreeMap, HashMap};

use crate::{Key, Notifier};

/// The notifiers of each key. Within a key, each notifier has the id that [`Subscribers::add`] returned for it.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    notifiers: HashMap<Key, BTreeMap<u64, Notifier>>,
    last_id: u64,
}

impl Subscribers {
    /// Adds a notifier, and returns the id with which [`Subscribers::remove`] removes the notifier.
    pub(super) fn add(&mut self, key: &Key, notifier: Notifier) -> u64 {
        self.last_id += 1;
        self.notifiers.entry(key.clone()).or_default().insert(self.last_id, notifier);
        self.last_id
    }

    /// Removes the notifier with this id. Nothing happens if the key has no such notifier.
    pub(super) fn remove(&mut self, key: &Key, id: u64) {
        let Some(of_key) = self.notifiers.get_mut(key) else {
            return;
        };
        of_key.remove(&id);
        if of_key.is_empty() {
            self.notifiers.remove(key);
        }
    }

    /// Notifies the subscribers of a key. Returns false if the key has no subscriber.
    pub(super) fn notify(&self, key: &Key) -> bool {
        let Some(of_key) = self.notifiers.get(key) else {
            return false;
        };
        of_key.values().for_each(Notifier::notify);
        true
    }
}
