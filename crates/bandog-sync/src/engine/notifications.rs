//! One mailbox for the notifications of all keys. A key that is notified several times before the engine reads the
//! mailbox is in it only once.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::AcqRel},
};

use bandog_core::{Key, Notifier};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct KeyNotifications(Arc<Mailbox>);

#[derive(Debug, Default)]
struct Mailbox {
    /// The notified keys, each with its notifier's flag. Each notifier adds at most one entry, so the list is never
    /// longer than the number of notifiers.
    keys: Mutex<Vec<(Key, Arc<AtomicBool>)>>,
    arrived: Notify,
}

impl KeyNotifications {
    /// A notifier that puts this key into the mailbox, unless it is there already.
    pub(super) fn notifier(&self, key: &Key) -> Notifier {
        let (mailbox, key, is_queued) = (Arc::clone(&self.0), key.clone(), Arc::new(AtomicBool::new(false)));
        Notifier::new(move || {
            if !is_queued.swap(true, AcqRel) {
                mailbox.keys.lock().unwrap_or_else(PoisonError::into_inner).push((key.clone(), Arc::clone(&is_queued)));
                mailbox.arrived.notify_one();
            }
        })
    }

    /// Returns when a notification has arrived.
    pub(super) async fn arrived(&self) {
        self.0.arrived.notified().await;
    }

    /// Takes all notified keys out of the mailbox.
    pub(super) fn take(&self) -> Vec<Key> {
        let keys = std::mem::take(&mut *self.0.keys.lock().unwrap_or_else(PoisonError::into_inner));
        let dequeue = |(key, is_queued): (Key, Arc<AtomicBool>)| {
            is_queued.store(false, std::sync::atomic::Ordering::Release);
            key
        };
        keys.into_iter().map(dequeue).collect()
    }
}
