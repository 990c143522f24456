//! Several locks at once (`all`). Laws 75 to 78 of the list of laws: all or none with one deadline, no deadlock of opposite
//! orders, releases that continue after an error, and the loss of one lock.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bandog_conformance::wrap::{Counting, Fate, Lossy};
use bandog_core::ErrorKind;
use bandog_sync::{AllGuard, AnyLock, Client, Guard, Mutex, all};
use tokio::{task::JoinHandle, time};

use crate::kit::{client, held, key, kind, memory, ms, paused, soon, waiting};

const NAMES: [&str; 3] = ["stock", "orders", "mail"];

fn mutexes(client: &Client) -> [Mutex; 3] {
    NAMES.map(|name| client.mutex(name))
}

#[tokio::test(start_paused = true)]
async fn all_locks_are_taken_or_none() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    let locks = all(mutexes(&ours));
    for name in NAMES {
        let other = theirs.mutex(name).lock().await.unwrap();
        assert!(locks.try_lock().await.unwrap().is_none());
        ours.idle().await;
        assert_eq!(held(&store).await, [name]);
        other.release().await.unwrap();
    }
    let guard = locks.try_lock().await.unwrap().unwrap();
    assert_eq!(held(&store).await, ["mail", "orders", "stock"]);
    assert!(all(mutexes(&theirs)).try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert_eq!(held(&store).await, [""; 0]);
    drop(locks.lock().await.unwrap());
    ours.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn locks_of_different_kinds_are_taken_together() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    let (catalogue, gpus, orders) = (ours.rwlock("catalogue"), ours.semaphore("gpu", 3), ours.mutex("orders").fair());
    let shared = || [AnyLock::read(&catalogue), gpus.clone().permits(2).into(), (&orders).into()];
    let reader = theirs.rwlock("catalogue").read().await.unwrap();
    let guard = all(shared()).try_lock().await.unwrap().unwrap();
    assert_eq!(held(&store).await, ["catalogue", "gpu", "orders"]);
    assert!(theirs.semaphore("gpu", 3).permits(2).try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(
        all([AnyLock::from(gpus), AnyLock::write(&catalogue).into()]).try_lock().await.unwrap().is_none(),
        "a reader is there"
    );
    ours.idle().await;
    assert_eq!(held(&store).await, ["catalogue"]);
    reader.release().await.unwrap();
    all([AnyLock::write(&catalogue)]).lock().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn guards_and_fences_have_the_order_of_the_caller() {
    let client = client(memory());
    for round in 1..4 {
        drop(client.mutex("orders").lock().await.unwrap());
        let guard = all(mutexes(&client)).lock().await.unwrap();
        let names: Vec<_> = guard.guards().iter().map(|guard| guard.key()).collect();
        assert_eq!(names, NAMES);
        let fences: Vec<_> = guard.guards().iter().map(Guard::fence).collect();
        assert_eq!(guard.fences(), fences);
        assert_eq!(guard.fence(1), Some(fences[1]), "round {round}");
        assert!(fences[1] != fences[0], "round {round}: the fences must differ, or this test sees no wrong order");
        assert_eq!(guard.fence(3), None);
        guard.release().await.unwrap();
    }
}

/// Both locks become free within a second, but not at the same time within that second: the deadline is for the whole
/// call, and not for each lock.
#[tokio::test(start_paused = true)]
async fn one_deadline_is_for_all_locks() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    let [first, second] = ["a", "b"].map(|name| theirs.mutex(name));
    let (first, second) = (first.lock().await.unwrap(), second.lock().await.unwrap());
    let both = all([ours.mutex("a"), ours.mutex("b")]);
    let start = time::Instant::now();
    let call = both.try_lock_for(ms(1000));
    let others = async {
        time::sleep(ms(700)).await;
        first.release().await.unwrap();
        time::sleep(ms(700)).await;
        second.release().await.unwrap();
    };
    let ended = async {
        let guard = call.await.unwrap();
        (guard, start.elapsed())
    };
    let ((guard, after), ()) = tokio::join!(ended, others);
    assert!(guard.is_none());
    assert!((ms(1000)..ms(1010)).contains(&after), "{after:?}");
    ours.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
    assert_eq!(kind(both.try_lock_for(Duration::MAX).await), Some(ErrorKind::Misused));
}

#[tokio::test(start_paused = true)]
async fn wrong_lists_are_refused_before_any_lock_is_taken() {
    let store = memory();
    let client = client(store.clone());
    let twice = all(["a", "b", "a"].map(|name| client.mutex(name)));
    let error = soon(twice.lock()).await.unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Misused, Some(&key("a"))), "{error}");
    assert_eq!(kind(twice.try_lock().await), Some(ErrorKind::Misused));
    assert_eq!(kind(twice.try_lock_for(ms(5)).await), Some(ErrorKind::Misused));
    assert_eq!(kind(all([""; 0].map(|name| client.mutex(name))).lock().await), Some(ErrorKind::Misused));
    assert_eq!(kind(all([client.mutex("a"), client.mutex("")]).lock().await), Some(ErrorKind::Misused));
    assert_eq!(kind(all([client.mutex("a"), client.mutex("b").lease(ms(1))]).lock().await), Some(ErrorKind::Misused));
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}

