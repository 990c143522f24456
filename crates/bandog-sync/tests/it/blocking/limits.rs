//! Time limits of blocking calls.

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bandog_conformance::wrap::{Stopped, Which};
use bandog_core::{
    Answer, Claim, ErrorKind, Inspect, Key, Leases, MAX_TTL, Memory, Notifier, Pattern, Profile, Renewal, Result, Row,
    Step, Subscription,
};

use bandog_sync::blocking::all;

use super::{client, held, memory};
use crate::kit::{kind, ms};

#[test]
fn a_held_lock_gives_none_at_the_limit() {
    let client = client(memory());
    let guard = client.mutex("orders").lock().unwrap();
    let orders = client.mutex("orders");
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            assert!(orders.try_lock().unwrap().is_none());
            let start = Instant::now();
            assert!(orders.try_lock_for(ms(100)).unwrap().is_none());
            assert!(start.elapsed() >= ms(100));
        });
        waits.join().unwrap();
        // This call gets the lock as soon as it is free.
        let waits = scope.spawn(|| orders.try_lock_for(Duration::from_secs(100)).unwrap().unwrap().release());
        guard.release().unwrap();
        waits.join().unwrap().unwrap();
    });
    assert_eq!(held(&client), [""; 0]);
}

/// The rule of the async calls: zero is one attempt, and 365 days are the maximum.
#[test]
fn all_limits_follow_one_rule() {
    let client = client(memory());
    let election = client.election("billing");
    let mut observer = election.observe();
    let (zero, long) = (Duration::ZERO, MAX_TTL + Duration::from_nanos(1));
    assert_eq!(observer.changed_for(zero).unwrap(), Some(None));
    let leadership = election.campaign_for(zero).unwrap().unwrap();
    assert!(election.campaign_for(zero).unwrap().is_none());
    assert!(observer.changed_for(zero).unwrap().is_some() && observer.changed_for(zero).unwrap().is_none());
    assert!(client.barrier("alone", 1).wait_for(zero).unwrap().unwrap().is_leader());
    assert!(client.barrier("phase", 2).wait_for(zero).unwrap().is_none());
    assert!(client.latch("open").wait_for(zero).unwrap());
    assert!(all([client.mutex("a")]).try_lock_for(zero).unwrap().is_some());
    let (lost, expiring) = (leadership.lost(), leadership.expiring(ms(1)));
    assert!(!lost.wait_for(zero).unwrap() && !expiring.wait_for(zero).unwrap());
    for limit in [long, Duration::MAX] {
        assert_eq!(kind(election.campaign_for(limit)), Some(ErrorKind::Misused));
        assert_eq!(kind(observer.changed_for(limit)), Some(ErrorKind::Misused));
        assert_eq!(kind(client.barrier("alone", 1).wait_for(limit)), Some(ErrorKind::Misused));
        assert_eq!(kind(client.latch("open").wait_for(limit)), Some(ErrorKind::Misused));
        assert_eq!(kind(all([client.mutex("a")]).try_lock_for(limit)), Some(ErrorKind::Misused));
        assert_eq!(kind(lost.wait_for(limit)), Some(ErrorKind::Misused));
        assert_eq!(kind(expiring.wait_for(limit)), Some(ErrorKind::Misused));
    }
    leadership.resign().unwrap();
    assert!(!lost.wait_for(MAX_TTL).unwrap() && !expiring.wait_for(MAX_TTL).unwrap(), "the leadership was resigned");
}

#[test]
fn bad_values_are_misused() {
    let client = client(memory());
    assert_eq!(kind(client.mutex("").lock()), Some(ErrorKind::Misused));
    assert_eq!(kind(client.mutex("orders").lease(ms(1)).try_lock()), Some(ErrorKind::Misused));
    assert_eq!(kind(client.mutex("orders").try_lock_for(MAX_TTL + ms(1))), Some(ErrorKind::Misused));
    drop(client.mutex("orders").try_lock_for(MAX_TTL).unwrap().unwrap());
}

/// If the store does not answer, a call returns an error, and not `None`.
#[test]
fn a_silent_store_is_unavailable_in_time() {
    let wire = Stopped::new(memory());
    let client = client(wire.clone());
    client.mutex("orders").lock().unwrap().release().unwrap();
    wire.stop(Which::Requests);
    assert_eq!(kind(client.mutex("orders").try_lock_for(ms(100))), Some(ErrorKind::Unavailable));
    wire.go_on();
    client.mutex("orders").lock().unwrap().release().unwrap();
}

/// A backend that blocks the engine's thread until the test releases it.
#[derive(Debug, Clone)]
struct Clumsy {
    store: Memory,
    gate: Arc<Mutex<()>>,
}

#[async_trait]
impl Leases for Clumsy {
    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
        self.store.apply(steps).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.store.renew(claims).await
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.store.subscribe(claim, notifier).await
    }

    fn profile(&self) -> Profile {
        Profile { timeout: ms(50), ..self.store.profile() }
    }
}

#[async_trait]
impl Inspect for Clumsy {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.store.list(pattern).await
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        self.store.show(key).await
    }
}

/// While the engine's thread is blocked, the engine cannot end a call at its limit. The calling thread then ends the
/// call itself. If the lock is granted after that, it is released.
// Promise: B4
#[test]
fn a_limit_holds_although_the_engine_is_stuck() {
    let backend = Clumsy { store: memory(), gate: Arc::default() };
    let client = client(backend.clone());
    let gate = backend.gate.lock().unwrap();
    assert_eq!(kind(client.mutex("orders").try_lock_for(ms(20))), Some(ErrorKind::Unavailable));
    assert_eq!(kind(client.mutex("orders").try_lock()), Some(ErrorKind::Unavailable));
    drop(gate);
    let guard = client.mutex("orders").lock().unwrap();
    let gate = backend.gate.lock().unwrap();
    assert_eq!(kind(guard.release()), Some(ErrorKind::Unavailable));
    drop(gate);
    assert_eq!(held(&client), [""; 0]);
}

/// While the engine's thread is blocked, the engine cannot report a loss. A thread that waits for the loss reads the
/// clock itself.
// Promise: B4
#[test]
fn a_loss_is_seen_although_the_engine_is_stuck() {
    let backend = Clumsy { store: memory(), gate: Arc::default() };
    let client = client(backend.clone());
    let guard = client.mutex("orders").lease(ms(2000)).lock().unwrap();
    let gate = backend.gate.lock().unwrap();
    assert_eq!(kind(client.mutex("stock").try_lock_for(ms(20))), Some(ErrorKind::Unavailable), "the engine is stuck");
    let (lost, (sender, receiver)) = (guard.lost(), mpsc::channel());
    thread::spawn(move || sender.send(lost.wait()));
    assert!(receiver.recv_timeout(Duration::from_secs(20)).expect("the loss must be reported in time").unwrap());
    drop(gate);
    assert_eq!(kind(guard.release()), Some(ErrorKind::Lost));
}

impl bandog_core::Records for Clumsy {}

impl bandog_core::Latches for Clumsy {}

impl bandog_core::Backend for Clumsy {}
