//! The wrappers' implementations of `Latches`.

use async_trait::async_trait;
use bandog_core::{
    Backend, Key, LatchAnswer, LatchOperation, LatchRow, Latches, Notifier, Pattern, Result, Subscription,
};

use super::{Capped, Counting, Delayed, Flawed, Forgetful, Lossy, Stopped, Which, WithoutSubscriptions};

/// Implements [`Latches`] for a wrapper that passes each call to the backend inside it.
macro_rules! impl_latches {
    ($wrapper:ident) => {
        #[async_trait]
        impl<B: Backend> Latches for $wrapper<B> {
            async fn change_latch(&self, operation: &LatchOperation) -> Result<Option<LatchAnswer>> {
                self.inner().change_latch(operation).await
            }

            async fn clear_latches(&self) -> Result<()> {
                self.inner().clear_latches().await
            }

            async fn latch_count(&self, key: &Key) -> Result<u64> {
                self.inner().latch_count(key).await
            }

            async fn list_latches(&self, pattern: &Pattern) -> Result<Vec<LatchRow>> {
                self.inner().list_latches(pattern).await
            }

            async fn subscribe_latch(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
                self.inner().subscribe_latch(key, notifier).await
            }
        }
    };
}

impl_latches!(Capped);
impl_latches!(Flawed);
impl_latches!(Forgetful);

#[async_trait]
impl<B: Backend> Latches for Counting<B> {
    async fn change_latch(&self, operation: &LatchOperation) -> Result<Option<LatchAnswer>> {
        self.inner().change_latch(operation).await
    }

    async fn clear_latches(&self) -> Result<()> {
        self.inner().clear_latches().await
    }

    async fn latch_count(&self, key: &Key) -> Result<u64> {
        self.count_read(1);
        self.inner().latch_count(key).await
    }

    async fn list_latches(&self, pattern: &Pattern) -> Result<Vec<LatchRow>> {
        self.inner().list_latches(pattern).await
    }

    async fn subscribe_latch(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.count_subscription(self.inner().subscribe_latch(key, notifier)).await
    }
}

#[async_trait]
impl<B: Backend> Latches for WithoutSubscriptions<B> {
    async fn change_latch(&self, operation: &LatchOperation) -> Result<Option<LatchAnswer>> {
        self.inner().change_latch(operation).await
    }

    async fn clear_latches(&self) -> Result<()> {
        self.inner().clear_latches().await
    }

    async fn latch_count(&self, key: &Key) -> Result<u64> {
        self.inner().latch_count(key).await
    }

    async fn list_latches(&self, pattern: &Pattern) -> Result<Vec<LatchRow>> {
        self.inner().list_latches(pattern).await
    }

    async fn subscribe_latch(&self, key: &Key, _: Notifier) -> Result<Subscription> {
        Err(Self::refused(key))
    }
}

#[async_trait]
impl<B: Backend> Latches for Delayed<B> {
    async fn change_latch(&self, operation: &LatchOperation) -> Result<Option<LatchAnswer>> {
        self.slowly(self.inner().change_latch(operation)).await
    }

    async fn clear_latches(&self) -> Result<()> {
        self.slowly(self.inner().clear_latches()).await
    }

    async fn latch_count(&self, key: &Key) -> Result<u64> {
        self.slowly(self.inner().latch_count(key)).await
    }

    async fn list_latches(&self, pattern: &Pattern) -> Result<Vec<LatchRow>> {
        self.slowly(self.inner().list_latches(pattern)).await
    }

    async fn subscribe_latch(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.slowly(self.inner().subscribe_latch(key, notifier)).await
    }
}

#[async_trait]
impl<B: Backend> Latches for Lossy<B> {
    async fn change_latch(&self, operation: &LatchOperation) -> Result<Option<LatchAnswer>> {
        if self.is_overtaken() {
            return Ok(None);
        }
        let sent = operation.clone();
        let answer = self.send(|wire| async move { wire.inner().change_latch(&sent).await }).await;
        answer.unwrap_or_else(|error| Err(error.during(operation.action.verb()).at(&operation.key)))
    }

    async fn clear_latches(&self) -> Result<()> {
        self.ask(self.inner().clear_latches()).await
    }

    async fn latch_count(&self, key: &Key) -> Result<u64> {
        self.ask(self.inner().latch_count(key)).await
    }

    async fn list_latches(&self, pattern: &Pattern) -> Result<Vec<LatchRow>> {
        self.ask(self.inner().list_latches(pattern)).await
    }

    async fn subscribe_latch(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.ask(self.inner().subscribe_latch(key, notifier)).await
    }
}

#[async_trait]
impl<B: Backend> Latches for Stopped<B> {
    async fn change_latch(&self, operation: &LatchOperation) -> Result<Option<LatchAnswer>> {
        self.through(self.inner().change_latch(operation)).await
    }

    async fn clear_latches(&self) -> Result<()> {
        self.gate(Which::Deletions).await;
        self.through(self.inner().clear_latches()).await
    }

    async fn latch_count(&self, key: &Key) -> Result<u64> {
        self.through(self.inner().latch_count(key)).await
    }

    async fn list_latches(&self, pattern: &Pattern) -> Result<Vec<LatchRow>> {
        self.through(self.inner().list_latches(pattern)).await
    }

    async fn subscribe_latch(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.gate(Which::Subscriptions).await;
        self.through(self.inner().subscribe_latch(key, notifier)).await
    }
}
