//! Threads are the owners of their locks.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bandog_conformance::wrap::Counting;
use bandog_sync::blocking;

use super::{client, held, memory};
use crate::kit::ms;

fn shared<T: Send + Sync + Clone + 'static>() {}
fn readable<T: Sync>() {}

#[test]
fn handles_cross_threads_and_guards_can_be_read() {
    shared::<blocking::Client>();
    shared::<blocking::Mutex>();
    shared::<blocking::Lost>();
    readable::<blocking::Guard>();
}

/// If a thread takes a lock several times, only the first call and the last release send a request to the store.
// Promise: B1
#[test]
fn re_entry_is_counted_and_costs_no_round_trip() {
    let store = Counting::new(memory());
    let client = client(store.clone());
    let mut guards = vec![client.mutex("orders").lock().unwrap()];
    for _ in 0..100 {
        guards.push(client.mutex("orders").lock().unwrap());
        guards.push(client.clone().mutex("orders").try_lock().unwrap().unwrap());
        guards.push(client.mutex("orders").try_lock_for(ms(1)).unwrap().unwrap());
    }
    assert!(guards.iter().all(|guard| guard.fence() == guards[0].fence()));
    client.mutex("orders").run(|guard| assert_eq!(guard.fence(), guards[0].fence())).unwrap();
    while guards.len() > 1 {
        guards.pop().unwrap().release().unwrap();
    }
    client.idle().unwrap();
    assert_eq!((store.claims(), store.releases()), (1, 0));
    let orders = client.mutex("orders");
    thread::scope(|scope| scope.spawn(|| assert!(orders.try_lock().unwrap().is_none())).join().unwrap());
    guards.pop().unwrap().release().unwrap();
    client.idle().unwrap();
    assert_eq!((store.claims(), store.releases()), (1, 1));
    thread::scope(|scope| scope.spawn(|| assert!(orders.try_lock().unwrap().is_some())).join().unwrap());
}

/// Each holder reads a counter and writes it back. With two holders at the same time, an addition would be lost.
// Promise: B1
#[test]
fn threads_exclude_each_other() {
    let store = memory();
    let clients = [client(store.clone()), client(store)];
    let (count, last) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for worker in 0..8 {
            let orders = clients[worker % 2].mutex("orders");
            let (count, last) = (&count, &last);
            scope.spawn(move || {
                for _ in 0..50 {
                    let guard = orders.lock().unwrap();
                    let again = orders.lock().unwrap();
                    let read = count.load(Relaxed);
                    thread::yield_now();
                    count.store(read + 1, Relaxed);
                    assert!(last.swap(guard.fence().get(), Relaxed) < guard.fence().get(), "the fences must rise");
                    drop(guard);
                    again.release().unwrap();
                }
            });
        }
    });
    assert_eq!(count.load(Relaxed), 400);
}

/// A thread is a different owner for each client. So if it holds a lock with one client, it cannot take that lock again
/// with another client.
#[test]
fn a_thread_is_another_owner_for_each_client() {
    let store = memory();
    let (one, other) = (client(store.clone()), client(store));
    let guard = one.mutex("orders").lock().unwrap();
    assert!(other.mutex("orders").try_lock().unwrap().is_none());
    let foreign = other.mutex("stock").lock().unwrap();
    assert_eq!(other.mutex("stock").lock().unwrap().fence(), foreign.fence());
    assert!(one.mutex("stock").try_lock().unwrap().is_none());
    let first = guard.fence();
    guard.release().unwrap();
    let again = other.mutex("orders").lock().unwrap();
    assert!(again.fence() > first);
    again.release().unwrap();
    foreign.release().unwrap();
}

/// The async and the blocking API of a client exclude each other. A thread's lock cannot be re-entered by an async
/// call.
#[test]
fn async_and_blocking_calls_share_one_client() {
    let blocking = client(memory());
    let client = blocking.to_async();
    assert_eq!(blocking.id(), client.id());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let guard = runtime.block_on(client.mutex("orders").lock()).unwrap();
    assert!(blocking.mutex("orders").try_lock().unwrap().is_none());
    let orders = blocking.mutex("orders");
    let waiting = thread::spawn(move || orders.lock().unwrap().fence());
    let first = guard.fence();
    runtime.block_on(guard.release()).unwrap();
    assert!(waiting.join().unwrap() > first);
    let guard = client.blocking().unwrap().mutex("orders").lock().unwrap();
    assert!(runtime.block_on(client.mutex("orders").try_lock()).unwrap().is_none());
    guard.release().unwrap();
}

/// A thousand threads wait for a lock, and all get it.
#[test]
fn a_thousand_waiting_threads_get_the_lock() {
    const CROWD: usize = 1000;
    let client = client(memory());
    let first = client.mutex("orders").lock().unwrap();
    let (served, all_here) = (Arc::new(AtomicU64::new(0)), Arc::new(Barrier::new(CROWD + 1)));
    let crowd: Vec<_> = (0..CROWD)
        .map(|_| {
            let (orders, served, all_here) = (client.mutex("orders"), Arc::clone(&served), Arc::clone(&all_here));
            let thread = thread::Builder::new().stack_size(256 * 1024);
            let waits = move || {
                all_here.wait();
                let guard = orders.lock().unwrap();
                let read = served.load(Relaxed);
                served.store(read + 1, Relaxed);
                guard.release().unwrap();
            };
            thread.spawn(waits).unwrap()
        })
        .collect();
    all_here.wait();
    first.release().unwrap();
    for thread in crowd {
        thread.join().unwrap();
    }
    assert_eq!(served.load(Relaxed), CROWD as u64);
    assert_eq!(held(&client), [""; 0]);
}

#[test]
fn threads_with_one_owner_share_a_lock() {
    let client = client(memory());
    let owner = client.owner();
    let guard = client.mutex("a").by(&owner).lock().unwrap();
    thread::scope(|scope| {
        let shares = scope.spawn(|| client.mutex("a").by(&owner).try_lock().unwrap().map(|again| again.fence()));
        assert_eq!(shares.join().unwrap(), Some(guard.fence()));
        let other = scope.spawn(|| client.mutex("a").try_lock().unwrap().is_none());
        assert!(other.join().unwrap(), "a thread without the owner does not get the lock");
    });
}

#[test]
fn a_thread_waits_until_a_lock_is_about_to_be_lost() {
    let client = client(memory());
    let guard = client.mutex("a").lease(Duration::from_secs(2)).lock().unwrap();
    let expiring = guard.expiring(Duration::from_millis(1800));
    assert!(thread::spawn(move || expiring.wait()).join().unwrap().unwrap());
    assert!(!guard.is_lost());
    let lost = guard.expiring(Duration::ZERO);
    let waits = thread::spawn(move || lost.wait());
    guard.release().unwrap();
    assert!(!waits.join().unwrap().unwrap(), "the lock was released");
}
