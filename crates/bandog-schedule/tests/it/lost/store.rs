//! A store in memory that can lose its data, or fail over to a replica.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, ClientId, Clock, Holding, Inspect, Key, Leases, Line, Member, Memory, Notifier, Pattern, Profile,
    Reading, Records, Renewal, Result, Row, Step, Subscription, Swap, Swaps,
};

/// A store with a replica. Clones refer to the same store.
#[derive(Debug, Clone)]
pub(super) struct Store(Arc<Mutex<Copies>>);

#[derive(Debug, Clone)]
struct Copies {
    clock: Clock,
    master: Memory,
    replica: Memory,
    is_followed: bool,
}

impl Store {
    pub(super) fn new(clock: Clock) -> Self {
        let (master, replica) = (Memory::new(clock), Memory::new(clock));
        Self(Arc::new(Mutex::new(Copies { clock, master, replica, is_followed: true })))
    }

    /// Loses all data.
    pub(super) fn wipe(&self) {
        let mut copies = self.0.lock().unwrap();
        copies.master = Memory::new(copies.clock);
        copies.is_followed = false;
    }

    /// Stops the replication: the replica receives no further changes.
    pub(super) fn lag(&self) {
        self.0.lock().unwrap().is_followed = false;
    }

    /// Makes the replica the new master, so the changes that it has not received are lost.
    pub(super) fn fail_over(&self) {
        let mut copies = self.0.lock().unwrap();
        copies.master = copies.replica.clone();
        copies.is_followed = false;
    }

    fn copies(&self) -> Copies {
        self.0.lock().unwrap().clone()
    }

    fn replica(&self) -> Option<Memory> {
        Some(self.copies()).filter(|copies| copies.is_followed).map(|copies| copies.replica)
    }
}

#[async_trait]
impl Leases for Store {
    async fn ping(&self) -> Result<()> {
        self.copies().master.ping().await
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        if let Some(replica) = self.replica() {
            replica.apply(steps).await;
        }
        self.copies().master.apply(steps).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        if let Some(replica) = self.replica() {
            replica.renew(claims).await;
        }
        self.copies().master.renew(claims).await
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.copies().master.subscribe(claim, notifier).await
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.copies().master.register(member, ttl).await
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.copies().master.deregister(client).await
    }

    fn profile(&self) -> Profile {
        self.copies().master.profile()
    }
}

#[async_trait]
impl Inspect for Store {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.copies().master.list(pattern).await
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        self.copies().master.evict(key).await
    }
}

#[async_trait]
impl Records for Store {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        if let Some(replica) = self.replica() {
            replica.swap(swaps).await?;
        }
        self.copies().master.swap(swaps).await
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        self.copies().master.read(keys, holdings).await
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        self.copies().master.names(pattern).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.copies().master.history(key).await
    }
}

impl bandog_core::Latches for Store {}

impl bandog_core::Backend for Store {}
