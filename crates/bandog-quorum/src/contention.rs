//! The locks for which this client contends with others: its claims were refused a short time ago.
//!
//! If all contenders ask all nodes at the same time, each of them gets some nodes, and none gets a majority. So the claims
//! of contenders go to one node first, and to the others after its grant. All clients choose the same node. So mostly one
//! client at a time asks the others.
//!
//! This is only an order of requests. A grant still needs a majority, and each grant of a node still counts from the
//! moment before its own request. So clients that choose different nodes, or that know nothing of the contention, can
//! split the nodes, but cannot hold the lock together.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bandog_core::{Claim, Key, Moment};

use crate::node::now;

/// Time after which a refusal or a hand-back is forgotten. It must be longer than the interval between two polls of a
/// waiter.
const RECENT: Duration = Duration::from_secs(2);
/// Time after the last sign of the first node for which it is asked first: a grant, a notification, or the refusal that
/// begins the contention. The first node alone may be held by a client that has died.
const FIRST_FOR: Duration = Duration::from_millis(300);
/// The keys are searched for old ones when there are this many, or twice as many as after the last search.
const MIN_SEARCHED: usize = 1024;

/// The keys whose claims were refused in the last time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contention(Arc<Mutex<Recent>>);

#[derive(Debug, Default)]
struct Recent {
    keys: HashMap<Key, Contended>,
    /// The number of keys at which the old ones are removed.
    searched_at: usize,
    /// The number of subscriptions of this client to each key.
    waits: HashMap<Key, usize>,
}

#[derive(Debug)]
struct Contended {
    /// The time of the last refusal.
    refused: Moment,
    /// The time of the last hand-back. None after a grant.
    handed_back: Option<Moment>,
    /// The position of the node that was asked first by the last claim.
    first: usize,
    /// The last time at which the first node has shown that the lock changes hands there.
    first_seen: Moment,
}

impl Contention {
    /// Records that a claim is refused.
    pub(crate) fn refused(&self, key: &Key) {
        self.lock().contended(key, now());
    }

    /// Records that a claim is refused and handed back to the nodes that had granted it.
    pub(crate) fn handed_back(&self, key: &Key) {
        let now = now();
        self.lock().contended(key, now).handed_back = Some(now);
    }

    /// Records that a claim is granted, and whether the node that is asked first is in the majority. The other clients
    /// may still wait.
    pub(crate) fn granted(&self, key: &Key, by_first: bool) {
        if let Some(contended) = self.lock().keys.get_mut(key) {
            contended.handed_back = None;
            if by_first {
                contended.first_seen = now();
            }
        }
    }

    /// Records that a node has notified a waiter.
    pub(crate) fn notified(&self, key: &Key, node: usize) {
        let mut recent = self.lock();
        if let Some(contended) = recent.keys.get_mut(key).filter(|contended| contended.first == node) {
            contended.first_seen = now();
        }
    }

    /// Whether a claim was handed back a short time ago, and none was granted since.
    pub(crate) fn has_hand_back(&self, key: &Key) -> bool {
        let handed_back = self.lock().keys.get(key).and_then(|contended| contended.handed_back);
        handed_back.is_some_and(|last| is_recent(last, now()))
    }

    /// Records that this client waits for the lock, until the returned value is dropped.
    pub(crate) fn begin_wait(&self, key: &Key) -> Wait {
        *self.lock().waits.entry(key.clone()).or_default() += 1;
        Wait { contention: self.clone(), key: key.clone() }
    }

    /// Whether this client waits for the lock.
    pub(crate) fn waits(&self, key: &Key) -> bool {
        self.lock().waits.contains_key(key)
    }

    /// Whether this claim goes to the node at the position `first` before the others. A waiting writer needs its place at
    /// each node, so its claims always go to all nodes.
    pub(crate) fn asks_first(&self, claim: &Claim, first: usize) -> bool {
        let now = now();
        let mut recent = self.lock();
        let Some(contended) = recent.keys.get_mut(&claim.key) else { return false };
        if std::mem::replace(&mut contended.first, first) != first {
            contended.first_seen = now;
        }
        !claim.joins && is_recent(contended.refused, now) && now < contended.first_seen + FIRST_FOR
    }

    fn lock(&self) -> MutexGuard<'_, Recent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A subscription of this client.
#[derive(Debug)]
pub(crate) struct Wait {
    contention: Contention,
    key: Key,
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut recent = self.contention.lock();
        if let Entry::Occupied(mut waits) = recent.waits.entry(self.key.clone()) {
            *waits.get_mut() -= 1;
            if *waits.get() == 0 {
                waits.remove();
            }
        }
    }
}

impl Recent {
    /// The entry of a key whose claim is refused now.
    fn contended(&mut self, key: &Key, now: Moment) -> &mut Contended {
        if self.keys.len() >= self.searched_at.max(MIN_SEARCHED) {
            self.keys.retain(|_, contended| is_recent(contended.refused, now));
            self.searched_at = 2 * self.keys.len();
        }
        let new = Contended { refused: now, handed_back: None, first: 0, first_seen: now };
        let contended = self.keys.entry(key.clone()).or_insert(new);
        contended.refused = now;
        contended
    }
}

fn is_recent(last: Moment, now: Moment) -> bool {
    now < last + RECENT
}

#[cfg(test)]
mod tests;
