//! One mailbox for the notifications of all slots. If several notifications for a slot arrive before the engine reads
//! the mailbox, the mailbox contains the slot only once.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::AcqRel},
};

use bandog_core::Notifier;
use tokio::sync::Notify;

use super::lane::SlotId;

#[derive(Debug, Default)]
pub(super) struct SlotNotifications(Arc<Mailbox>);

#[derive(Debug, Default)]
struct Mailbox {
    /// The slots for which a notification has arrived, each with a flag of the notifier that has added the slot. While
    /// the flag is set, that notifier does not add the slot again.
    slots: Mutex<Vec<(SlotId, Arc<AtomicBool>)>>,
    /// Wakes the engine after a slot was added.
    arrived: Notify,
}

impl SlotNotifications {
    /// A notifier that puts this slot into the mailbox, unless the slot is there already.
    pub(super) fn notifier(&self, slot: &SlotId) -> Notifier {
        let (mailbox, slot, is_queued) = (Arc::clone(&self.0), slot.clone(), Arc::new(AtomicBool::new(false)));
        Notifier::new(move || {
            if !is_queued.swap(true, AcqRel) {
                let queued = (slot.clone(), Arc::clone(&is_queued));
                mailbox.slots.lock().unwrap_or_else(PoisonError::into_inner).push(queued);
                mailbox.arrived.notify_one();
            }
        })
    }

    /// Returns when a notification has arrived.
    pub(super) async fn arrived(&self) {
        self.0.arrived.notified().await;
    }

    /// Takes all notified slots out of the mailbox.
    pub(super) fn take(&self) -> Vec<SlotId> {
        let slots = std::mem::take(&mut *self.0.slots.lock().unwrap_or_else(PoisonError::into_inner));
        let dequeue = |(slot, is_queued): (SlotId, Arc<AtomicBool>)| {
            is_queued.store(false, std::sync::atomic::Ordering::Release);
            slot
        };
        slots.into_iter().map(dequeue).collect()
    }
}
