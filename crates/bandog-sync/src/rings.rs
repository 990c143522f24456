//! The rings of a record, one after the other.

use bandog_core::{Bell, Error, Result, Ringer};
use tokio::sync::watch;

/// Tells when a record may have changed. Made by [`Client::rings`](crate::Client::rings); it listens until it is
/// dropped, and does not keep the client alive.
#[derive(Debug)]
pub struct Rings {
    rung: watch::Receiver<()>,
    _bell: Bell,
}

impl Rings {
    /// A ringer, and where it is heard once `bell` is there.
    pub(crate) fn through(listen: impl FnOnce(Ringer) -> Result<Bell>) -> Result<Self> {
        let (ring, rung) = watch::channel(());
        let bell = listen(Ringer::new(move || ring.send_replace(())))?;
        Ok(Self { rung, _bell: bell })
    }

    /// Returns when it has rung since the last time. Rings that came meanwhile are one. Over a store that cannot ring
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
