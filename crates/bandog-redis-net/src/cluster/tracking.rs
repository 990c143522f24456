//! Has the changes of keys reported by all masters of a cluster.

use std::sync::{Arc, MutexGuard, PoisonError};

use bandog_core::Subscription;

use super::{
    shared::SharedCluster,
    tracked::{Lost, TrackedPrefixes},
};
use crate::tracking::KeyChanges;

impl SharedCluster {
    fn tracked(&self) -> MutexGuard<'_, TrackedPrefixes> {
        self.tracked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the changes of the keys with this prefix, until the subscription is dropped.
    pub(super) fn track(self: &Arc<Self>, prefix: &str, changes: KeyChanges) -> Subscription {
        let id = self.tracked().add(prefix, changes);
        self.track_masters();
        let cluster = Arc::downgrade(self);
        Subscription::new(move || {
            let removed = cluster.upgrade().and_then(|cluster| cluster.tracked().each.remove(&id));
            drop(removed); // After the lock is free, because this calls the nodes.
        })
    }

    /// Tracks all prefixes on all present masters.
    pub(super) fn track_masters(self: &Arc<Self>) {
        let prefixes: Vec<_> = self.tracked().each.values().cloned().collect();
        if prefixes.is_empty() {
            return;
        }
        let (masters, cluster) = (self.map().masters(), Arc::downgrade(self));
        let lost: Lost = Arc::new(move || {
            if let Some(cluster) = cluster.upgrade() {
                cluster.refresh_soon();
            }
        });
        prefixes.iter().for_each(|tracked| tracked.track(&masters, &lost));
    }
}
