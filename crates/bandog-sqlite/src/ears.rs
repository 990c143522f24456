//! Who of this process listens for which key.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bandog_core::{Key, Ringer};

/// The ringers of one handle, for locks or for records. Whoever hears the bell file rings them.
#[derive(Debug, Default)]
pub(crate) struct Ears(Mutex<Ringers>);

#[derive(Debug, Default)]
struct Ringers {
    of: HashMap<Key, BTreeMap<u64, Ringer>>,
    number: u64,
}

impl Ears {
    /// Lets a ringer listen for a key; the number takes it away again.
    pub(crate) fn add(&self, key: &Key, ringer: Ringer) -> u64 {
        let mut ringers = self.ringers();
        ringers.number += 1;
        let number = ringers.number;
        ringers.of.entry(key.clone()).or_default().insert(number, ringer);
        number
    }

    /// Takes a ringer away.
    pub(crate) fn remove(&self, key: &Key, number: u64) {
        let mut ringers = self.ringers();
        let Some(of_key) = ringers.of.get_mut(key) else {
            return;
        };
        of_key.remove(&number);
        if of_key.is_empty() {
            ringers.of.remove(key);
        }
    }

    /// Whether anybody listens for the key.
    pub(crate) fn hear(&self, key: &Key) -> bool {
        self.ringers().of.contains_key(key)
    }

    /// The keys for which anybody listens.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.ringers().of.keys().cloned().collect()
    }

    /// Rings for the keys that `which` picks, and tells them.
    pub(crate) fn ring(&self, which: impl Fn(&Key) -> bool) -> Vec<Key> {
        let ringers = self.ringers();
        let rung = ringers.of.iter().filter(|(key, _)| which(key));
        rung.map(|(key, of_key)| {
            of_key.values().for_each(Ringer::ring);
            key.clone()
        })
        .collect()
    }

    fn ringers(&self) -> MutexGuard<'_, Ringers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
