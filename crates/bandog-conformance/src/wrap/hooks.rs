//! The points at which a wrapper changes the calls of its backend.

use std::{fmt::Debug, num::NonZeroU32, time::Duration};

use bandog_core::{
    Answer, Backend, Claim, IfUnused, Key, Notifier, Profile, Renewal, Result, Row, Step, Subscription, Usage,
};

/// The sort of a call, as far as a wrapper treats calls differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Checks that the store answers.
    Ping,
    /// Applies steps.
    Steps,
    /// Renews claims.
    Renewals,
    /// Subscribes to a lock.
    LockSubscription,
    /// Subscribes to a record or a latch.
    RecordSubscription,
    /// Writes a client's row to the registry.
    Registration,
    /// Removes a client's row from the registry.
    Deregistration,
    /// Makes this number of swaps.
    Swaps(usize),
    /// Reads this number of records.
    Reads(usize),
    /// Deletes the records of open latches.
    Deletion,
    /// Applies operations on objects of the grid.
    Objects,
    /// Every other call.
    Other,
}

/// The hooks of a [`super::Wrapped`] backend. The default of each hook passes its call on unchanged.
///
/// The hooks `around` and `around_change` decide when a call is made, and whether it is made. The other hooks change
/// the request of a call that is made, or its answer.
pub trait Hooks: Debug + Send + Sync + 'static {
    /// Makes a call. The caller gets an error of this hook in place of the answer. The calls of `Inspect` do not have
    /// this hook.
    fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = T> + Send,
    ) -> impl Future<Output = Result<T>> + Send {
        let _ = call;
        async { Ok(answer.await) }
    }

    /// As [`Hooks::around`], for a call that changes data of clients. Its future owns its data, so the call can be made
    /// after the caller got an error.
    fn around_change<T: Send + 'static>(
        &self,
        call: Call,
        answer: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send {
        self.around(call, answer)
    }

    /// Applies the steps.
    fn apply<B: Backend>(&self, inner: &B, steps: &[Step]) -> impl Future<Output = Vec<Result<Answer>>> + Send {
        async move { inner.apply(steps).await }
    }

    /// Renews the claims.
    fn renew<B: Backend>(&self, inner: &B, claims: &[Claim]) -> impl Future<Output = Vec<Result<Renewal>>> + Send {
        async move { inner.renew(claims).await }
    }

    /// Subscribes to a lock.
    fn subscribe<B: Backend>(
        &self,
        inner: &B,
        claim: &Claim,
        notifier: Notifier,
    ) -> impl Future<Output = Result<Subscription>> + Send {
        async move { inner.subscribe(claim, notifier).await }
    }

    /// The subscription that the caller gets, to a lock, a record or a latch.
    fn subscription(&self, subscription: Subscription) -> Subscription {
        subscription
    }

    /// Changes the number of permits of a semaphore.
    fn set_limit<B: Backend>(
        &self,
        inner: &B,
        key: &Key,
        permits: NonZeroU32,
    ) -> impl Future<Output = Result<Option<u32>>> + Send {
        async move { inner.set_limit(key, permits).await }
    }

    /// The profile that the caller gets.
    fn profile(&self, profile: Profile) -> Profile {
        profile
    }

    /// Whether another operation comes before this operation on a latch, which then changes nothing.
    fn is_overtaken(&self) -> bool {
        false
    }

    /// The row of a lock that the caller gets.
    fn row(&self, row: Row) -> Row {
        row
    }

    /// Evicts the holder of a lock.
    fn evict<B: Backend>(&self, inner: &B, key: &Key) -> impl Future<Output = Result<Option<Row>>> + Send {
        async move { inner.evict(key).await }
    }

    /// Deletes a name.
    fn forget<B: Backend>(&self, inner: &B, key: &Key) -> impl Future<Output = Result<bool>> + Send {
        async move { inner.forget(key).await }
    }

    /// Checks which names are unused.
    fn usage<B: Backend>(
        &self,
        inner: &B,
        keys: &[Key],
        unused_for: Duration,
        then: IfUnused,
    ) -> impl Future<Output = Result<Vec<Usage>>> + Send {
        async move { inner.usage(keys, unused_for, then).await }
    }
}
