//! The registration of clients, and evictions (an operator takes a lock from its holder).

use std::time::Duration;

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, Error, ErrorKind, Inspect, Key, Leases, Level, Member, Memory, Notifier, Pattern, Profile, Renewal,
    Result, Row, Step, Subscription,
};
use tokio::time;

use crate::kit::{client, held, memory, ms, paused, soon, waiting};

/// The programs of the registered clients.
async fn registered_programs(store: &impl Inspect) -> Vec<String> {
    store.members().await.unwrap().into_iter().map(|member| member.program).collect()
}

#[tokio::test(start_paused = true)]
async fn a_client_is_registered_while_it_holds_or_waits() {
    let store = memory();
    let ours = paused().program("ours").over(store.clone()).unwrap();
    let theirs = paused().program("theirs").over(store.clone()).unwrap();
    let guard = ours.mutex("orders").lock().await.unwrap();
    assert_eq!(registered_programs(&store).await, [""; 0], "the client must not be registered at once");
    time::sleep(ms(101)).await;
    assert_eq!(registered_programs(&store).await, ["ours"]);
    let waiter = waiting(&theirs, "orders").await;
    time::sleep(ms(101)).await;
    let row = ours.show("orders").await.unwrap();
    let holder = row.member().unwrap();
    assert_eq!((holder.id, holder.pid, &*holder.program), (ours.id(), std::process::id(), "ours"));
    assert!(!holder.host.is_empty());
    assert_eq!(row.waiters.iter().map(|member| member.id).collect::<Vec<_>>(), [theirs.id()]);
    time::sleep(Duration::from_secs(120)).await;
    assert_eq!(registered_programs(&store).await.len(), 2, "the registrations must be renewed");
    drop(guard);
    let guard = soon(waiter).await.unwrap().unwrap();
    time::sleep(Duration::from_secs(2)).await;
    let row = ours.show("orders").await.unwrap();
    assert_eq!(row.member().map(|member| member.id), Some(theirs.id()));
    assert_eq!(row.waiters, [], "a holder must not be listed as a waiter");
    time::sleep(Duration::from_secs(60)).await;
    assert_eq!(registered_programs(&store).await, ["theirs"], "a client without a lock must not be registered");
    theirs.close().await.unwrap();
    assert_eq!(registered_programs(&store).await, [""; 0]);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_died_stays_registered_for_a_ttl() {
    let store = memory();
    let ours = paused().watchdog(ms(3000)).over(store.clone()).unwrap();
    let guard = ours.mutex("orders").lock().await.unwrap();
    time::sleep(ms(200)).await;
    let member = store.members().await.unwrap().remove(0);
    ours.close().await.unwrap();
    store.register(&member, ms(3000)).await.unwrap(); // A dead client would leave this row in the registry.
    time::sleep(ms(2999)).await;
    assert_eq!(registered_programs(&store).await.len(), 1);
    time::sleep(ms(1)).await;
    assert_eq!(registered_programs(&store).await.len(), 0);
    drop(guard);
}

/// A store that does not let this client write to the registry. The second field is the number of attempts to register.
#[derive(Debug, Clone)]
struct Shut(Memory, std::sync::Arc<std::sync::atomic::AtomicUsize>);

#[async_trait]
impl Leases for Shut {
    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        self.0.apply(steps).await
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        self.0.renew(claims).await
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        self.0.subscribe(claim, notifier).await
    }

    async fn register(&self, _: &Member, _: Duration) -> Result<()> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Err(Error::new(ErrorKind::Denied, "no right"))
    }

    fn profile(&self) -> Profile {
        self.0.profile()
    }
}

#[async_trait]
impl Inspect for Shut {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.0.list(pattern).await
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        self.0.show(key).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_refuses_does_not_affect_locks_and_gets_one_request() {
    let store = Shut(memory(), Default::default());
    let client = client(store.clone());
    let guard = client.mutex("orders").lock().await.unwrap();
    time::sleep(Duration::from_secs(300)).await;
    assert!(!guard.is_lost());
    assert_eq!(store.1.load(std::sync::atomic::Ordering::SeqCst), 1);
    guard.release().await.unwrap();
    let again = client.mutex("orders").lock().await.unwrap();
    time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.1.load(std::sync::atomic::Ordering::SeqCst), 1);
    drop(again);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_guard_is_lost_and_fences_rise() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    assert_eq!(ours.evict("orders").await.unwrap(), None, "the lock was not held");
    let guard = ours.mutex("orders").lock().await.unwrap();
    let next = waiting(&theirs, "orders").await;
    let row = ours.evict("orders").await.unwrap().unwrap();
    assert_eq!((row.name.as_str(), row.client()), ("orders", Some(ours.id())));
    time::timeout(ms(1), guard.lost()).await.expect("this client's guard must be lost at once");
    let theirs_guard = time::timeout(ms(10), next).await.expect("the waiting call must be notified").unwrap().unwrap();
    assert!(theirs_guard.fence() > guard.fence());
    drop(guard);
    ours.idle().await;
    assert_eq!(held(&store).await, ["orders"], "the evicted guard must not free the next holder's lock");
    assert!(ours.evict("orders").await.unwrap().is_some());
    time::timeout(ms(10_100), theirs_guard.lost()).await.expect("the guard must be lost at the next renewal");
}

#[tokio::test(start_paused = true)]
async fn a_prefix_that_begins_with_another_is_reported() {
    let store = memory();
    let ask = async |prefix: &str| {
        let findings = paused().prefix(prefix).over(store.clone()).unwrap().check().await.unwrap();
        findings.into_iter().find(|finding| finding.subject == "prefix").unwrap()
    };
    assert_eq!(ask("").await.level, Level::Fine);
    let shop = paused().prefix("shop:").over(store.clone()).unwrap();
    let guard = shop.mutex("orders").lock().await.unwrap();
    time::sleep(ms(200)).await;
    for (prefix, level) in
        [("", Level::Fine), ("shop:", Level::Fine), ("bank:", Level::Fine), ("shop:eu:", Level::Advice)]
    {
        assert_eq!(ask(prefix).await.level, level, "{prefix}");
    }
    drop(guard);
}

impl bandog_core::Records for Shut {}

impl bandog_core::Latches for Shut {}

impl bandog_core::Backend for Shut {}

/// An operator does not see a waiter that has given up, whether the client holds another lock or not.
#[tokio::test(start_paused = true)]
async fn a_call_that_no_longer_waits_is_soon_not_listed_any_more() {
    let store = memory();
    let (holder, waiter) = (client(store.clone()), client(store.clone()));
    for (name, has_another) in [("a", false), ("b", true)] {
        for is_dropped in [false, true] {
            let held = holder.mutex(name).lock().await.unwrap();
            let another = if has_another { Some(waiter.mutex("another").lock().await.unwrap()) } else { None };
            let orders = waiter.mutex(name);
            let waits = async {
                let limit = if is_dropped { ms(600_000) } else { ms(3000) };
                time::timeout(ms(3000), orders.try_lock_for(limit)).await
            };
            let seen = async {
                time::sleep(ms(2000)).await;
                holder.show(name).await.unwrap().waiters.len()
            };
            assert_eq!(tokio::join!(waits, seen).1, 1, "{name}, dropped: {is_dropped}");
            time::sleep(ms(1500)).await;
            let row = holder.show(name).await.unwrap();
            assert!(row.waiters.is_empty(), "{name}, dropped: {is_dropped}: {row:?}");
            drop((held, another));
            holder.idle().await;
            time::sleep(ms(60_000)).await;
        }
    }
}
