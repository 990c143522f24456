//! A backend behind a slow connection.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Key, Leases, Member, Notifier, Profile, Renewal, Result, Step, Subscription,
};
use tokio::time;

/// A backend whose calls are delayed by random durations, before and after the store applies them.
///
/// The store applies the calls in the order in which they were first polled, as the trait `Leases` requires. The
/// answers come in any order. The same seed gives the same delays.
#[derive(Debug)]
pub struct Delayed<B>(Arc<DelayedShared<B>>);

#[derive(Debug)]
struct DelayedShared<B> {
    backend: B,
    before: Duration,
    after: Duration,
    random: Mutex<fastrand::Rng>,
    /// The call that is being sent to the store holds this mutex. The mutex is fair, so calls keep their order.
    sending: tokio::sync::Mutex<()>,
}

impl<B: Backend> Delayed<B> {
    /// Makes this backend slow. Each call is sent after a delay of up to `before`, and later calls wait during this
    /// delay. Each answer is delayed by up to `after`.
    pub fn new(backend: B, seed: u64, before: Duration, after: Duration) -> Self {
        let random = Mutex::new(fastrand::Rng::with_seed(seed));
        Self(Arc::new(DelayedShared { backend, before, after, random, sending: tokio::sync::Mutex::default() }))
    }

    pub(super) fn inner(&self) -> &B {
        &self.0.backend
    }

    /// Makes a call with random delays before and after it.
    pub(super) async fn slowly<T>(&self, call: impl Future<Output = T>) -> T {
        let (before, after) = self.delays();
        let sending = self.0.sending.lock().await;
        pause(before).await;
        let answer = call.await;
        drop(sending);
        pause(after).await;
        answer
    }

    fn delays(&self) -> (Duration, Duration) {
        let mut random = self.0.random.lock().unwrap_or_else(PoisonError::into_inner);
        (self.0.before.mul_f64(random.f64()), self.0.after.mul_f64(random.f64()))
    }
}

async fn pause(delay: Duration) {
    if !delay.is_zero() {
        time::sleep(delay).await;
    }
}

impl<B> Clone for Delayed<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[async_trait]
impl<B: Backend> Leases for Delayed<B> {
    async fn ping(&self) -> Result<()> {
        self.slowly(self.inner().ping()).await
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        self.slowly(self.inner().apply(steps)).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.slowly(self.inner().renew(claims)).await
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.slowly(self.inner().subscribe(claim, notifier)).await
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        self.slowly(self.inner().set_limit(key, permits)).await
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.slowly(self.inner().register(member, ttl)).await
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.slowly(self.inner().deregister(client)).await
    }

    fn profile(&self) -> Profile {
        self.inner().profile()
    }
}

super::impl_inspect!(Delayed);
