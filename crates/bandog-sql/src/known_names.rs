//! The names whose rows exist.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bandog_core::Key;

/// The names whose rows exist, as far as this process knows. A name that is wrongly in this set costs one more round trip.
#[derive(Debug, Default)]
pub(crate) struct KnownNames(Mutex<HashSet<Key>>);

impl KnownNames {
    /// Maximum number of names. When there are more, the set starts anew.
    const MAX: usize = 10_000;

    pub(crate) fn unknown<'k>(&self, keys: impl Iterator<Item = &'k Key>) -> BTreeSet<Key> {
        let known = self.names();
        keys.filter(|key| !known.contains(*key)).cloned().collect()
    }

    pub(crate) fn add(&self, keys: BTreeSet<Key>) {
        let mut known = self.names();
        if known.len() + keys.len() > Self::MAX {
            known.clear();
        }
        known.extend(keys);
    }

    fn names(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
