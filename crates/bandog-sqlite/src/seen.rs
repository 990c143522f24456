//! What this process saw of holdings of other boots, when it was only asked whether they stand.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use bandog_core::Key;

use crate::rules::Sighting;

/// With more, all are forgotten: they are watched anew then, and stand for one ttl more.
const MOST: usize = 1024;

/// Sightings that are not written down, because a look writes nothing.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<HashMap<Key, Sighting>>);

impl Seen {
    /// Since when this hold was seen as it is now.
    pub(crate) fn see(&self, key: &Key, now: Sighting) -> Sighting {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = seen.get(key).filter(|before| before.stamp == now.stamp) {
            return *before;
        }
        if seen.len() >= MOST {
            seen.clear();
        }
        seen.insert(key.clone(), now);
        now
    }

    /// Forgets all: the same stamps may mean something else in another file.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
