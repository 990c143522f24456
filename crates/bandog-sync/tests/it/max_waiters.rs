//! `max_waiters`: a call that would be one waiting call too many is refused at once.

use bandog_core::{ErrorKind, Kind};
use bandog_sync::{AnyLock, Client};
use tokio::time::{self, Instant};

use crate::kit::{client, kind, memory, ms, soon};

/// Starts calls with this limit, and returns what each of them returned at once: nothing if it waits.
async fn ends_of_calls(client: &Client, lock: impl Fn(&Client) -> AnyLock, calls: usize) -> Vec<Option<ErrorKind>> {
    let mut ends = Vec::new();
    for _ in 0..calls {
        let all = bandog_sync::all([lock(client)]);
        let call = tokio::spawn(async move { all.lock().await });
        time::sleep(ms(50)).await;
        ends.push(if call.is_finished() { kind(call.await.unwrap()) } else { None });
    }
    ends
}

fn lock(kind: Kind, client: &Client) -> AnyLock {
    match kind {
        Kind::Mutex => client.mutex("orders").max_waiters(2).into(),
        Kind::Fair => client.mutex("orders").fair().max_waiters(2).into(),
        Kind::Read => AnyLock::read(&client.rwlock("orders").max_waiters(2)),
        Kind::Write => AnyLock::write(&client.rwlock("orders").max_waiters(2)).into(),
        Kind::Permits { .. } => client.semaphore("orders", 1).max_waiters(2).into(),
    }
}

const ONE: std::num::NonZeroU32 = std::num::NonZeroU32::MIN;
const KINDS: [Kind; 5] = [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, Kind::Permits { take: ONE, of: ONE }];

/// The holder can be this client or another one. In both cases, two calls wait, and each further call is refused at once.
// Promise: K19
#[tokio::test(start_paused = true)]
async fn a_call_too_many_is_refused_at_once() {
    for kind in KINDS {
        for holds_itself in [false, true] {
            let store = memory();
            let ours = client(store.clone());
            let holder = if holds_itself { ours.clone() } else { client(store) };
            let held = match kind {
                Kind::Read => AnyLock::write(&holder.rwlock("orders")).into(),
                kind => lock(kind, &holder),
            };
            let guard = bandog_sync::all([held]).lock().await.unwrap();
            let refused = Some(ErrorKind::Overloaded);
            let expected = [None, None, refused, refused];
            assert_eq!(ends_of_calls(&ours, |client| lock(kind, client), 4).await, expected, "{kind} {holds_itself}");
            assert_eq!(bandog_sync::all([lock(kind, &ours)]).try_lock().await.unwrap().map(drop), None);
            drop(guard);
            time::sleep(ms(1000)).await; // The two calls get the lock, and their guards are dropped with their results.
            drop(soon(bandog_sync::all([lock(kind, &ours)]).lock()).await.unwrap());
        }
    }
}

/// Calls that do not have to wait are not refused: the lock is free, a hold is shared, or an owner has the lock already.
#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_wait_is_not_refused() {
    let client = client(memory());
    let mutex = client.mutex("orders").max_waiters(1);
    for _ in 0..3 {
        mutex.lock().await.unwrap().release().await.unwrap();
    }
    // Two calls at the same moment, for a free lock: the first one gets the lock, so only the second one waits.
    let (first, second) = (mutex.clone(), mutex.clone());
    let first = tokio::spawn(async move { first.lock().await });
    let second = tokio::spawn(async move { second.lock().await });
    drop(soon(first).await.unwrap().unwrap());
    drop(soon(second).await.unwrap().unwrap());

    let owner = client.owner();
    for mutex in [mutex.clone(), mutex.clone().fair()] {
        let by_owner = mutex.clone().by(&owner);
        let guard = by_owner.lock().await.unwrap();
        let waits = tokio::spawn(async move { mutex.lock().await });
        time::sleep(ms(50)).await;
        let again = soon(by_owner.lock()).await.unwrap();
        drop((guard, again));
        drop(soon(waits).await.unwrap().unwrap());
    }

    let catalogue = client.rwlock("catalogue").max_waiters(1);
    let readers = [catalogue.read().await.unwrap(), catalogue.read().await.unwrap(), catalogue.read().await.unwrap()];
    drop(readers);
}

/// For a fair mutex, the calls of other clients count, too. The refused call leaves nothing behind: the next call gets
/// the place after the first waiter.
// Promise: K19
#[tokio::test(start_paused = true)]
async fn the_queue_of_a_fair_mutex_counts_all_clients() {
    let store = memory();
    let clients = [(); 3].map(|()| client(store.clone()));
    let mutexes = clients.each_ref().map(|client| client.mutex("orders").fair().max_waiters(1));
    let guard = mutexes[0].lock().await.unwrap();
    let waiting = mutexes[1].clone();
    let waiting = tokio::spawn(async move { waiting.lock().await });
    time::sleep(ms(50)).await;
    let began = Instant::now();
    let error = mutexes[2].lock().await.unwrap_err();
    assert_eq!((error.kind(), began.elapsed()), (ErrorKind::Overloaded, ms(0)));
    assert!(error.to_string().contains("the limit is 1 (max_waiters)") && error.is_retryable(), "{error}");
    clients[2].idle().await;
    let row = clients[0].show("orders").await.unwrap();
    assert_eq!(row.queue.len(), 1, "the refused call left its place behind");
    drop(guard);
    let guard = soon(waiting).await.unwrap().unwrap();
    let next = mutexes[2].clone();
    let next = tokio::spawn(async move { next.lock().await });
    time::sleep(ms(50)).await;
    drop(guard);
    drop(soon(next).await.unwrap().unwrap());
}

/// A call that is dropped, or that times out, makes room for the next one.
#[tokio::test(start_paused = true)]
async fn a_call_that_leaves_makes_room() {
    let client = client(memory());
    for mutex in [client.mutex("orders").max_waiters(1), client.mutex("orders").fair().max_waiters(1)] {
        let guard = mutex.lock().await.unwrap();
        assert!(time::timeout(ms(100), mutex.lock()).await.is_err());
        assert!(mutex.try_lock_for(ms(100)).await.unwrap().is_none());
        let waits = mutex.clone();
        let waits = tokio::spawn(async move { waits.lock().await });
        time::sleep(ms(50)).await;
        assert_eq!(kind(mutex.try_lock_for(ms(100)).await), Some(ErrorKind::Overloaded));
        waits.abort();
        let _ = waits.await;
        assert!(time::timeout(ms(100), mutex.lock()).await.is_err());
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_is_at_least_one() {
    let client = client(memory());
    let error = client.mutex("orders").max_waiters(0).lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains("max_waiters"), "{error}");
}
