//! The wrappers' implementations of `Records`.

use async_trait::async_trait;
use bandog_core::{
    Backend, Holding, Key, Line, Notifier, Pattern, Reading, Records, Result, Subscription, Swap, Swaps,
};

use super::{Capped, Counting, Delayed, Flawed, Forgetful, Lossy, Stopped, Which, WithoutSubscriptions};

/// Implements [`Records`] for a wrapper. The wrapper passes each call to the wrapped backend unchanged.
macro_rules! impl_records {
    ($wrapper:ident) => {
        #[async_trait]
        impl<B: Backend> Records for $wrapper<B> {
            async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
                self.inner().swap(swaps).await
            }

            async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
                self.inner().read(keys, holdings).await
            }

            async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
                self.inner().names(pattern).await
            }

            async fn history(&self, key: &Key) -> Result<Vec<Line>> {
                self.inner().history(key).await
            }

            async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
                self.inner().subscribe_record(key, notifier).await
            }
        }
    };
}

impl_records!(Capped);
impl_records!(Flawed);
impl_records!(Forgetful);

#[async_trait]
impl<B: Backend> Records for Counting<B> {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        self.count_swaps(swaps.len());
        self.inner().swap(swaps).await
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        self.count_read(keys.len());
        self.inner().read(keys, holdings).await
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        self.inner().names(pattern).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.inner().history(key).await
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.count_subscription(self.inner().subscribe_record(key, notifier)).await
    }
}

#[async_trait]
impl<B: Backend> Records for WithoutSubscriptions<B> {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        self.inner().swap(swaps).await
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        self.inner().read(keys, holdings).await
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        self.inner().names(pattern).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.inner().history(key).await
    }

    async fn subscribe_record(&self, key: &Key, _: Notifier) -> Result<Subscription> {
        Err(Self::refused(key))
    }
}

#[async_trait]
impl<B: Backend> Records for Delayed<B> {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        self.slowly(self.inner().swap(swaps)).await
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        self.slowly(self.inner().read(keys, holdings)).await
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        self.slowly(self.inner().names(pattern)).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.slowly(self.inner().history(key)).await
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.slowly(self.inner().subscribe_record(key, notifier)).await
    }
}

#[async_trait]
impl<B: Backend> Records for Lossy<B> {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let sent = swaps.to_vec();
        // A swap can be late, so it uses `send`. The other calls are never late, so they use `ask`. `wire`: a clone of
        // `self`, which a late swap can own.
        let answer = self.send(|wire| async move { wire.inner().swap(&sent).await }).await;
        answer.unwrap_or_else(|error| Err(error.during("swap")))
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        self.ask(self.inner().read(keys, holdings)).await
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        self.ask(self.inner().names(pattern)).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.ask(self.inner().history(key)).await
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.ask(self.inner().subscribe_record(key, notifier)).await
    }
}

#[async_trait]
impl<B: Backend> Records for Stopped<B> {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        self.through(self.inner().swap(swaps)).await
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        self.through(self.inner().read(keys, holdings)).await
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        self.through(self.inner().names(pattern)).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.through(self.inner().history(key)).await
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        // `through` has no gate for subscriptions, because most calls do not subscribe.
        self.gate(Which::Subscriptions).await;
        self.through(self.inner().subscribe_record(key, notifier)).await
    }
}
