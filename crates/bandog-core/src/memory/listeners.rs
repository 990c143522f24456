//! Who listens to which key.

use std::collections::{BTreeMap, HashMap};

use crate::{Key, Notifier};

/// The notifiers of each key, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    of: HashMap<Key, BTreeMap<u64, Notifier>>,
    last: u64,
}

impl Listeners {
    /// Lets a notifier listen; its number takes it away again.
    pub(super) fn add(&mut self, key: &Key, notifier: Notifier) -> u64 {
        self.last += 1;
        self.of.entry(key.clone()).or_default().insert(self.last, notifier);
        self.last
    }

    pub(super) fn remove(&mut self, key: &Key, number: u64) {
        let Some(notifiers) = self.of.get_mut(key) else {
            return;
        };
        notifiers.remove(&number);
        if notifiers.is_empty() {
            self.of.remove(key);
        }
    }

    /// Notifications for a key, and tells whether anybody listened.
    pub(super) fn ring(&self, key: &Key) -> bool {
        let Some(notifiers) = self.of.get(key) else {
            return false;
        };
        notifiers.values().for_each(Notifier::notify);
        true
    }
}
