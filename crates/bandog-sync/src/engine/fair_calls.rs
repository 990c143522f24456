//! The calls of this client for fair mutexes, in the order of their arrival.
//!
//! Each of these calls has its own slot and its own place in the store's queue. The store notifies the next claim of its
//! queue, but that takes a round trip. So when a call of this client ends, the next older call claims the key at once:
//! its claim is in the same batch as the release.

use std::collections::BTreeSet;

use bandog_core::Key;

use super::{
    Map,
    lane::{Lane, SlotId},
    msg::Ticket,
};

/// For each key, the calls that wait for the fair mutex or hold it.
#[derive(Default)]
pub(super) struct FairCalls(Map<Key, BTreeSet<Ticket>>);

impl FairCalls {
    pub(super) fn insert(&mut self, key: &Key, ticket: Ticket) {
        self.0.entry(key.clone()).or_default().insert(ticket);
    }

    /// Removes a call that no longer waits and does not hold the lock. Returns the oldest call that remains. Returns
    /// `None` if the call was removed before.
    pub(super) fn remove(&mut self, key: &Key, ticket: Ticket) -> Option<SlotId> {
        let calls = self.0.get_mut(key)?;
        if !calls.remove(&ticket) {
            return None;
        }
        let Some(oldest) = calls.first().copied() else {
            self.0.remove(key);
            return None;
        };
        Some(SlotId { key: key.clone(), lane: Lane::Fair(oldest) })
    }

    /// Number of the calls for a key that wait or hold it.
    pub(super) fn count(&self, key: &Key) -> usize {
        self.0.get(key).map_or(0, BTreeSet::len)
    }

    pub(super) fn oldest(&self, key: &Key) -> Option<Ticket> {
        self.0.get(key)?.first().copied()
    }

    /// The calls for a key, the oldest first.
    pub(super) fn of_key(&self, key: &Key) -> Vec<Ticket> {
        self.0.get(key).into_iter().flatten().copied().collect()
    }
}
