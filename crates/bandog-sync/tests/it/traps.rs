//! Errors that other lock libraries have made, or that are easy to make. They were listed as numbered traps before the
//! engine was written. There is at least one test for each.
//!
//! Trap 4 (a client that lets others go first is woken by its own notification) is tested in `shares`. Traps 7 (a
//! backend sends a request again) and 8 (a permission is missing in the middle of an operation) also have tests in the
//! Redis backend.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use async_trait::async_trait;
use bandog_conformance::wrap::{Counting, Delayed, Fate, Lossy, Stopped, Which};
use bandog_core::{
    Answer, Claim, Clock, ErrorKind, Inspect, Key, Leases, Memory, Notifier, Pattern, Profile, Renewal, Result, Row,
    Step, Subscription,
};
use bandog_sync::Client;
use tokio::time;

use crate::kit::{client, held, kind, memory, ms, paused, soon, waiting};

/// 1. If the engine released a lost hold at its local deadline, another client could get the lock at the moment at
///    which the old holder learns about the loss. So the engine does not release a lost hold before its guard is
///    dropped. The old holder learns about the loss a safety margin before the next grant.
// Promise: L7
#[tokio::test(start_paused = true)]
async fn trap_1_a_loss_comes_before_the_next_grant() {
    for local in [false, true] {
        let store = memory();
        let wire = Stopped::new(store.clone());
        let (ours, theirs) = (paused().watchdog(ms(3000)).over(wire.clone()).unwrap(), client(store.clone()));
        let lease = ours.mutex("orders").lease(ms(3000));
        // With a waiting call of the same client the connection must work. In that case the guard is lost because its
        // fixed lease expires.
        let guard = if local { lease.lock().await } else { ours.mutex("orders").lock().await }.unwrap();
        if !local {
            wire.stop(Which::Requests);
        }
        let next = waiting(if local { &ours } else { &theirs }, "orders").await;
        let lost = guard.lost();
        let lost_at = tokio::spawn(async move {
            lost.await;
            Clock::tokio().now()
        });
        let next = soon(next).await.unwrap().unwrap();
        let granted = Clock::tokio().now();
        let ahead = granted.since(lost_at.await.unwrap());
        assert!(ahead >= ms(29), "local: {local}, lost only {ahead:?} before the next grant");
        drop((guard, next));
    }
}

/// 2. The first request of a claim has no answer, and is applied late. The second request of the same claim was
///    certainly not applied. Then the call is dropped. The engine must not forget that the first request may still be
///    applied.
#[tokio::test(start_paused = true)]
async fn trap_2_a_claim_stays_unsure_after_a_later_request() {
    for late in [1, 100, 1000, 2900] {
        let store = memory();
        let wire = Lossy::new(store.clone());
        let client = client(wire.clone());
        client.ready().await.unwrap();
        wire.next([Fate::Late(ms(late)), Fate::Refused]);
        wire.always(Fate::Refused);
        let asking = waiting(&client, "orders").await;
        while wire.pending() > 0 {
            time::sleep(ms(1)).await;
        }
        asking.abort();
        assert!(asking.await.is_err());
        wire.heal();
        soon(client.idle()).await;
        assert_eq!(held(&store).await, [""; 0], "late by {late} ms");
    }
}

/// 3. A release must not overtake a claim that is in flight. The test drops calls at many different moments, over a
///    slow connection.
#[tokio::test(start_paused = true)]
async fn trap_3_no_release_overtakes_its_claim() {
    for cancel_at in 0..80 {
        let store = memory();
        let client = client(Delayed::new(store.clone(), cancel_at, ms(30), ms(30)));
        let asked = time::timeout(ms(cancel_at), client.mutex("orders").lock()).await;
        drop(asked);
        client.idle().await;
        assert_eq!(held(&store).await, [""; 0], "cancelled after {cancel_at} ms");
    }
}

/// 5. A late answer to a renewal must not extend a deadline that has passed. A guard that was lost stays lost.
// Promise: L9
#[tokio::test(start_paused = true)]
async fn trap_5_a_late_renewal_does_not_save_a_lost_lock() {
    let store = memory();
    let wire = Stopped::new(store.clone());
    let client = paused().watchdog(ms(3000)).over(wire.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    wire.stop(Which::Answers);
    wire.until_held(1).await; // The store has renewed the lock, and the answer is held back.
    let lost = guard.lost();
    lost.clone().await;
    assert!(guard.is_lost());
    wire.go_on();
    client.idle().await;
    assert!(guard.is_lost() && guard.remaining().is_zero());
    assert_eq!(held(&store).await, ["orders"], "the store still has the hold");
    assert_eq!(kind(guard.release().await), Some(ErrorKind::Lost));
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}

/// 6. The store stops for longer than the ttl, and applies a claim at the end of that time. The engine must not stop
///    repeating the release of that claim merely because the ttl has passed.
#[tokio::test(start_paused = true)]
async fn trap_6_a_release_is_repeated_for_longer_than_the_ttl() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let client = client(wire.clone());
    client.ready().await.unwrap();
    wire.next([Fate::Late(ms(40_000))]);
    wire.always(Fate::RequestLost);
    let asking = waiting(&client, "orders").await;
    client.mutex("other").try_lock().await.unwrap_err();
    asking.abort();
    assert!(asking.await.is_err());
    time::sleep(ms(36_900)).await;
    wire.heal();
    soon(client.idle()).await;
    time::sleep(ms(200)).await;
    assert_eq!(held(&store).await, [""; 0]);
}

