//! Answers that are missing, late or outdated. Also tests of `max_hold`, of the limit of waiting calls, and of
//! prefixes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use bandog_conformance::wrap::{Counting, Fate, Forgetful, Lossy, Stopped, Which};
use bandog_core::{
    Answer, Claim, Clock, Error, ErrorKind, Inspect, Key, Leases, Memory, Notifier, Pattern, Profile, Renewal, Result,
    Row, Step, Subscription,
};
use bandog_sync::Client;
use tokio::time;

use crate::kit::{client, held, kind, memory, ms, paused, soon, waiting};

/// A backend that can hang, and that can return too few answers.
#[derive(Debug, Clone)]
struct Odd {
    store: Memory,
    /// Whether requests hang, and then fail.
    hangs: Arc<AtomicBool>,
    /// Whether no answers are returned.
    short: Arc<AtomicBool>,
}

impl Odd {
    fn new() -> Self {
        Self { store: memory(), hangs: Arc::default(), short: Arc::default() }
    }
}

#[async_trait]
impl Leases for Odd {
    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        if self.hangs.load(SeqCst) {
            time::sleep(Duration::from_secs(3)).await;
            return steps.iter().map(|_| Err(Error::unavailable("it hangs"))).collect();
        }
        time::sleep(ms(1)).await;
        let mut answers = self.store.apply(steps).await;
        answers.truncate(if self.short.load(SeqCst) { 0 } else { usize::MAX });
        answers
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        if self.short.load(SeqCst) { Vec::new() } else { self.store.renew(claims).await }
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.store.subscribe(claim, notifier).await
    }

    fn profile(&self) -> Profile {
        self.store.profile()
    }
}

#[async_trait]
impl Inspect for Odd {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.store.list(pattern).await
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        self.store.show(key).await
    }
}

/// When a client has used a lock many times in a row, it rests: for a few round trips it does not claim the lock, so
/// that other clients can get it. A request that timed out must not count as a round trip. Otherwise the client would
/// rest for seconds.
#[tokio::test(start_paused = true)]
async fn a_request_that_timed_out_does_not_count_as_a_round_trip() {
    let store = Odd::new();
    let ours = client(store.clone());
    drop(ours.mutex("orders").lock().await.unwrap());
    store.hangs.store(true, SeqCst);
    for _ in 0..5 {
        ours.mutex("other").try_lock().await.unwrap_err();
    }
    store.hangs.store(false, SeqCst);
    let theirs = client(store.store.clone());
    let mut guard = ours.mutex("orders").lock().await.unwrap();
    let mut their_call = waiting(&theirs, "orders").await;
    let (their_guard, next) = loop {
        let mut next = waiting(&ours, "orders").await;
        drop(guard);
        tokio::select! {
            turn = &mut next => guard = turn.unwrap().unwrap(),
            theirs = &mut their_call => break (theirs.unwrap().unwrap(), next),
        }
    };
    drop(their_guard);
    let freed = Clock::tokio().now();
    drop(soon(next).await.unwrap().unwrap());
    let took = Clock::tokio().now().since(freed);
    assert!(took <= ms(100), "the client claimed a free lock only after {took:?}");
}

/// The first request of a claim has no answer and is applied late. The repeated request is granted. Then the client
/// tries to pass the hold: one request releases it and claims a new one with other terms. The pass fails. The
/// first claim must still be released twice, because its first request may be applied after the first release.
#[tokio::test(start_paused = true)]
async fn after_a_failed_pass_an_unsure_claim_is_released_twice() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let client = client(wire.clone());
    client.ready().await.unwrap();
    wire.next([Fate::Late(ms(2500)), Fate::Well]);
    let guard = client.mutex("orders").lock().await.unwrap();
    let other_terms = client.mutex("orders").lease(ms(5000));
    let next = tokio::spawn(async move { other_terms.lock().await });
    tokio::task::yield_now().await;
    wire.always(Fate::Refused);
    drop(guard);
    time::sleep(ms(100)).await;
    next.abort();
    assert!(next.await.is_err());
    time::sleep(ms(10)).await;
    wire.heal();
    soon(client.idle()).await;
    time::sleep(ms(3000)).await;
    assert_eq!(held(&store).await, [""; 0]);
}