/// The same lock through two clients would wait for itself.
#[tokio::test(start_paused = true)]
async fn one_lock_through_two_clients_is_refused() {
    let store = memory();
    let (one, other) = (client(store.clone()), client(store.clone()));
    let twice = all([one.mutex("a"), other.mutex("b"), other.mutex("a")]);
    assert_eq!(kind(soon(twice.lock()).await), Some(ErrorKind::Misused));
    one.idle().await;
    other.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
    // The same name in another store is another lock.
    let elsewhere = client(memory());
    assert!(all([one.mutex("a"), elsewhere.mutex("a")]).try_lock().await.unwrap().is_some());
}

/// Repeatedly locks, and holds the locks for a moment.
fn circle(locks: Vec<AnyLock>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let locks = all(locks);
        for _ in 0..200 {
            let guard = locks.lock().await.unwrap();
            time::sleep(ms(1)).await;
            drop(guard);
        }
    })
}

#[tokio::test(start_paused = true)]
async fn opposite_orders_cannot_deadlock() {
    let store = memory();
    let (one, other) = (client(store.clone()), client(store.clone()));
    let tasks = [
        circle(vec![one.mutex("a").into(), one.mutex("b").into()]),
        circle(vec![other.mutex("b").into(), other.mutex("a").into()]),
        circle(vec![one.mutex("b").into(), one.mutex("a").into()]),
    ];
    for task in tasks {
        soon(task).await.unwrap();
    }
}

/// The locks are in two stores. The processes name them in opposite orders, and have different clients.
#[tokio::test(start_paused = true)]
async fn opposite_orders_over_two_stores_cannot_deadlock() {
    let stores = [memory(), memory()];
    let tasks: Vec<_> = (0..4)
        .map(|process| {
            let [left, right] = [0, 1].map(|store| client(stores[store].clone()));
            let (a, b) = (AnyLock::from(left.mutex("a")), AnyLock::from(right.mutex("b")));
            circle(if process % 2 == 0 { vec![a, b] } else { vec![b, a] })
        })
        .collect();
    for task in tasks {
        soon(task).await.unwrap();
    }
}

/// While a call waits for a lock of one client, it holds no lock of another client. It also waits for the lock that was
/// refused, instead of trying all of them again and again.
// Promise: K17
#[tokio::test(start_paused = true)]
async fn no_lock_is_held_while_the_call_waits_for_another_client() {
    let (near, far) = (Counting::new(memory()), memory());
    let (ours, theirs, other) = (client(near.clone()), client(far.clone()), client(far.clone()));
    for order in [0, 1] {
        let busy = other.mutex("b").lock().await.unwrap();
        let mut locks = [ours.mutex("a"), theirs.mutex("b")];
        locks.rotate_left(order);
        let before = near.claims();
        let call = tokio::spawn(async move { all(locks).lock().await });
        time::sleep(ms(5000)).await;
        assert_eq!(held(&near).await, [""; 0]);
        assert!(!call.is_finished());
        assert!(near.claims() - before <= 1, "{} claims", near.claims() - before);
        busy.release().await.unwrap();
        let guard = soon(call).await.unwrap().unwrap();
        assert_eq!((held(&near).await, held(&far).await), (vec!["a".to_owned()], vec!["b".to_owned()]));
        guard.release().await.unwrap();
    }
}

