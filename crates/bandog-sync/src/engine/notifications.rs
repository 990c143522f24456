//! One mailbox for the notifications of all keys. If several notifications for a key arrive before the engine reads the
//! mailbox, the mailbox contains the key only once.

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
    /// The keys for which a notification has arrived, each with a flag of the notifier that has added the key. While
    /// the flag is set, that notifier does not add the key again.
    keys: Mutex<Vec<(Key, Arc<AtomicBool>)>>,
    /// Wakes the engine after a key was added.
    arrived: Notify,
}

impl KeyNotifications {
    /// A notifier that puts this key into the mailbox, unless the key is there already.
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
