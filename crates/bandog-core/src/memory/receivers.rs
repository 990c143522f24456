//! The receivers of the changes of objects, by name of the object.

use std::collections::BTreeMap;

use crate::Key;

/// Receivers, in the order of their subscriptions.
#[derive(Debug)]
pub(super) struct Receivers<T> {
    each: BTreeMap<(Key, u64), T>,
    last_id: u64,
}

impl<T> Default for Receivers<T> {
    fn default() -> Self {
        Self { each: BTreeMap::new(), last_id: 0 }
    }
}

impl<T> Receivers<T> {
    /// Adds a receiver. Returns its id.
    pub(super) fn add(&mut self, key: &Key, receiver: T) -> (Key, u64) {
        self.last_id += 1;
        let id = (key.clone(), self.last_id);
        self.each.insert(id.clone(), receiver);
        id
    }

    /// Removes a receiver, which the caller drops without the lock.
    pub(super) fn remove(&mut self, id: &(Key, u64)) -> Option<T> {
        self.each.remove(id)
    }

    /// The receivers of this object.
    pub(super) fn of(&self, key: &Key) -> impl Iterator<Item = &T> {
        self.each.range((key.clone(), 0)..=(key.clone(), u64::MAX)).map(|(_, receiver)| receiver)
    }
}
