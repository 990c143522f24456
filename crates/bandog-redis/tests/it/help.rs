//! Helper functions: they create backends and claims, and call verbs with a single step.

use std::{
    fmt::Display,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bandog_core::{
    Answer, Claim, ClaimId, ClientId, Fence, Fences, Key, Kind, Leases, Member, Notifier, Released, Renewal, Result,
    Step, Verdict,
};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::{RawRedis, RedisServer};

/// The ttl of all claims.
pub(crate) const TTL: Duration = Duration::from_secs(30);
/// An owner of Redisson.
pub(crate) const JAVA: &str = "957c1da6-54c9-4017-93c7-a4ef987df61c:19";
/// Maximum time that a test waits for a condition.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// A backend whose user has only the rights that locks need.
///
/// No engine repeats the calls of these tests. So the request timeout is longer than any delay of a loaded machine.
/// With the default of 3 s, some tests sometimes failed with `Unavailable`.
pub(crate) fn backend(server: &RedisServer) -> Redis {
    with_timeout(&lock_user_url(server.addr()), 10 * SOON)
}

/// A backend whose user also has the rights to inspect locks and to use records.
pub(crate) fn operator(server: &RedisServer) -> Redis {
    at(&format!("redis://{}@{}", RedisServer::OPERATOR, server.addr()))
}

/// The URL of a user that has only the rights that locks need.
pub(crate) fn lock_user_url(address: impl Display) -> String {
    format!("redis://{}@{address}", RedisServer::LEAST)
}

/// A backend for this URL.
pub(crate) fn at(url: &str) -> Redis {
    Redis::new(RedisOptions::from_url(url).unwrap()).unwrap()
}

/// A backend for this URL, with this request timeout.
pub(crate) fn with_timeout(url: &str, timeout: Duration) -> Redis {
    Redis::new(RedisOptions::from_url(url).unwrap().timeout(timeout)).unwrap()
}

/// A claim of a new client.
pub(crate) fn claim(key: &str) -> Claim {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    Claim {
        fences: NonZeroU32::new(64).unwrap(),
        ..Claim::new(
            Key::new(key).unwrap(),
            ClaimId { client: ClientId::random(), number: NUMBER.fetch_add(1, Ordering::Relaxed) },
            Kind::Mutex,
            TTL,
        )
    }
}

/// A client that can be registered, and that waits for these locks.
pub(crate) fn member(waits: &[&str]) -> Member {
    Member {
        id: ClientId::random(),
        host: "shop-1".into(),
        pid: 17,
        program: "till".into(),
        since: UNIX_EPOCH + Duration::from_millis(1_790_000_000_123),
        prefix: "shop:".into(),
        waits: waits.iter().map(|name| Key::new(name).unwrap()).collect(),
        blocked: bandog_core::BlockedCalls::default(),
    }
}

pub(crate) async fn step(redis: &Redis, step: Step) -> Result<Answer> {
    let mut answers = redis.apply(&[step]).await;
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

pub(crate) async fn take(redis: &Redis, claim: &Claim) -> Result<Verdict> {
    match step(redis, Step::Claim(claim.clone())).await? {
        Answer::Claimed(verdict) => Ok(verdict),
        Answer::Released(_) => panic!("a claim was answered as a release"),
    }
}

pub(crate) async fn pass(redis: &Redis, from: &Claim, to: &Claim) -> Result<Verdict> {
    match step(redis, Step::Pass { from: Box::new(from.clone()), to: to.clone() }).await? {
        Answer::Claimed(verdict) => Ok(verdict),
        Answer::Released(_) => panic!("a pass was answered as a release"),
    }
}

pub(crate) async fn release(redis: &Redis, claim: &Claim) -> Result<Released> {
    match step(redis, Step::Release(claim.clone())).await? {
        Answer::Released(released) => Ok(released),
        Answer::Claimed(_) => panic!("a release was answered as a claim"),
    }
}

pub(crate) async fn renew(redis: &Redis, claim: &Claim) -> Result<Renewal> {
    let mut renewals = redis.renew(std::slice::from_ref(claim)).await;
    assert_eq!(renewals.len(), 1);
    renewals.remove(0)
}

pub(crate) async fn is_granted(redis: &Redis, claim: &Claim) -> bool {
    matches!(take(redis, claim).await.unwrap(), Verdict::Granted { .. })
}

/// Checks that the subscriber has received no message.
#[track_caller]
pub(crate) fn no_message(subscription: &mut RawRedis) {
    subscription.set_patience(Duration::from_millis(20)).unwrap();
    assert!(subscription.read().is_err(), "a message was published");
    subscription.set_patience(SOON).unwrap();
}

/// The present time in ms, as in the scores of Redisson.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// The fences of a claim that is granted.
pub(crate) async fn fences(redis: &Redis, claim: &Claim) -> Fences {
    granted(take(redis, claim).await.unwrap())
}

pub(crate) fn granted(verdict: Verdict) -> Fences {
    match verdict {
        Verdict::Granted { fences, valid_for, .. } => {
            assert_eq!(valid_for, TTL);
            fences
        }
        Verdict::Busy { retry_after, .. } => panic!("busy for {retry_after:?}"),
    }
}

/// The first and the last fence of a block.
pub(crate) fn ends(fences: &Fences) -> (Fence, Fence) {
    (fences.clone().take().unwrap(), fences.last())
}

/// A notifier, and a function that returns the number of its notifications.
pub(crate) fn notifier() -> (Notifier, impl Fn() -> usize + Clone + Send + Sync) {
    let count = Arc::new(AtomicUsize::new(0));
    let notified = count.clone();
    (Notifier::new(move || _ = notified.fetch_add(1, Ordering::SeqCst)), move || count.load(Ordering::SeqCst))
}

/// A tracing subscriber that counts warnings, and a function that returns their number.
pub(crate) fn warnings() -> (impl tracing::Subscriber + Send + Sync, impl Fn() -> usize) {
    let count = Arc::new(AtomicUsize::new(0));
    (Warnings(count.clone()), move || count.load(Ordering::SeqCst))
}

struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        if event.metadata().target().starts_with("bandog_redis") {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
