//! A node for tests: it can hang, forget its data, and report any uptime.

use std::{
    fmt::Debug,
    num::NonZeroU32,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClientId, Clock, Error, Finding, IfUnused, Inspect, Key, Latches, Leases, Member, Memory,
    NamesPage, Notifier, Pattern, Profile, QuorumNode, Records, Renewal, Result, Row, Step, Subscription, Usage,
};
use bandog_testkit::RedisServer;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// A node whose uptime and whose answers the test controls. Clones share one state.
#[derive(Debug)]
pub(crate) struct TestNode<B>(Arc<Shared<B>>);

#[derive(Debug)]
struct Shared<B> {
    backend: Mutex<Arc<B>>,
    /// When the node started. None if it started long ago.
    started: Mutex<Option<Instant>>,
    /// Whether the node answers nothing.
    hangs: watch::Sender<bool>,
    fault: watch::Sender<Option<NodeFault>>,
    /// The number of calls that a fault has delayed or failed.
    faults: AtomicUsize,
    /// The number of all calls that the node has received.
    requests: AtomicUsize,
    /// The time from the arrival of a call until it is applied.
    latency: Mutex<Duration>,
    /// Greatest random time by which a call takes longer.
    jitter: Mutex<Duration>,
    /// The number of connections. None if the backend counts them.
    epoch: Option<watch::Sender<u64>>,
}

/// A fault of a node that answers other requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeFault {
    /// Claims arrive late: when the fault ends, although the caller may have given up.
    LateClaims,
    /// Renewals are applied, and the answers arrive late: when the fault ends.
    LateRenewals,
    /// Claims are applied, and the answers are lost.
    LostAnswers,
    /// Releases fail.
    Releases,
    /// The node answers pings, and refuses claims, releases and renewals with an error that a repetition may resolve.
    Refuses,
}

impl<B> Clone for TestNode<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend> TestNode<B> {
    /// A node that started long ago.
    pub(crate) fn old(backend: B) -> Self {
        Self::new(backend, None)
    }

    fn new(backend: B, epoch: Option<watch::Sender<u64>>) -> Self {
        let (backend, started) = (Mutex::new(Arc::new(backend)), Mutex::new(None));
        let (hangs, fault) = (watch::Sender::new(false), watch::Sender::new(None));
        Self(Arc::new(Shared {
            backend,
            started,
            hangs,
            fault,
            faults: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            latency: Mutex::default(),
            jitter: Mutex::default(),
            epoch,
        }))
    }

    /// From now on, the node has this fault, or none.
    pub(crate) fn fault(&self, fault: impl Into<Option<NodeFault>>) {
        self.0.fault.send_replace(fault.into());
    }

    /// The number of calls that have failed, or that were applied late.
    pub(crate) fn faults(&self) -> usize {
        self.0.faults.load(Relaxed)
    }

    /// The number of calls that the node has received.
    pub(crate) fn requests(&self) -> usize {
        self.0.requests.load(Relaxed)
    }

    /// From now on, each call takes this time until it is applied.
    pub(crate) fn latency(&self, latency: Duration) {
        *self.0.latency.lock().unwrap() = latency;
    }

    /// From now on, each call takes longer by a random time up to this one.
    pub(crate) fn jitter(&self, jitter: Duration) {
        *self.0.jitter.lock().unwrap() = jitter;
    }

    /// From now on, the node reports that it started this time ago.
    pub(crate) fn ran_for(&self, uptime: Duration) {
        *self.0.started.lock().unwrap() = Some(Instant::now().checked_sub(uptime).unwrap());
    }

    fn has(&self, fault: NodeFault) -> bool {
        *self.0.fault.borrow() == Some(fault)
    }

    async fn end_of(&self, fault: NodeFault) {
        let _ = self.0.fault.subscribe().wait_for(|present| *present != Some(fault)).await;
    }

    /// From now on, the node answers nothing, or answers again.
    pub(crate) fn hang(&self, on: bool) {
        self.0.hangs.send_replace(on);
    }

    /// The backend, after the node has stopped to hang.
    async fn answer(&self) -> Arc<B> {
        self.0.requests.fetch_add(1, Relaxed);
        let jitter = self.0.jitter.lock().unwrap().mul_f64(fastrand::f64());
        let latency = *self.0.latency.lock().unwrap() + jitter;
        if !latency.is_zero() {
            sleep(latency).await;
        }
        let _ = self.0.hangs.subscribe().wait_for(|hangs| !hangs).await;
        self.inner()
    }

