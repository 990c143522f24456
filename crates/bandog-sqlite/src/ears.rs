//! Who of this process listens for which key.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bandog_core::{Key, Notifier};

/// The notifiers of one handle, for locks or for records. Whoever hears the bell file rings them.
#[derive(Debug, Default)]
pub(crate) struct Ears(Mutex<Notifiers>);

#[derive(Debug, Default)]
struct Notifiers {
    of: HashMap<Key, BTreeMap<u64, Notifier>>,
    number: u64,
}

impl Ears {
    /// Lets a notifier listen for a key; the number takes it away again.
    pub(crate) fn add(&self, key: &Key, notifier: Notifier) -> u64 {
        let mut notifiers = self.notifiers();
        notifiers.number += 1;
        let number = notifiers.number;
        notifiers.of.entry(key.clone()).or_default().insert(number, notifier);
        number
    }

    /// Takes a notifier away.
    pub(crate) fn remove(&self, key: &Key, number: u64) {
        let mut notifiers = self.notifiers();
        let Some(of_key) = notifiers.of.get_mut(key) else {
            return;
        };
        of_key.remove(&number);
        if of_key.is_empty() {
            notifiers.of.remove(key);
        }
    }

    /// Whether anybody listens for the key.
    pub(crate) fn hear(&self, key: &Key) -> bool {
        self.notifiers().of.contains_key(key)
    }

    /// The keys for which anybody listens.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.notifiers().of.keys().cloned().collect()
    }

    /// Notifications for the keys that `which` picks, and tells them.
    pub(crate) fn ring(&self, which: impl Fn(&Key) -> bool) -> Vec<Key> {
        let notifiers = self.notifiers();
        let rung = notifiers.of.iter().filter(|(key, _)| which(key));
        rung.map(|(key, of_key)| {
            of_key.values().for_each(Notifier::notify);
            key.clone()
        })
        .collect()
    }

    fn notifiers(&self) -> MutexGuard<'_, Notifiers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
