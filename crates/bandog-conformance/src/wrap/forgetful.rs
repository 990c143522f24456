//! A backend that can be made to forget.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Key, Leases, Member, Notifier, Profile, Renewal, Result, Step, Subscription,
    Verdict,
};
use tokio::sync::watch;

/// A backend that remembers who was granted what, so that a test can take it away, and that can claim to have
/// reconnected.
#[derive(Debug)]
pub struct Forgetful<B>(Arc<Inner<B>>);

#[derive(Debug)]
struct Inner<B> {
    backend: B,
    holders: Mutex<HashMap<Key, Claim>>,
    epoch: watch::Sender<u64>,
}

impl<B: Backend> Forgetful<B> {
    /// A connected backend that forgets nothing until it is told to.
    pub fn new(backend: B) -> Self {
        Self::connected(backend, 1)
    }

    /// The same, which has not told of its first connection yet.
    pub fn unconnected(backend: B) -> Self {
        Self::connected(backend, 0)
    }

    fn connected(backend: B, times: u64) -> Self {
        Self(Arc::new(Inner { backend, holders: Mutex::default(), epoch: watch::Sender::new(times) }))
    }

    /// Takes this key's hold away.
    ///
    /// # Errors
    /// What the backend says.
    pub async fn forget(&self, key: &Key) -> Result<()> {
        let holder = self.holders(|holders| holders.remove(key));
        let release = holder.map(Step::Release);
        self.inner().apply(release.as_slice()).await.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// Tells everybody that there is a new connection.
    pub fn reconnected(&self) {
        self.0.epoch.send_modify(|epoch| *epoch += 1);
    }

    pub(super) fn inner(&self) -> &B {
        &self.0.backend
    }

    fn holders<T>(&self, look: impl FnOnce(&mut HashMap<Key, Claim>) -> T) -> T {
        look(&mut self.0.holders.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, step: &Step, answer: &Result<Answer>) {
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
        steps.iter().zip(&answers).for_each(|(step, answer)| self.note(step, answer));
        answers
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.inner().renew(claims).await
    }

    async fn subscribe(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.inner().subscribe(key, notifier).await
    }

    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.inner().announce(member, ttl).await
    }

    async fn withdraw(&self, client: ClientId) -> Result<()> {
        self.inner().withdraw(client).await
    }

    fn profile(&self) -> Profile {
        Profile { epoch: self.0.epoch.subscribe(), ..self.inner().profile() }
    }
}

super::looks_through!(Forgetful);
