//! The rings of a record, one after the other.

use bandog_core::{Error, Notifier, Result, Subscription};
use tokio::sync::watch;

/// Tells when a record may have changed. Made by [`Client::subscribe`](crate::Client::subscribe); it listens until it is
/// dropped, and does not keep the client alive.
#[derive(Debug)]
pub struct Notifications {
    rung: watch::Receiver<()>,
    _subscription: Subscription,
}

impl Notifications {
    /// A notifier, and where it is heard once `subscription` is there.
    pub(crate) fn through(listen: impl FnOnce(Notifier) -> Result<Subscription>) -> Result<Self> {
        let (ring, rung) = watch::channel(());
        let subscription = listen(Notifier::new(move || ring.send_replace(())))?;
        Ok(Self { rung, _subscription: subscription })
    }

    /// Returns when it has rung since the last time. Notifications that came meanwhile are one. Over a store that cannot ring
    /// it never returns.
    ///
    /// # Errors
    /// `Closed` when the client has ended.
    ///
    /// # Cancel safety
    /// A ring is not lost when the future is dropped.
    pub async fn next(&mut self) -> Result<()> {
        self.rung.changed().await.map_err(|_| Error::closed())
    }
}
