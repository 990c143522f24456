//! A backend whose user is not allowed to subscribe.

use std::{num::NonZeroU32, sync::Arc};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Error, ErrorKind, Key, Leases, Member, Notifier, Profile, Renewal, Result, Step,
    Subscription,
};

/// A backend that refuses every subscription, like a store whose user does not have the right to subscribe.
#[derive(Debug)]
pub struct WithoutSubscriptions<B>(Arc<B>);

impl<B: Backend> WithoutSubscriptions<B> {
    /// Wraps this backend, and refuses its subscriptions.
    pub fn new(backend: B) -> Self {
        Self(Arc::new(backend))
    }

    pub(super) fn inner(&self) -> &B {
        &self.0
    }

    /// The error of a call that subscribes.
    pub(super) fn refused(key: &Key) -> Error {
        Error::new(ErrorKind::Denied, "this user is not allowed to subscribe").during("subscribe").at(key)
    }
}

impl<B> Clone for WithoutSubscriptions<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[async_trait]
impl<B: Backend> Leases for WithoutSubscriptions<B> {
    async fn ping(&self) -> Result<()> {
        self.inner().ping().await
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        self.inner().apply(steps).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.inner().renew(claims).await
    }

    async fn subscribe(&self, claim: &Claim, _: Notifier) -> Result<Subscription> {
        Err(Self::refused(&claim.key))
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        self.inner().set_limit(key, permits).await
    }

    async fn register(&self, member: &Member, ttl: std::time::Duration) -> Result<()> {
        self.inner().register(member, ttl).await
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.inner().deregister(client).await
    }

    fn profile(&self) -> Profile {
        self.inner().profile()
    }
}

super::impl_inspect!(WithoutSubscriptions);