    pub(crate) fn inner(&self) -> Arc<B> {
        self.0.backend.lock().unwrap().clone()
    }
}

impl TestNode<Memory> {
    /// A node in memory that started long ago.
    pub(crate) fn memory() -> Self {
        Self::new(Memory::new(Clock::tokio()), Some(watch::Sender::new(1)))
    }

    /// The node restarts without its data.
    pub(crate) fn restart(&self) {
        *self.0.backend.lock().unwrap() = Arc::new(Memory::new(Clock::tokio()));
        *self.0.started.lock().unwrap() = Some(Instant::now());
        self.0.epoch.as_ref().unwrap().send_modify(|epoch| *epoch += 1);
    }
}

/// The URL of a server, with a user that may inspect locks and read the uptime.
pub(crate) fn redis(server: &RedisServer) -> String {
    format!("redis://{}", server.addr())
}

#[async_trait]
impl<B: Backend> Leases for TestNode<B> {
    async fn ping(&self) -> Result<()> {
        self.answer().await.ping().await
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let is_release = |step: &Step| matches!(step, Step::Release(_));
        if self.has(NodeFault::Releases) && steps.iter().any(is_release) {
            self.0.faults.fetch_add(1, Relaxed);
            return steps.iter().map(|_| Err(Error::unavailable("the node has a fault").ambiguous())).collect();
        }
        if self.has(NodeFault::Refuses) {
            self.answer().await;
            return steps.iter().map(|_| Err(Error::unavailable("the node refuses"))).collect();
        }
        if self.has(NodeFault::LateClaims) && !steps.iter().all(is_release) {
            let (node, steps) = (self.clone(), steps.to_vec());
            let late = async move {
                node.end_of(NodeFault::LateClaims).await;
                let answers = node.answer().await.apply(&steps).await;
                node.0.faults.fetch_add(1, Relaxed);
                answers
            };
            return tokio::spawn(late).await.unwrap();
        }
        let answers = self.answer().await.apply(steps).await;
        if self.has(NodeFault::LostAnswers) && !steps.iter().all(is_release) {
            return steps.iter().map(|_| Err(Error::unavailable("the answer is lost").ambiguous())).collect();
        }
        answers
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        if self.has(NodeFault::Refuses) {
            self.answer().await;
            return claims.iter().map(|_| Err(Error::unavailable("the node refuses"))).collect();
        }
        let answers = self.answer().await.renew(claims).await;
        self.end_of(NodeFault::LateRenewals).await;
        answers
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.answer().await.subscribe(claim, notifier).await
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        self.answer().await.set_limit(key, permits).await
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.answer().await.register(member, ttl).await
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.answer().await.deregister(client).await
    }

    fn profile(&self) -> Profile {
        let profile = self.inner().profile();
        match &self.0.epoch {
            Some(epoch) => Profile { epoch: epoch.subscribe(), ..profile },
            None => profile,
        }
    }
}

#[async_trait]
impl<B: QuorumNode> QuorumNode for TestNode<B> {
    async fn uptime(&self) -> Result<Duration> {
        self.answer().await;
        Ok(self.0.started.lock().unwrap().map_or(Duration::MAX, |started| started.elapsed()))
    }

    async fn setting(&self, name: &str, text: Option<&str>) -> Result<Option<String>> {
        self.answer().await.setting(name, text).await
    }
}

#[async_trait]
impl<B: Backend> Inspect for TestNode<B> {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.answer().await.list(pattern).await
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        self.answer().await.show(key).await
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.answer().await.members().await
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        self.answer().await.evict(key).await
    }

    async fn forget(&self, key: &Key) -> Result<bool> {
        self.answer().await.forget(key).await
    }

    async fn names_page(&self, pattern: &Pattern, unused_for: Duration, after: Option<&str>) -> Result<NamesPage> {
        self.answer().await.names_page(pattern, unused_for, after).await
    }

    async fn usage(&self, keys: &[Key], unused_for: Duration, then: IfUnused) -> Result<Vec<Usage>> {
        self.answer().await.usage(keys, unused_for, then).await
    }

    async fn check_for(&self, prefix: &str) -> Result<Vec<Finding>> {
        self.answer().await.check_for(prefix).await
    }
}

impl<B: Backend> Records for TestNode<B> {}
impl<B: Backend> Latches for TestNode<B> {}

impl<B: Backend> Backend for TestNode<B> {}
