//! A replica's connection to the store. A test can cut the connection, so that every call fails, and can mend the
//! connection later.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, ClientId, Error, Holding, Inspect, Key, Leases, Line, Member, Memory, Notifier, Pattern, Profile,
    Reading, Records, Renewal, Result, Row, Step, Subscription, Swap, Swaps,
};

/// A connection to the store. If one clone is cut, all clones are cut.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    store: Memory,
    is_cut: Arc<AtomicBool>,
}

impl Wire {
    pub(super) fn to(store: &Memory) -> Self {
        Self { store: store.clone(), is_cut: Arc::default() }
    }

    pub(super) fn cut(&self) {
        self.is_cut.store(true, Relaxed);
    }

    pub(super) fn mend(&self) {
        self.is_cut.store(false, Relaxed);
    }

    /// The store, or an error if the connection is cut.
    fn store(&self) -> Result<&Memory> {
        if self.is_cut.load(Relaxed) { Err(Error::unavailable("the wire is cut")) } else { Ok(&self.store) }
    }

    /// The answer to a call while the connection is cut: one error for each item of the call. `count`: the number of
    /// items.
    fn refused<T>(&self, count: usize, error: &Error) -> Vec<Result<T>> {
        (0..count).map(|_| Err(error.clone())).collect()
    }
}

#[async_trait]
impl Leases for Wire {
    async fn ping(&self) -> Result<()> {
        self.store()?.ping().await
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        match self.store() {
            Ok(store) => store.apply(steps).await,
            Err(error) => self.refused(steps.len(), &error),
        }
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        match self.store() {
            Ok(store) => store.renew(claims).await,
            Err(error) => self.refused(claims.len(), &error),
        }
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.store()?.subscribe(claim, notifier).await
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.store()?.register(member, ttl).await
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.store()?.deregister(client).await
    }

    fn profile(&self) -> Profile {
        self.store.profile()
    }
}

#[async_trait]
impl Inspect for Wire {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.store()?.list(pattern).await
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        self.store()?.evict(key).await
    }
}

#[async_trait]
impl Records for Wire {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        self.store()?.swap(swaps).await
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        self.store()?.read(keys, holdings).await
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        self.store()?.names(pattern).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.store()?.history(key).await
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        self.store()?.subscribe_record(key, notifier).await
    }
}

impl bandog_core::Latches for Wire {}

impl bandog_core::Backend for Wire {}