/// A hundred tasks lock random subsets of ten locks. Each lock counts its holders: there may be only one.
#[tokio::test(start_paused = true)]
async fn a_hundred_tasks_over_random_subsets_exclude_each_other_and_all_end() {
    const LOCKS: usize = 10;
    let stores = [memory(), memory()];
    let clients: Vec<_> = (0..4).map(|number| client(stores[number % 2].clone())).collect();
    let holders: Arc<[AtomicUsize; LOCKS]> = Arc::default();
    let mut random = fastrand::Rng::with_seed(7);
    let tasks: Vec<_> = (0..100)
        .map(|task| {
            // Two of the four clients: one for each store. The lock with an even number is in the first store.
            let clients = [clients[2 * (task % 2)].clone(), clients[2 * (task % 2) + 1].clone()];
            let (mut random, holders) = (random.fork(), Arc::clone(&holders));
            tokio::spawn(async move {
                for _ in 0..10 {
                    let mut subset: Vec<usize> = (0..LOCKS).collect();
                    random.shuffle(&mut subset);
                    subset.truncate(random.usize(1..5));
                    let locks = all(subset.iter().map(|lock| clients[lock % 2].mutex(format!("lock-{lock}"))));
                    let guard = match random.u8(..4) {
                        0 => locks.try_lock().await.unwrap(),
                        1 => locks.try_lock_for(ms(random.u64(1..50))).await.unwrap(),
                        _ => Some(locks.lock().await.unwrap()),
                    };
                    let Some(guard) = guard else { continue };
                    for lock in &subset {
                        assert_eq!(holders[*lock].fetch_add(1, SeqCst), 0, "two holders of lock {lock}");
                    }
                    time::sleep(ms(random.u64(..3))).await;
                    for lock in &subset {
                        holders[*lock].fetch_sub(1, SeqCst);
                    }
                    assert!(!guard.is_lost());
                    drop(guard);
                }
            })
        })
        .collect();
    for task in tasks {
        soon(task).await.unwrap();
    }
    for client in &clients {
        client.idle().await;
    }
    assert_eq!((held(&stores[0]).await, held(&stores[1]).await), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_does_not_keep_the_other_locks() {
    let store = memory();
    let client = client(store.clone());
    let guard = all(mutexes(&client)).lock().await.unwrap();
    guard.lose(0);
    guard.lose(1);
    let error = guard.release().await.unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Lost, Some(&key(NAMES[0]))), "the first error is returned");
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}

/// The client of the first lock cannot reach its store. The lock in the other store is released nevertheless.
#[tokio::test(start_paused = true)]
async fn an_unreachable_store_does_not_keep_the_locks_of_others() {
    let (wire, far) = (Lossy::new(memory()), memory());
    let (ours, theirs) = (client(wire.clone()), client(far.clone()));
    let guard = all([ours.mutex("a"), theirs.mutex("b")]).lock().await.unwrap();
    wire.always(Fate::Refused);
    assert_eq!(kind(guard.release().await), Some(ErrorKind::Unavailable));
    assert_eq!(held(&far).await, [""; 0]);
    assert_eq!(kind(all([theirs.mutex("b"), ours.mutex("a")]).try_lock().await), Some(ErrorKind::Unavailable));
    theirs.idle().await;
    assert_eq!(held(&far).await, [""; 0], "a call that fails must release its locks");
}

