//! Who listens to which key.

use std::collections::{BTreeMap, HashMap};

use crate::{Key, Ringer};

/// The ringers of each key, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    of: HashMap<Key, BTreeMap<u64, Ringer>>,
    last: u64,
}

impl Listeners {
    /// Lets a ringer listen; its number takes it away again.
    pub(super) fn add(&mut self, key: &Key, ringer: Ringer) -> u64 {
        self.last += 1;
        self.of.entry(key.clone()).or_default().insert(self.last, ringer);
        self.last
    }

    pub(super) fn remove(&mut self, key: &Key, number: u64) {
        let Some(ringers) = self.of.get_mut(key) else {
            return;
        };
        ringers.remove(&number);
        if ringers.is_empty() {
            self.of.remove(key);
        }
    }

    /// Rings for a key, and tells whether anybody listened.
    pub(super) fn ring(&self, key: &Key) -> bool {
        let Some(ringers) = self.of.get(key) else {
            return false;
        };
        ringers.values().for_each(Ringer::ring);
        true
    }
}
