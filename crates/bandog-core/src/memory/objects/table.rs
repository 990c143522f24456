//! All objects, by name.

use std::collections::{BTreeMap, BTreeSet};

use super::{cache::Cache, object::Object};
use crate::{Key, Moment, structures::EntryEvent};

/// All objects. Expired objects are removed before each operation.
#[derive(Debug, Default)]
pub(in super::super) struct Objects {
    pub(super) of_keys: BTreeMap<Key, Object>,
    /// The times at which objects expire.
    expiries: BTreeSet<(Moment, Key)>,
    pub(super) caches: BTreeMap<Key, Cache>,
    /// The last id of a taken element.
    pub(super) last_id: u64,
    /// The events of the present operation on a timed map.
    pub(super) events: Vec<EntryEvent>,
}

impl Objects {
    /// Removes the objects that have expired.
    pub(in super::super) fn expire(&mut self, now: Moment) {
        while let Some((at, _)) = self.expiries.first()
            && *at <= now
        {
            if let Some((_, key)) = self.expiries.pop_first() {
                self.of_keys.remove(&key);
            }
        }
    }

    /// The events of the last operation on a timed map.
    pub(in super::super) fn take_events(&mut self) -> Vec<EntryEvent> {
        std::mem::take(&mut self.events)
    }

    /// The number of elements of an object that can be taken.
    pub(super) fn ready(&self, key: &Key) -> u64 {
        self.of_keys.get(key).map_or(0, Object::ready)
    }

    /// The object with this name, while it is changed by `change`.
    pub(super) fn with<T>(&mut self, key: &Key, change: impl FnOnce(&mut Object) -> T) -> T {
        let object = self.of_keys.entry(key.clone()).or_default();
        let expires = object.expires;
        let result = change(object);
        self.settle(key, expires);
        result
    }

    /// Removes an object that does not exist after an operation, and keeps the list of expiries true.
    pub(super) fn settle(&mut self, key: &Key, before: Option<Moment>) {
        let Some(object) = self.of_keys.get_mut(key) else { return };
        let exists = object.exists();
        let after = object.expires.filter(|_| exists);
        if !exists && object.content.is_none() && !object.taken.has_answers() {
            self.of_keys.remove(key);
        }
        if before != after {
            before.map(|at| self.expiries.remove(&(at, key.clone())));
            after.map(|at| self.expiries.insert((at, key.clone())));
        }
    }

    /// Writes the time at which an object expires. Returns whether the object exists.
    pub(super) fn set_expiry(&mut self, key: &Key, at: Option<Moment>) -> bool {
        let exists = self.of_keys.get(key).is_some_and(Object::exists);
        if exists {
            self.with(key, |object| object.expires = at);
        }
        exists
    }
}