/// A fixed lease is not renewed. So after a reconnection the client asks the store whether the lease still exists.
// Promise: L8
#[tokio::test(start_paused = true)]
async fn after_a_reconnection_a_fixed_lease_is_checked() {
    let store = memory();
    let wire = Forgetful::new(store.clone());
    let client = client(wire.clone());
    let guard = client.mutex("orders").lease(Duration::from_secs(3600)).lock().await.unwrap();
    wire.reconnected();
    client.idle().await;
    time::sleep(ms(1)).await;
    assert!(!guard.is_lost(), "the store still has the lease");
    wire.forget(&guard.holding().key).await.unwrap();
    wire.reconnected();
    time::timeout(ms(1000), guard.lost()).await.expect("the guard must be lost within a second");
}

/// The check of a fixed lease after a reconnection does not extend the lease, neither in the store nor in the client.
#[tokio::test(start_paused = true)]
async fn a_check_of_a_fixed_lease_does_not_extend_it() {
    let store = memory();
    let wire = Forgetful::new(store.clone());
    let client = client(wire.clone());
    let guard = client.mutex("orders").lease(Duration::from_secs(10)).lock().await.unwrap();
    time::sleep(Duration::from_secs(6)).await;
    wire.reconnected();
    time::sleep(ms(10)).await;
    client.idle().await;
    let left = store.show(&guard.holding().key).await.unwrap().holders[0].ttl.unwrap();
    assert!(left <= Duration::from_secs(4), "{left:?} left");
    assert!(guard.remaining() <= Duration::from_secs(4));
    time::timeout(Duration::from_secs(4), guard.lost()).await.expect("the guard must be lost when its lease expires");
}

/// The store decides "busy" for one call. Then the lock is released, and a second call begins. The late answer must not
/// count for the second call.
#[tokio::test(start_paused = true)]
async fn try_lock_is_not_refused_by_an_older_answer() {
    let store = memory();
    let wire = Stopped::new(store.clone());
    let (ours, theirs) = (client(wire.clone()), client(store.clone()));
    ours.ready().await.unwrap();
    let guard = theirs.mutex("orders").lock().await.unwrap();
    wire.stop(Which::Answers);
    let mutex = ours.mutex("orders");
    let early = tokio::spawn(async move { mutex.try_lock().await });
    wire.until_held(1).await;
    guard.release().await.unwrap();
    let mutex = ours.mutex("orders");
    let late = tokio::spawn(async move { mutex.try_lock().await });
    tokio::task::yield_now().await;
    wire.go_on();
    assert!(soon(early).await.unwrap().unwrap().is_none(), "the lock was held when the store decided");
    assert!(soon(late).await.unwrap().unwrap().is_some(), "the lock was free during the whole call");
}

/// If a backend returns fewer answers than requests, calls get an error, and no call waits forever.
#[tokio::test(start_paused = true)]
async fn too_few_answers_are_an_error() {
    let store = Odd::new();
    let client = client(store.clone());
    let guard = client.mutex("orders").lock().await.unwrap();
    store.short.store(true, SeqCst);
    let refused = time::timeout(ms(5000), client.mutex("other").lock()).await.expect("the call must end");
    assert_eq!(kind(refused), Some(ErrorKind::Corrupt));
    time::timeout(Duration::from_secs(30), guard.lost()).await.expect("the guard must be lost at the deadline");
}

/// The deadline of a hold passes, and its guard is dropped before the engine runs. The release of the lost hold must be
/// sent before the next claim. Otherwise the store would refuse the claim because of this client's own hold.
#[tokio::test]
async fn the_next_claim_is_sent_after_the_release_of_a_lost_hold() {
    let store = Memory::new(Clock::system());
    let counted = Counting::new(store.clone());
    let client = Client::options().on_current_runtime().over(counted.clone()).unwrap();
    let guard = client.mutex("orders").lease(ms(100)).lock().await.unwrap();
    let next = waiting(&client, "orders").await;
    client.mutex("orders").try_lock().await.unwrap();
    std::thread::sleep(guard.remaining() + ms(1)); // The engine cannot run during this sleep.
    drop(guard);
    drop(soon(next).await.unwrap().unwrap());
    assert_eq!(counted.refusals(), 0);
}

