//! A subscription whose last owner is its own notifier, as that of a handle that the program has dropped meanwhile.

use std::{
    process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use bandog_core::{Notifier, Subscription};
use tokio::time::sleep;

/// The time, on a machine under load, after which a store is believed to wait for itself.
const HANG: Duration = Duration::from_secs(120);

/// Subscriptions that are dropped by their own notifiers. If a store calls a notifier under a lock that the end of a
/// subscription needs, the thread waits for itself. No timeout ends such a thread, so this type ends the process then.
#[derive(Debug)]
pub(crate) struct EndsItself {
    slot: Slot,
    /// Ends the thread that looks at the time.
    _ended: mpsc::Sender<()>,
}

/// A subscription, and whether it was dropped by its notifier.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot(Arc<(Mutex<Vec<Subscription>>, AtomicBool)>);

impl Slot {
    /// Drops the subscription, if there is one. Notifiers call this.
    pub(crate) fn end(&self) {
        let subscriptions = std::mem::take(&mut *self.0.0.lock().unwrap_or_else(PoisonError::into_inner));
        if !subscriptions.is_empty() {
            drop(subscriptions);
            self.0.1.store(true, SeqCst);
        }
    }

    /// A notifier that drops the subscription.
    pub(crate) fn notifier(&self) -> Notifier {
        let slot = self.clone();
        Notifier::new(move || slot.end())
    }
}

impl EndsItself {
    pub(crate) fn new() -> Self {
        let (_ended, ended) = mpsc::channel::<()>();
        thread::spawn(move || {
            if ended.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
                eprintln!("the store waits for itself: a notifier that drops its subscription has not returned");
                process::abort();
            }
        });
        Self { slot: Slot::default(), _ended }
    }

    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Gives the subscription to its notifier, and makes changes until it has dropped the subscription.
    pub(crate) async fn ends(self, subscription: Subscription, change: impl AsyncFn()) {
        if subscription.is_silent() {
            eprintln!("the store does not notify");
            return;
        }
        let Slot(shared) = &self.slot;
        shared.0.lock().unwrap_or_else(PoisonError::into_inner).extend(Some(subscription));
        while !shared.1.load(SeqCst) {
            change().await;
            sleep(Duration::from_millis(5)).await;
        }
    }
}
