//! A backend whose holds a test can remove.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Key, Leases, Member, Notifier, Profile, Renewal, Result, Step, Subscription,
    Verdict,
};
use tokio::sync::watch;

/// The time for which this backend may undo a release.
const MAY_UNDO: Duration = Duration::from_secs(10);

/// A backend that forgets a hold when the test calls [`Forgetful::forget`]. For this purpose, it records the claim of
/// each grant. It also reports a new connection when the test calls [`Forgetful::reconnected`].
#[derive(Debug)]
pub struct Forgetful<B>(Arc<ForgetfulShared<B>>);

#[derive(Debug)]
struct ForgetfulShared<B> {
    backend: B,
    /// The claim of the last grant of each key.
    holders: Mutex<HashMap<Key, Claim>>,
    /// The number of connections that the backend has reported.
    epoch: watch::Sender<u64>,
}

impl<B: Backend> Forgetful<B> {
    /// Wraps this backend. The new backend has already reported its first connection.
    pub fn new(backend: B) -> Self {
        Self::connected(backend, 1)
    }

    /// Wraps this backend. The new backend has not reported its first connection yet.
    pub fn unconnected(backend: B) -> Self {
        Self::connected(backend, 0)
    }

    fn connected(backend: B, times: u64) -> Self {
        Self(Arc::new(ForgetfulShared { backend, holders: Mutex::default(), epoch: watch::Sender::new(times) }))
    }

    /// Removes the hold of this key from the store.
    ///
    /// # Errors
    /// If the wrapped backend fails.
    pub async fn forget(&self, key: &Key) -> Result<()> {
        let holder = self.holders(|holders| holders.remove(key));
        let release = holder.map(Step::Release);
        self.inner().apply(release.as_slice()).await.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// Removes the hold of this key, and lets its claim wait behind `other`, which gets the lock. So does a failover to a
    /// server that knows the place of the claim, and not the grant.
    ///
    /// # Errors
    /// If the wrapped backend fails.
    pub async fn forget_grant(&self, other: &Claim) -> Result<()> {
        let Some(holder) = self.holders(|holders| holders.remove(&other.key)) else { return Ok(()) };
        let waits = Step::Claim(Claim { joins: true, ..holder.clone() });
        let steps = [Step::Release(holder), Step::Claim(other.clone()), waits];
        self.inner().apply(&steps).await.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// Reports a new connection.
    pub fn reconnected(&self) {
        self.0.epoch.send_modify(|epoch| *epoch += 1);
    }

    pub(super) fn inner(&self) -> &B {
        &self.0.backend
    }

    fn holders<T>(&self, access: impl FnOnce(&mut HashMap<Key, Claim>) -> T) -> T {
        access(&mut self.0.holders.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn record_grant(&self, step: &Step, answer: &Result<Answer>) {
        let (Step::Claim(claim) | Step::Pass { to: claim, .. }) = step else { return };
        if matches!(answer, Ok(Answer::Claimed(Verdict::Granted { .. }))) {
            self.holders(|holders| holders.insert(claim.key.clone(), claim.clone()));
        }
    }
}

impl<B> Clone for Forgetful<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[async_trait]
impl<B: Backend> Leases for Forgetful<B> {
    async fn ping(&self) -> Result<()> {
        self.inner().ping().await
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let answers = self.inner().apply(steps).await;
        steps.iter().zip(&answers).for_each(|(step, answer)| self.record_grant(step, answer));
        answers
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.inner().renew(claims).await
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.inner().subscribe(claim, notifier).await
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        self.inner().set_limit(key, permits).await
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.inner().register(member, ttl).await
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.inner().deregister(client).await
    }

    fn profile(&self) -> Profile {
        Profile { epoch: self.0.epoch.subscribe(), may_undo: MAY_UNDO, ..self.inner().profile() }
    }
}

super::impl_inspect!(Forgetful);
