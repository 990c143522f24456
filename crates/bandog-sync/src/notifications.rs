//! Notifications about changes of a record.

use bandog_core::{Error, Notifier, Result, Subscription};
use tokio::sync::watch;

/// A subscription to a record. It gets a notification each time the record may have changed. Created by
/// [`ClientRecords::subscribe`](crate::ClientRecords::subscribe). The subscription ends when this value is dropped. This value does
/// not keep the client alive.
#[derive(Debug)]
pub struct Notifications {
    receiver: watch::Receiver<()>,
    _subscription: Subscription,
}

impl Notifications {
    /// Calls `subscribe` with a notifier that wakes [`Notifications::next`].
    pub(crate) fn through(subscribe: impl FnOnce(Notifier) -> Result<Subscription>) -> Result<Self> {
        let (sender, receiver) = watch::channel(());
        let subscription = subscribe(Notifier::new(move || sender.send_replace(())))?;
        Ok(Self { receiver, _subscription: subscription })
    }

    /// Waits for the next notification. Returns immediately if a notification has arrived since the last call. Several
    /// notifications between two calls count as one. If the store does not support notifications, this call never
    /// returns.
    ///
    /// # Errors
    /// `ErrorKind::Closed` if this call can get no more notifications, because the client's engine (the task that sends
    /// the client's requests) has ended. There are three causes: the client was closed with
    /// [`Client::close`](crate::Client::close), the client and all of its locks and guards were dropped, or the Tokio
    /// runtime of the engine was shut down.
    ///
    /// # Cancel safety
    /// If the future is dropped, no notification is lost.
    pub async fn next(&mut self) -> Result<()> {
        self.receiver.changed().await.map_err(|_| Error::closed())
    }
}
