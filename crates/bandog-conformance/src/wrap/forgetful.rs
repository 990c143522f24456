//! A backend whose holds a test can remove.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bandog_core::{Answer, Backend, Claim, Key, Profile, Result, Step, Verdict};
use tokio::sync::watch;

use super::{Hooks, Wrapped};

/// The time for which this backend may undo a release.
const MAY_UNDO: Duration = Duration::from_secs(10);

/// A backend that forgets a hold when the test calls [`Forgetful::forget`]. For this purpose, it records the claim of
/// each grant. It also reports a new connection when the test calls [`Forgetful::reconnected`].
pub type Forgetful<B> = Wrapped<Grants, B>;

/// The grants of a [`Forgetful`] backend, and its connections.
#[derive(Debug)]
pub struct Grants {
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
        Self::wrap(backend, Grants { holders: Mutex::default(), epoch: watch::Sender::new(times) })
    }

    /// Removes the hold of this key from the store.
    ///
    /// # Errors
    /// If the wrapped backend fails.
    pub async fn forget(&self, key: &Key) -> Result<()> {
        let holder = self.hooks().holders(|holders| holders.remove(key));
        let release = holder.map(Step::Release);
        self.inner().apply(release.as_slice()).await.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// Removes the hold of this key, and lets its claim wait behind `other`, which gets the lock. So does a failover to
    /// a server that knows the place of the claim, and not the grant.
    ///
    /// # Errors
    /// If the wrapped backend fails.
    pub async fn forget_grant(&self, other: &Claim) -> Result<()> {
        let Some(holder) = self.hooks().holders(|holders| holders.remove(&other.key)) else { return Ok(()) };
        let waits = Step::Claim(Claim { joins: true, ..holder.clone() });
        let steps = [Step::Release(holder), Step::Claim(other.clone()), waits];
        self.inner().apply(&steps).await.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// Reports a new connection.
    pub fn reconnected(&self) {
        self.hooks().epoch.send_modify(|epoch| *epoch += 1);
    }
}

impl Hooks for Grants {
    async fn apply<B: Backend>(&self, inner: &B, steps: &[Step]) -> Vec<Result<Answer>> {
        let answers = inner.apply(steps).await;
        steps.iter().zip(&answers).for_each(|(step, answer)| self.record(step, answer));
        answers
    }

    fn profile(&self, profile: Profile) -> Profile {
        Profile { epoch: self.epoch.subscribe(), may_undo: MAY_UNDO, ..profile }
    }
}

impl Grants {
    fn holders<T>(&self, access: impl FnOnce(&mut HashMap<Key, Claim>) -> T) -> T {
        access(&mut self.holders.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn record(&self, step: &Step, answer: &Result<Answer>) {
        let (Step::Claim(claim) | Step::Pass { to: claim, .. }) = step else { return };
        if matches!(answer, Ok(Answer::Claimed(Verdict::Granted { .. }))) {
            self.holders(|holders| holders.insert(claim.key.clone(), claim.clone()));
        }
    }
}
