//! The ring mailbox: bells of all keys end here, each at most once between two rounds.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::AcqRel},
};

use bandog_core::{Key, Notifier};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Notifications(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// No longer than there are notifiers, since each is in it once at most.
    rung: Mutex<Vec<(Key, Arc<AtomicBool>)>>,
    told: Notify,
}

impl Notifications {
    /// A notifier that puts this key into the mailbox.
    pub(super) fn notifier(&self, key: &Key) -> Notifier {
        let (shared, key, stands) = (Arc::clone(&self.0), key.clone(), Arc::new(AtomicBool::new(false)));
        Notifier::new(move || {
            if !stands.swap(true, AcqRel) {
                shared.rung.lock().unwrap_or_else(PoisonError::into_inner).push((key.clone(), Arc::clone(&stands)));
                shared.told.notify_one();
            }
        })
    }

    /// Returns when a subscription has rung.
    pub(super) async fn rung(&self) {
        self.0.told.notified().await;
    }

    /// The keys that have rung.
    pub(super) fn take(&self) -> Vec<Key> {
        let rung = std::mem::take(&mut *self.0.rung.lock().unwrap_or_else(PoisonError::into_inner));
        let heard = |(key, stands): (Key, Arc<AtomicBool>)| {
            stands.store(false, std::sync::atomic::Ordering::Release);
            key
        };
        rung.into_iter().map(heard).collect()
    }
}
