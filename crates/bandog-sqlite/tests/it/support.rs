//! Helper functions of the tests.

use std::{
    num::NonZeroU32,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use bandog_core::{
    Answer, Claim, ClaimId, ClientId, Fences, Key, Kind, Leases, Released, Renewal, Result, Step, Verdict,
};
use bandog_sqlite::{Sqlite, SqliteOptions};
use tempfile::TempDir;

/// A temporary directory for a database.
pub(crate) struct TestDir(TempDir);

impl TestDir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    pub(crate) fn options(&self) -> SqliteOptions {
        // The timeout is long, because the machine might be busy with other tests.
        SqliteOptions::at(self.path()).timeout(Duration::from_secs(20))
    }

    pub(crate) fn open(&self) -> Sqlite {
        Sqlite::new(self.options()).unwrap()
    }
}

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A claim by a new client.
pub(crate) fn claim(key: &str, ttl: Duration) -> Claim {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let id = ClaimId { client: ClientId::random(), number: NUMBER.fetch_add(1, Ordering::Relaxed) };
    Claim { fences: NonZeroU32::new(4).unwrap(), ..Claim::new(Key::new(key).unwrap(), id, Kind::Mutex, ttl) }
}

pub(crate) async fn step(store: &impl Leases, step: Step) -> Result<Answer> {
    store.apply(&[step]).await.remove(0)
}

pub(crate) async fn try_take(store: &impl Leases, claim: &Claim) -> Result<Verdict> {
    match step(store, Step::Claim(claim.clone())).await? {
        Answer::Claimed(verdict) => Ok(verdict),
        Answer::Released(_) => panic!("a release was answered"),
    }
}

/// Claims. Returns the fences if the claim was granted.
pub(crate) async fn take(store: &impl Leases, claim: &Claim) -> Option<Fences> {
    fences(try_take(store, claim).await.unwrap())
}

pub(crate) fn fences(verdict: Verdict) -> Option<Fences> {
    match verdict {
        Verdict::Granted { fences, .. } => Some(fences),
        Verdict::Busy { .. } => None,
    }
}

/// Claims a held lock. Returns the time after which to retry.
pub(crate) async fn busy(store: &impl Leases, claim: &Claim) -> Duration {
    match try_take(store, claim).await.unwrap() {
        Verdict::Granted { .. } => panic!("{claim:?} was granted"),
        Verdict::Busy { retry_after, .. } => retry_after,
    }
}

pub(crate) async fn pass(store: &impl Leases, from: &Claim, to: &Claim) -> Option<Fences> {
    match step(store, Step::Pass { from: Box::new(from.clone()), to: to.clone() }).await.unwrap() {
        Answer::Claimed(verdict) => fences(verdict),
        Answer::Released(_) => panic!("a release was answered"),
    }
}

pub(crate) async fn release(store: &impl Leases, claim: &Claim) -> Released {
    match step(store, Step::Release(claim.clone())).await.unwrap() {
        Answer::Released(released) => released,
        Answer::Claimed(_) => panic!("a claim was answered"),
    }
}

pub(crate) async fn renew(store: &impl Leases, claim: &Claim) -> Renewal {
    store.renew(std::slice::from_ref(claim)).await.remove(0).unwrap()
}

/// Repeats a claim until it is granted. Returns the fences and the time that this took.
pub(crate) async fn take_eventually(store: &impl Leases, claim: &Claim) -> (Fences, Duration) {
    let start = Instant::now();
    loop {
        if let Some(fences) = take(store, claim).await {
            return (fences, start.elapsed());
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{claim:?} is not granted");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until the condition is true.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < Duration::from_secs(20), "timeout: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
