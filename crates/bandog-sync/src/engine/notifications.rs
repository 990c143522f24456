//! One mailbox for the notifications of all slots. If several notifications for a slot arrive before the engine reads
//! the mailbox, the mailbox contains the slot only once.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release},
    },
    task::Poll,
};

use bandog_core::Notifier;
use futures_util::task::AtomicWaker;

use crate::lane::SlotId;

#[derive(Debug, Default)]
pub(super) struct SlotNotifications(Arc<Mailbox>);

#[derive(Debug, Default)]
struct Mailbox {
    /// The slots for which a notification has arrived, each with a flag of the notifier that has added the slot. While
    /// the flag is set, that notifier does not add the slot again.
    slots: Mutex<Vec<Notified>>,
    /// Wakes the engine after a slot was added. The engine sleeps in each round, and this registers its waker without
    /// the list of waiters that a `Notify` has.
    arrived: AtomicWaker,
}

type Notified = (SlotId, Arc<AtomicBool>);

impl Mailbox {
    fn slots(&self) -> MutexGuard<'_, Vec<Notified>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotNotifications {
    /// A notifier that puts this slot into the mailbox, unless the slot is there already.
    pub(super) fn notifier(&self, slot: &SlotId) -> Notifier {
        let (mailbox, slot, is_queued) = (Arc::clone(&self.0), slot.clone(), Arc::new(AtomicBool::new(false)));
        Notifier::new(move || {
            if !is_queued.swap(true, AcqRel) {
                let queued = (slot.clone(), Arc::clone(&is_queued));
                mailbox.slots().push(queued);
                mailbox.arrived.wake();
            }
        })
    }

    /// Returns when the mailbox has a slot.
    pub(super) async fn arrived(&self) {
        poll_fn(|context| {
            // The waker is registered before the mailbox is read, so that no notification is missed.
            self.0.arrived.register(context.waker());
            if self.0.slots().is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// Takes all notified slots out of the mailbox.
    pub(super) fn take(&self) -> Vec<SlotId> {
        let slots = std::mem::take(&mut *self.0.slots());
        let dequeue = |(slot, is_queued): Notified| {
            is_queued.store(false, Release);
            slot
        };
        slots.into_iter().map(dequeue).collect()
    }
}
