//! Sightings in memory. A sighting is the time at which a hold of another boot was first observed.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use bandog_core::Key;

use crate::rules::Sighting;

/// Maximum number of sightings. When this number is reached, all sightings are dropped. Then the observation of these
/// holds starts again, and each hold counts as held for one more ttl.
const MAX_SIGHTINGS: usize = 1024;

/// The sightings of read-only requests. They are kept in memory, because a read-only request writes no row.
#[derive(Debug, Default)]
pub(crate) struct Sightings(Mutex<HashMap<Key, Sighting>>);

impl Sightings {
    /// Returns the first sighting of this hold with its present stamp. `now` is the present sighting. If no earlier
    /// sighting is stored, `now` is stored and returned.
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

    /// Drops all sightings. This is called when the database is opened again, because it may be another file then. In
    /// another file, the same stamp may belong to another hold.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
