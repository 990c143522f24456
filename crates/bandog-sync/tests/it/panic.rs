//! A panic of the engine: held locks are lost, calls return `Closed`, and nothing hangs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, Clock, ErrorKind, Inspect, Key, Leases, Memory, Notifier, Pattern, Profile, Renewal, Result, Row,
    Step, Subscription,
};
use bandog_sync::Client;
use tokio::time;

use crate::kit::{kind, ms, paused};

/// A backend that panics at every request after the test has set `broken`.
#[derive(Debug, Clone)]
struct Broken {
    store: Memory,
    broken: Arc<AtomicBool>,
}

impl Broken {
    fn over(store: Memory) -> Self {
        Self { store, broken: Arc::default() }
    }

    fn panic_if_broken(&self) {
        assert!(!self.broken.load(Relaxed), "the backend is broken, as the test wants");
    }
}

#[async_trait]
impl Leases for Broken {
    async fn ping(&self) -> Result<()> {
        self.panic_if_broken();
        Ok(())
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        self.panic_if_broken();
        self.store.apply(steps).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.panic_if_broken();
        self.store.renew(claims).await
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.store.subscribe(claim, notifier).await
    }

    fn profile(&self) -> Profile {
        self.store.profile()
    }
}

#[async_trait]
impl Inspect for Broken {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.store.list(pattern).await
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        self.store.show(key).await
    }
}

/// Makes calls of all kinds before and after the engine of `client` panics.
async fn test_broken_engine(client: Client, backend: Broken, other: Client) {
    let guard = client.mutex("held").lock().await.unwrap();
    let other = other.mutex("foreign").lock().await.unwrap();
    let waiter = tokio::spawn({
        let mutex = client.mutex("foreign");
        async move { mutex.lock().await }
    });
    tokio::task::yield_now().await;
    client.idle().await;
    let lost = tokio::spawn(guard.lost());
    backend.broken.store(true, Relaxed);
    assert_eq!(kind(client.mutex("third").try_lock().await), Some(ErrorKind::Closed));
    lost.await.unwrap();
    assert!(guard.is_lost());
    assert_eq!(kind(waiter.await.unwrap()), Some(ErrorKind::Closed));
    assert_eq!(kind(client.mutex("held").lock().await), Some(ErrorKind::Closed));
    assert_eq!(kind(client.ready().await), Some(ErrorKind::Closed));
    assert_eq!(kind(client.show("held").await), Some(ErrorKind::Closed));
    assert!(matches!(kind(guard.release().await), Some(ErrorKind::Lost | ErrorKind::Closed)));
    client.idle().await;
    client.close().await.unwrap();
    drop(client);
    drop(other);
}

// Promise: L22
#[tokio::test(start_paused = true)]
async fn an_engine_on_the_current_runtime_panics() {
    let backend = Broken::over(Memory::new(Clock::tokio()));
    let (ours, theirs) = (paused().over(backend.clone()).unwrap(), paused().over(backend.store.clone()).unwrap());
    time::timeout(ms(3_600_000), test_broken_engine(ours, backend, theirs)).await.expect("a call hangs");
}

// Promise: L22
#[tokio::test]
async fn an_engine_on_its_own_thread_panics() {
    let backend = Broken::over(Memory::new(Clock::system()));
    let (ours, theirs) = (Client::over(backend.clone()).unwrap(), Client::over(backend.store.clone()).unwrap());
    time::timeout(Duration::from_secs(20), test_broken_engine(ours, backend, theirs)).await.expect("a call hangs");
}

impl bandog_core::Records for Broken {}

impl bandog_core::Latches for Broken {}

impl bandog_core::Backend for Broken {}
