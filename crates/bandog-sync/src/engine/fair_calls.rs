//! The calls of this client for fair mutexes, in the order in which the engine has received them. This is also the order
//! in which it sends their first claims, and so the order of their places in the store's queue.
//!
//! Each of these calls has its own slot and its own place. The store notifies the next claim of its queue, but that takes
//! a round trip. So when a call of this client ends, the next older call claims the key at once: its claim is in the same
//! batch as the release. For the same reason, a call needs no subscription while an older call is before it.
//!
//! If claims of this client directly follow the granted claim in the store's queue, the store says so: these claims are
//! *followers*. Their calls get their turns one after another from the same hold, without a request. Each of them leaves
//! its own slot, and its place in the store's queue is released.
//!
//! A call can be *out of order*: it has lost its place and got a new one, or its first request had no answer. The order
//! of the store is then unknown, so such a call always subscribes, and no other call relies on it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bandog_core::Key;

use super::map::Map;
use crate::{
    lane::{Lane, SlotId},
    terms::{HoldId, Ticket},
};

/// For each key, the calls that wait for the fair mutex or hold it.
#[derive(Default)]
pub(super) struct FairCalls {
    of_keys: Map<Key, CallsOfKey>,
    /// Number of calls that this client has ever received.
    received: u64,
}

#[derive(Default)]
struct CallsOfKey {
    /// The calls by their numbers: the first call that the client received has the number 1.
    calls: BTreeMap<u64, Ticket>,
    numbers: Map<Ticket, u64>,
    /// The numbers of the calls that hold the lock or have their place in the store's queue, behind the older calls that
    /// are in order.
    in_order: BTreeSet<u64>,
    /// The calls that directly follow the last granted claim in the store's queue. The ticket of a call is also the
    /// number of its claim.
    followers: VecDeque<Ticket>,
    /// The last granted claim.
    granted: Ticket,
}

impl FairCalls {
    pub(super) fn insert(&mut self, key: &Key, ticket: Ticket) {
        self.received += 1;
        let of_key = self.of_keys.entry(key.clone()).or_default();
        of_key.numbers.insert(ticket, self.received);
        of_key.calls.insert(self.received, ticket);
    }

    /// Records a grant of the store, with the claims that directly follow in its queue.
    pub(super) fn granted(&mut self, key: &Key, ticket: Ticket, followers: Vec<Ticket>) {
        if let Some(of_key) = self.of_keys.get_mut(key) {
            (of_key.granted, of_key.followers) = (ticket, followers.into());
        }
    }

    /// Takes the next follower of this claim in the store's queue. `None` if it is not the last granted claim.
    pub(super) fn next_follower(&mut self, key: &Key, claim: HoldId) -> Option<Ticket> {
        let of_key = self.of_keys.get_mut(key).filter(|of_key| of_key.granted == claim)?;
        of_key.followers.pop_front()
    }

    /// Whether an older call holds the lock or has a place before this call.
    pub(super) fn has_older(&self, key: &Key, ticket: Ticket) -> bool {
        let Some(of_key) = self.of_keys.get(key) else { return false };
        let number = of_key.numbers.get(&ticket);
        number.zip(of_key.in_order.first()).is_some_and(|(number, first)| first < number)
    }

    /// Records whether a call is in order.
    pub(super) fn set_in_order(&mut self, key: &Key, ticket: Ticket, is_in_order: bool) {
        let Some(of_key) = self.of_keys.get_mut(key) else { return };
        let Some(number) = of_key.numbers.get(&ticket) else { return };
        if is_in_order {
            of_key.in_order.insert(*number);
        } else {
            of_key.in_order.remove(number);
            // If a follower has lost its place, other claims may be before it, and before the followers behind it.
            if let Some(at) = of_key.followers.iter().position(|follower| *follower == ticket) {
                of_key.followers.truncate(at);
            }
        }
    }

    /// Removes a call that no longer waits and does not hold the lock. Returns the oldest call in order that remains, or
    /// the oldest call if none is in order. Returns `None` if the call was removed before.
    pub(super) fn remove(&mut self, key: &Key, ticket: Ticket) -> Option<SlotId> {
        let of_key = self.of_keys.get_mut(key)?;
        let number = of_key.numbers.remove(&ticket)?;
        of_key.calls.remove(&number);
        of_key.in_order.remove(&number);
        let next = of_key.in_order.first().and_then(|number| of_key.calls.get(number));
        let Some(next) = next.or_else(|| of_key.calls.values().next()).copied() else {
            self.of_keys.remove(key);
            return None;
        };
        Some(SlotId { key: key.clone(), lane: Lane::Fair(next) })
    }

    /// Number of the calls for a key that wait or hold it.
    pub(super) fn count(&self, key: &Key) -> usize {
        self.of_keys.get(key).map_or(0, |of_key| of_key.calls.len())
    }

    pub(super) fn oldest(&self, key: &Key) -> Option<Ticket> {
        self.of_keys.get(key)?.calls.values().next().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_that_has_lost_its_place_is_not_served_and_no_follower_behind_it() {
        let (mut calls, key) = (FairCalls::default(), Key::new("key").unwrap());
        for ticket in 1..=4 {
            calls.insert(&key, ticket);
            calls.set_in_order(&key, ticket, true);
        }
        calls.granted(&key, 1, vec![2, 3, 4]);
        calls.set_in_order(&key, 3, false);
        assert_eq!(calls.next_follower(&key, 2), None);
        assert_eq!(calls.next_follower(&key, 1), Some(2));
        assert_eq!(calls.next_follower(&key, 1), None);
    }
}
