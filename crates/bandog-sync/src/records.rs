//! Records through a client: asked where its backend runs, under its prefix.

use async_trait::async_trait;
use bandog_core::{Holding, Key, Line, Notifier, Pattern, Reading, Records, Result, Subscription, Swap, Swaps};

use crate::Client;

/// The records of a client's store. Names are given and listed without the client's prefix; the locks of
/// [`Holding`]s are named as [`crate::Guard::holding`] has them, with it.
///
/// # Cancel safety
/// A swap whose future is dropped may be done all the same.
#[async_trait]
impl Records for Client {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        swaps.iter().try_for_each(Swap::check)?;
        let with_prefix = |swap: &Swap| Ok(Swap { key: self.handle().key(swap.key.as_str())?, ..swap.clone() });
        let swaps: Vec<Swap> = swaps.iter().map(with_prefix).collect::<Result<_>>()?;
        self.look(|backend| Box::pin(async move { backend.swap(&swaps).await })).await
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let keys: Vec<Key> = keys.iter().map(|key| self.handle().key(key.as_str())).collect::<Result<_>>()?;
        let holdings = holdings.to_vec();
        self.look(|backend| Box::pin(async move { backend.read(&keys, &holdings).await })).await
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        let pattern = pattern.after(self.handle().prefix());
        let names = self.look(|backend| Box::pin(async move { backend.names(&pattern).await })).await?;
        names.into_iter().map(|name| Key::new(self.handle().without_prefix(name.to_string()))).collect()
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        let key = self.handle().key(key.as_str())?;
        self.look(|backend| Box::pin(async move { backend.history(&key).await })).await
    }

    /// Answers at once, and rings when the store listens. [`Client::subscribe`] is easier to use.
    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.subscribe_record(key, notifier)
    }
}