/// 6. A release without an answer is repeated, and the repetition finds nothing to release. The engine must not report
///    this as a loss, because the first release may have been applied.
#[tokio::test(start_paused = true)]
async fn trap_6_a_repeated_release_is_no_loss() {
    let wire = Lossy::new(memory());
    let client = client(wire.clone());
    for fate in [Fate::ReplyLost, Fate::RequestLost, Fate::Refused] {
        let guard = client.mutex("orders").lock().await.unwrap();
        wire.next([fate, fate, fate]);
        guard.release().await.unwrap();
    }
}

/// 6. But if the first release finds nothing to release, the lock was lost. The engine must report this loss, even if
///    an answer to the claim was lost.
#[tokio::test(start_paused = true)]
async fn trap_6_a_first_release_reports_a_loss() {
    for fates in [&[][..], &[Fate::ReplyLost], &[Fate::RequestLost]] {
        let store = bandog_conformance::wrap::Forgetful::new(memory());
        let wire = Lossy::new(store.clone());
        let client = client(wire.clone());
        client.ready().await.unwrap();
        wire.next(fates.iter().copied());
        let guard = client.mutex("orders").lock().await.unwrap();
        store.forget(&crate::kit::key("orders")).await.unwrap();
        assert_eq!(kind(guard.release().await), Some(ErrorKind::Lost), "{fates:?}");
    }
}

/// 6. If the last handle is dropped on the engine's own thread, the drop must not wait for the engine.
#[test]
fn trap_6_the_engine_does_not_wait_for_itself() {
    let backend = Keeper::new();
    let client = Client::over(backend.clone()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mutex = client.mutex("orders");
    *backend.kept.lock().unwrap() = Some(client);
    let mut asking = Box::pin(async move { mutex.try_lock().await });
    // Now there are two handles: one in this call, and one in the backend.
    drop(runtime.block_on(async { futures_util::poll!(&mut asking) }));
    drop(asking);
    backend.caller_has_gone.notify_one();
    let took = || *backend.took.lock().unwrap_or_else(PoisonError::into_inner);
    bandog_testkit::eventually(ms(10_000), || took().is_some());
    assert!(took().is_some_and(|took| took < ms(90)), "the drop waited {:?}", took());
}

/// A backend that keeps a handle of its own client, and drops it at its first request.
#[derive(Debug, Clone)]
struct Keeper {
    store: Memory,
    kept: Arc<Mutex<Option<Client>>>,
    /// The caller has dropped its own handle.
    caller_has_gone: Arc<tokio::sync::Notify>,
    /// How long the drop of that handle took.
    took: Arc<Mutex<Option<std::time::Duration>>>,
}

impl Keeper {
    fn new() -> Self {
        Self {
            store: Memory::new(Clock::system()),
            kept: Arc::default(),
            caller_has_gone: Arc::default(),
            took: Arc::default(),
        }
    }
}

#[async_trait]
impl Leases for Keeper {
    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        self.caller_has_gone.notified().await;
        if let Some(client) = self.kept.lock().unwrap().take() {
            let start = Instant::now();
            drop(client);
            *self.took.lock().unwrap() = Some(start.elapsed());
        }
        self.store.apply(steps).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
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
impl Inspect for Keeper {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.store.list(pattern).await
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        self.store.show(key).await
    }
}

/// 7. The engine repeats a request that was certainly not applied. The caller does not notice the repetition.
#[tokio::test(start_paused = true)]
async fn trap_7_a_request_that_was_not_applied_is_repeated() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let counts = Counting::new(wire.clone());
    let client = client(counts.clone());
    wire.next([Fate::Refused]);
    let guard = client.mutex("orders").lock().await.unwrap();
    wire.next([Fate::Refused]);
    guard.release().await.unwrap();
    assert_eq!((counts.claims(), counts.releases()), (2, 2));
    assert_eq!(held(&store).await, [""; 0]);
    client.idle().await;
    assert_eq!(counts.releases(), 2, "no release may be repeated");
}

/// 9. The `JoinHandle` of a finished task keeps the task's output alive. If the output is a guard, its lock stays held.
#[tokio::test(start_paused = true)]
async fn trap_9_a_finished_tasks_handle_keeps_its_guard() {
    let store = memory();
    let client = client(store.clone());
    let task = waiting(&client, "orders").await;
    while !task.is_finished() {
        tokio::task::yield_now().await;
    }
    time::sleep(ms(100_000)).await;
    assert_eq!(held(&store).await, ["orders"], "the lock is renewed, because its guard exists");
    drop(task);
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}

impl bandog_core::Records for Keeper {}

impl bandog_core::Latches for Keeper {}

impl bandog_core::Backend for Keeper {}
