//! A node for the simulation, and the connection of one client to it. A connection delays requests, keeps their order, and
//! breaks at random moments. A request whose future is dropped is still executed. A request of a broken connection is lost,
//! or executed after newer requests of the next connection.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Backend, Claim, ClaimId, ClientId, Clock, Error, Fence, Finding, Inspect, Key, Latches, Leases, LockState,
    Member, Memory, Pattern, Profile, QuorumNode, Records, Renewal, Result, Row, Step,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep, sleep_until},
};

use super::TTL;

/// A store that can stop and restart. Its fences are the times of its clock, in microseconds.
#[derive(Debug)]
pub(super) struct Store {
    /// The state of the one lock of the simulation.
    lock: Mutex<LockState>,
    /// Everything but the lock.
    memory: Mutex<Arc<Memory>>,
    /// Number of microseconds by which the clock is ahead.
    ahead: u64,
    /// When the store was started without its data. None if it has run for a long time.
    started: Mutex<Option<Instant>>,
    /// The store executes nothing before this moment.
    stopped_until: Mutex<Instant>,
    /// The number of restarts. Each of them breaks all connections.
    restarts: watch::Sender<u64>,
}

impl Store {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: Mutex::default(),
            memory: Mutex::new(Arc::new(Memory::new(Clock::tokio()))),
            ahead: fastrand::u64(..500_000),
            started: Mutex::default(),
            stopped_until: Mutex::new(Instant::now()),
            restarts: watch::Sender::new(0),
        })
    }

    pub(super) fn stop_for(&self, duration: Duration) {
        *self.stopped_until.lock().unwrap() = Instant::now() + duration;
    }

    pub(super) fn restart(&self) {
        *self.lock.lock().unwrap() = LockState::default();
        *self.memory.lock().unwrap() = Arc::new(Memory::new(Clock::tokio()));
        *self.started.lock().unwrap() = Some(Instant::now());
        self.restarts.send_modify(|restarts| *restarts += 1);
    }

    /// Whether one of these claims holds the lock here.
    pub(super) fn is_held_by(&self, ids: &[ClaimId]) -> bool {
        let (now, lock) = (Clock::tokio().now(), self.lock.lock().unwrap());
        // A node can know a claim by another id, whose number has the same lower bits.
        let as_known = |id: ClaimId| (0..64).map(move |reuse| ClaimId { number: id.number | (reuse << 44), ..id });
        ids.iter().any(|id| as_known(*id).any(|id| lock.is_held_by(id, now)))
    }

    fn memory(&self) -> Arc<Memory> {
        self.memory.lock().unwrap().clone()
    }

    fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let (now, mut lock) = (Clock::tokio().now(), self.lock.lock().unwrap());
        let wall = Fence::new(now.as_nanos() / 1_000 + self.ahead);
        steps.iter().map(|step| lock.apply_above(step, now, wall)).collect()
    }

    fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let (now, mut lock) = (Clock::tokio().now(), self.lock.lock().unwrap());
        claims.iter().map(|claim| Ok(lock.renew(claim, now))).collect()
    }

    async fn runs(&self) {
        loop {
            let until = *self.stopped_until.lock().unwrap();
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// A request, and where its answer goes.
type Sent = (Instant, Request, oneshot::Sender<Replies>);

enum Request {
    Apply(Vec<Step>),
    Renew(Vec<Claim>),
    Ping,
}

enum Replies {
    Applied(Vec<Result<Answer>>),
    Renewed(Vec<Result<Renewal>>),
    Pong,
}

/// The connection of one client to a store.
#[derive(Debug)]
pub(super) struct Connection {
    store: Arc<Store>,
    sent: mpsc::UnboundedSender<Sent>,
    epoch: watch::Sender<u64>,
}

impl Connection {
    pub(super) fn new(store: &Arc<Store>) -> Self {
        let (sent, requests) = mpsc::unbounded_channel();
        let epoch = watch::Sender::new(1);
        tokio::spawn(execute(store.clone(), requests, epoch.clone()));
        Self { store: store.clone(), sent, epoch }
    }

    /// Sends a request in the first poll. None if there is no answer.
    async fn call(&self, request: Request) -> Option<Replies> {
        let (answer, reply) = oneshot::channel();
        self.sent.send((Instant::now() + random_delay(), request, answer)).ok()?;
        reply.await.ok()
    }
}

/// Mostly a few milliseconds. Sometimes longer than a request may take, and rarely longer than the ttl. The later requests
/// of the connection are delayed, too.
fn random_delay() -> Duration {
    Duration::from_millis(match fastrand::u32(..1_000) {
        0..3 => fastrand::u64(..2_000),
        3..13 => fastrand::u64(..300),
        13..100 => fastrand::u64(..40),
        _ => fastrand::u64(..4),
    })
}

/// Executes the requests of a connection in their order.
async fn execute(store: Arc<Store>, mut requests: mpsc::UnboundedReceiver<Sent>, epoch: watch::Sender<u64>) {
    let mut restarts = store.restarts.subscribe();
    while let Some((at, request, answer)) = requests.recv().await {
        sleep_until(at).await;
        store.runs().await;
        if restarts.has_changed().unwrap_or_default() || fastrand::u32(..400) == 0 {
            // The requests under way are lost or late.
            restarts.mark_unchanged();
            drop(answer);
            execute_late(&store, request);
            while let Ok((_, request, _)) = requests.try_recv() {
                execute_late(&store, request);
            }
            epoch.send_modify(|epoch| *epoch += 1);
            continue;
        }
        let replies = match request {
            // So the nodes often owe releases for some time.
            Request::Apply(steps) if are_releases(&steps) && fastrand::u32(..3) == 0 => {
                execute_late(&store, Request::Apply(steps));
                continue;
            }
            // So a repair often arrives after the next one, and after the next renewal.
            Request::Apply(steps) if are_repairs(&steps) && fastrand::u32(..3) == 0 => {
                execute_late(&store, Request::Apply(steps));
                continue;
            }
            Request::Apply(steps) => Replies::Applied(store.apply(&steps)),
            Request::Renew(claims) => Replies::Renewed(store.renew(&claims)),
            Request::Ping => Replies::Pong,
        };
        let (delay, is_lost) = (random_delay(), fastrand::u32(..50) == 0);
        if !is_lost {
            tokio::spawn(async move {
                sleep(delay).await;
                let _ = answer.send(replies);
            });
        }
    }
}

/// Executes every second of these requests, after some time. The client gets no answer.
fn execute_late(store: &Arc<Store>, request: Request) {
    let (store, delay) = (store.clone(), Duration::from_millis(fastrand::u64(..500)));
    if fastrand::bool() {
        tokio::spawn(async move {
            sleep(delay).await;
            store.runs().await;
            match request {
                Request::Apply(steps) => drop(store.apply(&steps)),
                Request::Renew(claims) => drop(store.renew(&claims)),
                Request::Ping => {}
            }
        });
    }
}

fn are_releases(steps: &[Step]) -> bool {
    steps.iter().all(|step| matches!(step, Step::Release(_)))
}

/// A repair has the rest of a ttl.
fn are_repairs(steps: &[Step]) -> bool {
    steps.iter().all(|step| matches!(step, Step::Claim(claim) if claim.ttl < TTL))
}

fn no_answer() -> Error {
    Error::unavailable("the connection was lost").ambiguous()
}

#[async_trait]
impl Leases for Connection {
    async fn ping(&self) -> Result<()> {
        self.call(Request::Ping).await.map(|_| ()).ok_or_else(no_answer)
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        match self.call(Request::Apply(steps.to_vec())).await {
            Some(Replies::Applied(answers)) => answers,
            _ => steps.iter().map(|_| Err(no_answer())).collect(),
        }
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        match self.call(Request::Renew(claims.to_vec())).await {
            Some(Replies::Renewed(answers)) => answers,
            _ => claims.iter().map(|_| Err(no_answer())).collect(),
        }
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.store.memory().register(member, ttl).await
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.store.memory().deregister(client).await
    }

    fn profile(&self) -> Profile {
        Profile { epoch: self.epoch.subscribe(), ..self.store.memory().profile() }
    }
}

#[async_trait]
impl QuorumNode for Connection {
    async fn uptime(&self) -> Result<Duration> {
        self.ping().await?;
        Ok(self.store.started.lock().unwrap().map_or(Duration::MAX, |started| started.elapsed()))
    }

    async fn setting(&self, name: &str, text: Option<&str>) -> Result<Option<String>> {
        self.store.memory().setting(name, text).await
    }
}

#[async_trait]
impl Inspect for Connection {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.store.memory().list(pattern).await
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.store.memory().members().await
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        self.store.memory().evict(key).await
    }

    async fn forget(&self, key: &Key) -> Result<bool> {
        self.store.memory().forget(key).await
    }

    async fn check_for(&self, prefix: &str) -> Result<Vec<Finding>> {
        self.store.memory().check_for(prefix).await
    }
}

impl Records for Connection {}
impl Latches for Connection {}

impl Backend for Connection {}
