//! When a waiting client claims again after a claim that some nodes have granted, without a majority.
//!
//! Such a claim is handed back, and each node that releases it notifies all waiters of the lock, also the client itself.
//! So a hand-back must not wake a waiter by itself. Otherwise a client would claim without pauses while another claim holds
//! the lock at a majority, and one node is free.

use std::sync::{Arc, Mutex, PoisonError};

use bandog_core::{Key, Notifier};

use crate::contention::Contention;

/// The notifications of one waiter.
///
/// A notification wakes the waiter at once, unless a claim of this client was handed back a short time ago. Then the
/// waiter is woken when a majority of the nodes has notified. While a majority holds the lock, hand-backs never come from
/// a majority. The release of a hold does, if the waiter is subscribed at the nodes that had it. Otherwise the next poll of
/// the client finds the lock free, at most a second later.
pub(crate) struct WakeUps {
    key: Key,
    contention: Contention,
    notifier: Notifier,
    majority: usize,
    /// The nodes that have notified since the waiter was last woken by a majority.
    notified: Mutex<Vec<bool>>,
}

impl WakeUps {
    pub(crate) fn new(
        key: &Key,
        contention: &Contention,
        notifier: Notifier,
        nodes: usize,
        majority: usize,
    ) -> Arc<Self> {
        let (key, contention, notified) = (key.clone(), contention.clone(), Mutex::new(vec![false; nodes]));
        Arc::new(Self { key, contention, notifier, majority, notified })
    }

    /// The notifier for the node at this position.
    pub(crate) fn of_node(self: &Arc<Self>, node: usize) -> Notifier {
        let wake_ups = Arc::clone(self);
        Notifier::new(move || wake_ups.notified(node))
    }

    fn notified(&self, node: usize) {
        self.contention.notified(&self.key, node);
        let mut notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        notified[node] = true;
        let is_majority = notified.iter().filter(|notified| **notified).count() >= self.majority;
        if is_majority {
            notified.fill(false);
        }
        drop(notified);
        if is_majority || !self.contention.has_hand_back(&self.key) {
            self.notifier.notify();
        }
    }
}

#[cfg(test)]
mod tests;
