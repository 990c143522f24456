//! Notifications of a record, one after the other.

use bandog_core::{Error, Notifier, Result, Subscription};
use tokio::sync::watch;

/// Notifications that a record may have changed. Made by [`Client::subscribe`](crate::Client::subscribe). The
/// subscription lasts until this is dropped, and does not keep the client alive.
#[derive(Debug)]
pub struct Notifications {
    receiver: watch::Receiver<()>,
    _subscription: Subscription,
}

impl Notifications {
    /// Subscribes with a notifier that wakes [`Notifications::next`].
    pub(crate) fn through(subscribe: impl FnOnce(Notifier) -> Result<Subscription>) -> Result<Self> {
        let (sender, receiver) = watch::channel(());
        let subscription = subscribe(Notifier::new(move || sender.send_replace(())))?;
        Ok(Self { receiver, _subscription: subscription })
    }

    /// Returns when a notification has come since the last call. Several notifications in between count as one. Over a
    /// store without notifications it never returns.
    ///
    /// # Errors
    /// `Closed` when the client has ended.
    ///
    /// # Cancel safety
    /// No notification is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<()> {
        self.receiver.changed().await.map_err(|_| Error::closed())
    }
}