#[tokio::test(start_paused = true)]
async fn the_guard_is_lost_when_one_lock_is_lost() {
    let client = client(memory());
    for index in 0..3 {
        let guard = all(mutexes(&client)).lock().await.unwrap();
        let (mut lost, other_lost) = (pin!(guard.lost()), guard.lost());
        time::sleep(Duration::from_secs(600)).await;
        assert!(lost.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(!guard.is_lost() && guard.remaining() > Duration::ZERO);
        guard.lose(index);
        soon(lost).await;
        soon(other_lost.clone()).await;
        assert!(guard.is_lost() && guard.remaining().is_zero());
    }
    // The first lease that expires counts, and its warning.
    let [stock, orders, mail] = mutexes(&client);
    let guard = all([stock, orders.lease(ms(5000)), mail]).lock().await.unwrap();
    let start = time::Instant::now();
    soon(guard.expiring(ms(1000))).await;
    assert!((ms(3500)..=ms(4000)).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert!(!guard.is_lost());
    soon(guard.lost()).await;
    assert!((ms(4500)..=ms(5000)).contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn run_ends_its_body_when_a_lock_is_lost() {
    let store = memory();
    let client = client(store.clone());
    let locks = all(mutexes(&client));
    assert_eq!(locks.run(async |guard| guard.fences().len()).await.unwrap(), 3);
    assert_eq!(held(&store).await, [""; 0]);
    let ended = locks.run(async |guard| {
        guard.lose(2);
        std::future::pending::<()>().await;
    });
    let error = soon(ended).await.unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Lost, Some(&key(NAMES[2]))));
    let closing = locks.run(async |_| {
        client.close().await.unwrap();
        std::future::pending::<()>().await;
    });
    assert_eq!(kind(soon(closing).await), Some(ErrorKind::Closed));
    assert_eq!(kind(locks.lock().await), Some(ErrorKind::Closed));
}

/// Drops the call after each number of polls. Nothing may stay held, and nothing may keep waiting.
#[tokio::test(start_paused = true)]
async fn a_call_may_be_dropped_at_every_await() {
    let (near, far) = (memory(), memory());
    let (ours, theirs) = (client(near.clone()), client(far.clone()));
    let (other_near, other_far) = (client(near.clone()), client(far.clone()));
    let mut completed = 0;
    for polls in 0..60 {
        // The lock "b" is busy at first, and becomes free after some polls.
        let mut busy = Some(if polls % 2 == 0 { &other_near } else { &other_far }.mutex("b").lock().await.unwrap());
        {
            let [a, b] = ["a", "b"].map(|name| if polls % 2 == 0 { &ours } else { &theirs }.mutex(name));
            let c = if polls % 2 == 0 { &theirs } else { &ours }.mutex("c");
            let locks = all([c, b, a]);
            let mut call = pin!(locks.lock());
            for poll in 0..polls {
                let polled = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
                if let Poll::Ready(guard) = polled {
                    completed += 1;
                    drop::<AllGuard>(guard.unwrap());
                    break;
                }
                if poll == polls / 2 {
                    drop(busy.take());
                }
                time::sleep(ms(1)).await;
            }
        }
        drop(busy);
        for client in [&ours, &theirs, &other_near, &other_far] {
            soon(client.idle()).await;
        }
        assert_eq!((held(&near).await, held(&far).await), (vec![], vec![]), "after {polls} polls");
    }
    assert!(completed > 10, "only {completed} calls were not dropped, so later awaits were not reached");
}

/// A waiting call of several locks waits in the same queues as calls of single locks.
#[tokio::test(start_paused = true)]
async fn calls_for_single_locks_and_for_several_share_the_queue() {
    let client = paused().over(memory()).unwrap();
    let first = client.mutex("b").lock().await.unwrap();
    let (a, b) = (client.mutex("a"), client.mutex("b"));
    let both = tokio::spawn(async move { all([b, a]).lock().await });
    time::sleep(ms(1)).await;
    let last = waiting(&client, "b").await;
    drop(first);
    let both = soon(both).await.unwrap().unwrap();
    assert!(!last.is_finished());
    assert!(client.mutex("a").try_lock().await.unwrap().is_none());
    drop(both);
    drop(soon(last).await.unwrap().unwrap());
}