/// A lock is lost when its caller has held it for `max_hold`, even if it is renewed. For the next caller, the time
/// starts again at zero.
// Promise: L26
#[tokio::test(start_paused = true)]
async fn max_hold_ends_each_turn() {
    let store = memory();
    let client = paused().watchdog(ms(3000)).over(store.clone()).unwrap();
    let mutex = client.mutex("orders").max_hold(Duration::from_secs(60));
    let first = mutex.lock().await.unwrap();
    let begun = Clock::tokio().now();
    let next = tokio::spawn(async move { mutex.lock().await });
    time::sleep(Duration::from_secs(40)).await;
    assert!(!first.is_lost(), "the lock is renewed");
    first.release().await.unwrap();
    let second = soon(next).await.unwrap().unwrap();
    assert_eq!(second.remaining().as_secs().min(3), 2, "the ttl is the limit, and the first turn does not count");
    second.lost().await;
    let took = Clock::tokio().now().since(begun);
    assert!((Duration::from_secs(100)..Duration::from_secs(101)).contains(&took), "lost after {took:?}");
    assert!(second.is_lost() && second.remaining().is_zero());
    let error = second.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().contains("its max_hold of 60s is over"), "{error}");
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
    let short = client.mutex("orders").max_hold(ms(500)).lock().await.unwrap();
    assert!(short.remaining() <= ms(500), "a guard knows its max_hold at once");
    drop(short);
    for wrong in [Duration::ZERO, ms(99), Duration::MAX] {
        assert_eq!(
            kind(client.mutex("orders").max_hold(wrong).try_lock().await),
            Some(ErrorKind::Misused),
            "{wrong:?}"
        );
    }
}

/// A call above the limit of waiting calls fails immediately. A call that is cancelled no longer counts.
#[tokio::test(start_paused = true)]
async fn too_many_waiting_calls_are_overloaded() {
    let store = memory();
    let client = paused().max_waiting(2).over(store.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    let (one, two) = (waiting(&client, "orders").await, waiting(&client, "orders").await);
    let error = client.mutex("other").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    assert!(error.to_string().contains("2 calls"), "{error}");
    one.abort();
    assert!(one.await.is_err());
    drop(client.mutex("other").lock().await.unwrap());
    drop(guard);
    drop(soon(two).await.unwrap().unwrap());
    drop(client.mutex("other").lock().await.unwrap());
}

/// Calls and lists use names without the prefix. Keys contain the prefix.
#[tokio::test(start_paused = true)]
async fn a_prefix_keeps_systems_apart() {
    let store = memory();
    let shop = paused().prefix("shop:").over(store.clone()).unwrap();
    let bank = paused().prefix("b*nk:").over(store.clone()).unwrap();
    let (ours, theirs) = (shop.mutex("orders").lock().await.unwrap(), bank.mutex("orders").lock().await.unwrap());
    assert_eq!((ours.key(), theirs.key()), ("shop:orders", "b*nk:orders"));
    let banana = client(store.clone()).mutex("banana nk:orders").lock().await.unwrap();
    for client in [&shop, &bank] {
        let rows = client.list(Pattern::all()).await.unwrap();
        assert_eq!(rows.iter().map(|row| &row.name).collect::<Vec<_>>(), ["orders"]);
        let row = client.show("orders").await.unwrap();
        assert!(row.is_held() && row.name == "orders");
        assert!(client.evict("orders").await.unwrap().is_some());
    }
    assert_eq!(held(&store).await, ["banana nk:orders"]);
    drop((ours, theirs, banana));
    for wrong in [":", "shop", "sh\nop:", &"x".repeat(256), &format!("{}:", "x".repeat(256))] {
        assert_eq!(kind(paused().prefix(wrong).over(memory())), Some(ErrorKind::Misused), "{wrong:?}");
    }
    let long = "x".repeat(1020);
    assert_eq!(kind(shop.mutex(long).lock().await), Some(ErrorKind::Misused), "the name is too long with the prefix");
    assert_eq!(kind(shop.mutex("").lock().await), Some(ErrorKind::Misused), "a prefix is not a name");
}

impl bandog_core::Records for Odd {}

impl bandog_core::Latches for Odd {}

impl bandog_core::Backend for Odd {}

/// A client that has released thousands of locks sends these releases again after a reconnection. Its next claim must not
/// wait behind all of them.
#[tokio::test(start_paused = true)]
async fn releases_are_sent_again_in_portions() {
    const MANY: usize = 600;
    let store = Forgetful::new(memory());
    let wire = Stopped::new(store.clone());
    let counts = Counting::new(wire.clone());
    let client = client(counts.clone());
    for number in 0..MANY {
        client.mutex(format!("job-{number}")).lock().await.unwrap().release().await.unwrap();
    }
    client.idle().await;
    let before = counts.releases();
    wire.stop(Which::Requests);
    store.reconnected();
    time::sleep(ms(1000)).await;
    assert_eq!(counts.releases() - before, 256);
    wire.go_on();
    soon(client.idle()).await;
    assert_eq!(counts.releases() - before, MANY);
    let guard = soon(client.mutex("orders").lock()).await.unwrap();
    assert_eq!(held(&store).await, ["orders"]);
    guard.release().await.unwrap();
}
