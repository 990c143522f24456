//! A database that is full of the rows of other clients: no call reads them.

use std::{slice, time::Duration};

use bandog_core::{Inspect, Key, Leases, Line, Records, Step, Swap, Swapped};
use bandog_sync::Client;

use super::{TTL, claim, open, release, renew, take};

/// The number of rows of other clients in each table. A scan of one table reads more rows than all calls of [`use_all`].
pub(crate) const ROWS: u32 = 20_000;
/// Number of names of a call for many names.
const NAMES: usize = 40;

/// Creates the tables.
pub(crate) async fn create(url: &str) {
    let (store, first) = (open(url), claim("first"));
    take(&store, &first).await;
    release(&store, &first).await;
}

/// Calls everything that locks, jobs and guards do with the store, also with many names at once.
pub(crate) async fn use_all(url: &str) {
    let store = open(url);
    let claims: Vec<_> = (0..NAMES).map(|number| claim(&format!("ours/{number}"))).collect();
    let steps = |step: fn(_) -> Step| claims.iter().cloned().map(step).collect::<Vec<_>>();
    for claims in [&claims[..1], &claims] {
        let steps = |step: fn(_) -> Step| claims.iter().cloned().map(step).collect::<Vec<_>>();
        assert!(store.apply(&steps(Step::Claim)).await.iter().all(Result::is_ok));
        assert!(store.renew(claims).await.iter().all(Result::is_ok));
        assert!(store.apply(&steps(Step::Release)).await.iter().all(Result::is_ok));
    }
    assert!(store.apply(&steps(Step::Claim)).await.iter().all(Result::is_ok));
    renew(&store, &claims[0]).await.unwrap();
    store.show(&claims[0].key).await.unwrap();
    store.evict(&claims[0].key).await.unwrap();
    store.forget(&claims[0].key).await.unwrap();
    use_records(&store).await;
    use_locks(url).await;
}

/// Writes, reads and deletes records with lines.
async fn use_records(store: &(impl Records + ?Sized)) {
    let keys: Vec<_> = (0..NAMES).map(|number| Key::new(format!("ours/{number}")).unwrap()).collect();
    let line = Line { slot: "ours".into(), value: "line".into() };
    let create = |key: &Key| Swap { lines: vec![line.clone()], ..Swap::new(key.clone(), None, "text") };
    let mut swaps: Vec<_> = keys.iter().map(create).collect();
    for value in [Some("again".to_owned()), None] {
        let one = store.swap(slice::from_ref(&swaps[0])).await.unwrap().each;
        let rest = store.swap(&swaps[1..]).await.unwrap().each;
        for (swap, done) in swaps.iter_mut().zip(one.into_iter().chain(rest)) {
            let Ok(Swapped::Done(version)) = done else { panic!("{done:?}") };
            (swap.from, swap.to) = (version, value.clone());
        }
        store.read(&keys, &[]).await.unwrap();
        store.history(&keys[0]).await.unwrap();
    }
    store.swap(&swaps).await.unwrap();
}

/// Uses each kind of lock with two clients, of which one waits for the other one.
async fn use_locks(url: &str) {
    let [ours, theirs] = [(); 2].map(|()| Client::options().watchdog(TTL).over(open(url)).unwrap());
    let held = theirs.mutex("turn").lock().await.unwrap();
    let mutex = ours.mutex("turn");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    bandog_testkit::eventually_async(super::SOON, async || theirs.members().await.unwrap().len() == 2).await;
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    for client in [&ours, &theirs] {
        client.mutex("fair").fair().lock().await.unwrap().release().await.unwrap();
        client.rwlock("catalogue").read().await.unwrap().release().await.unwrap();
        client.rwlock("catalogue").write().await.unwrap().release().await.unwrap();
        client.semaphore("gpus", 3).permits(2).acquire().await.unwrap().release().await.unwrap();
        client.latch("start").count_down().await.unwrap();
        client.show("turn").await.unwrap();
        tokio::time::timeout(Duration::from_secs(10), client.close()).await.unwrap().unwrap();
    }
}
