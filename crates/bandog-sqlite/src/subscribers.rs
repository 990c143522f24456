//! The subscribers of one handle. For each key, there are the notifiers of its subscribers.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bandog_core::{Key, Notifier};

/// The subscribers of one handle: either those of locks or those of records. The watch thread notifies them.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Mutex<Notifiers>);

#[derive(Debug, Default)]
struct Notifiers {
    /// The notifiers of each key, each with its number.
    by_key: HashMap<Key, BTreeMap<u64, Notifier>>,
    /// The number of the notifier that was added last.
    last_number: u64,
}

impl Subscribers {
    /// Adds a notifier for a key. Returns its number, which [`Self::remove`] needs.
    pub(crate) fn add(&self, key: &Key, notifier: Notifier) -> u64 {
        let mut notifiers = self.notifiers();
        notifiers.last_number += 1;
        let number = notifiers.last_number;
        notifiers.by_key.entry(key.clone()).or_default().insert(number, notifier);
        number
    }

    pub(crate) fn remove(&self, key: &Key, number: u64) {
        let mut notifiers = self.notifiers();
        let Some(of_key) = notifiers.by_key.get_mut(key) else {
            return;
        };
        of_key.remove(&number);
        if of_key.is_empty() {
            notifiers.by_key.remove(key);
        }
    }

    /// Whether this key has a subscriber.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.notifiers().by_key.contains_key(key)
    }

    /// The keys that have subscribers.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.notifiers().by_key.keys().cloned().collect()
    }

    /// Notifies the subscribers of all keys for which `matches` is true. Returns these keys.
    pub(crate) fn notify(&self, matches: impl Fn(&Key) -> bool) -> Vec<Key> {
        let notifiers = self.notifiers();
        let matching = notifiers.by_key.iter().filter(|(key, _)| matches(key));
        matching
            .map(|(key, of_key)| {
                of_key.values().for_each(Notifier::notify);
                key.clone()
            })
            .collect()
    }

    fn notifiers(&self) -> MutexGuard<'_, Notifiers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
