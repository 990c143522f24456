//! A backend that grants less than was requested.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Key, Leases, MAX_BLOCK, MAX_TTL, Member, Notifier, Profile, Renewal, Result,
    Step, Subscription,
};

/// A backend that limits the duration of a hold, or the number of fences of a grant.
///
/// If a claim, a pass or a renewal requests more than the limit, this backend grants only the limit. (A pass gives a
/// lock from one claim to another.) The answer says what was granted, as the trait `Leases` requires.
#[derive(Debug)]
pub struct Capped<B>(Arc<Caps<B>>);

#[derive(Debug)]
struct Caps<B> {
    backend: B,
    max_ttl: Duration,
    max_fences: NonZeroU32,
}

impl<B: Backend> Capped<B> {
    /// Wraps this backend, and shortens its leases: a hold lasts for at most `max_ttl` after its grant or its last
    /// renewal.
    pub fn short_leases(backend: B, max_ttl: Duration) -> Self {
        Self(Arc::new(Caps { backend, max_ttl, max_fences: MAX_BLOCK }))
    }

    /// Wraps this backend, and limits its fences: a grant reserves at most `max_fences` fences.
    pub fn few_fences(backend: B, max_fences: NonZeroU32) -> Self {
        Self(Arc::new(Caps { backend, max_ttl: MAX_TTL, max_fences }))
    }

    pub(super) fn inner(&self) -> &B {
        &self.0.backend
    }

    /// This claim with at most the maximum ttl and the maximum number of fences.
    fn capped(&self, claim: &Claim) -> Claim {
        let (ttl, fences) = (claim.ttl.min(self.0.max_ttl), claim.fences.min(self.0.max_fences));
        Claim { ttl, fences, ..claim.clone() }
    }

    fn capped_step(&self, step: &Step) -> Step {
        match step {
            Step::Claim(claim) => Step::Claim(self.capped(claim)),
            Step::Release(claim) => Step::Release(claim.clone()),
            Step::Pass { from, to } => Step::Pass { from: from.clone(), to: self.capped(to) },
        }
    }
}

impl<B> Clone for Capped<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[async_trait]
impl<B: Backend> Leases for Capped<B> {
    async fn ping(&self) -> Result<()> {
        self.inner().ping().await
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let steps: Vec<_> = steps.iter().map(|step| self.capped_step(step)).collect();
        self.inner().apply(&steps).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let claims: Vec<_> = claims.iter().map(|claim| self.capped(claim)).collect();
        self.inner().renew(&claims).await
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
        self.inner().profile()
    }
}

super::impl_inspect!(Capped);
