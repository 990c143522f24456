//! Holds of other boots that this process has observed in requests that must not write.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use bandog_core::Key;

use crate::rules::Sighting;

/// Maximum number of sightings. Above it all of them are dropped: these holds are observed again from the start, and
/// count as held for one more ttl.
const MAX_SIGHTINGS: usize = 1024;

/// Sightings that are kept in memory, because a read-only request writes no row.
#[derive(Debug, Default)]
pub(crate) struct Sightings(Mutex<HashMap<Key, Sighting>>);

impl Sightings {
    /// The first sighting of this hold with its present stamp: an earlier one, or `now`, which is then stored.
    pub(crate) fn first(&self, key: &Key, now: Sighting) -> Sighting {
        let mut sightings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = sightings.get(key).filter(|before| before.stamp == now.stamp) {
            return *before;
        }
        if sightings.len() >= MAX_SIGHTINGS {
            sightings.clear();
        }
        sightings.insert(key.clone(), now);
        now
    }

    /// Drops all sightings: in another file, the same stamp may belong to another hold.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
