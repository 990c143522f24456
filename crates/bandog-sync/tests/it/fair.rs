//! Fair mutexes: the order of the calls, places in the queue, and what remains after a dropped call.

use std::sync::{Arc, Mutex, PoisonError};

use bandog_conformance::wrap::{Counting, Delayed, Fate, Forgetful, Lossy, Stopped, Which};
use bandog_core::{Memory, PLACE};
use bandog_sync::{Client, Guard};
use tokio::{
    task::{JoinHandle, yield_now},
    time,
};

use crate::kit::{client, held, memory, ms, paused, soon};

async fn waiting(client: &Client) -> JoinHandle<bandog_core::Result<Guard>> {
    let mutex = client.mutex("orders").fair();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    yield_now().await;
    waiting
}

/// Whether a client gets the lock at once. It does not if a claim or a place remains in the store.
async fn is_free(store: &Memory) -> bool {
    let other = client(store.clone());
    let guard = other.mutex("orders").fair().try_lock().await.unwrap();
    let is_free = guard.is_some();
    drop(guard);
    other.idle().await;
    is_free
}

// Promise: K1
#[tokio::test(start_paused = true)]
async fn two_clients_take_turns_in_the_order_of_their_calls() {
    let store = memory();
    let clients = [client(store.clone()), client(store.clone())];
    let first = clients[0].mutex("orders").fair().lock().await.unwrap();
    let (order, mut tasks) = (Arc::new(Mutex::new(Vec::new())), Vec::new());
    for number in 0..20 {
        let (mutex, order) = (clients[number / 2 % 2].mutex("orders").fair(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            order.lock().unwrap_or_else(PoisonError::into_inner).push(number);
            guard.release().await.unwrap();
        }));
        for client in &clients {
            client.idle().await;
        }
    }
    drop(first);
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    assert!(is_free(&store).await);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_calls_get_the_lock_in_their_order() {
    const CALLS: u64 = 10_000;
    let store = Counting::new(memory());
    let client = client(store.clone());
    let mutex = client.mutex("orders").fair();
    let first = mutex.lock().await.unwrap();
    let (order, mut tasks) = (Arc::new(Mutex::new(Vec::new())), Vec::new());
    for number in 0..CALLS {
        if number % 100 == 0 {
            time::sleep(ms(10)).await; // So the places do not all become due at the same time.
        }
        let (mutex, order) = (mutex.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            order.lock().unwrap_or_else(PoisonError::into_inner).push((number, guard.fence()));
            guard.release().await.unwrap();
        }));
    }
    client.idle().await;
    let (calls, renewals) = (store.calls(), store.renewals());
    time::sleep(PLACE + ms(1000)).await; // The places would expire without renewals.
    let (calls, renewals) = (store.calls() - calls, store.renewals() - renewals);
    assert!(renewals > 10_000, "the places are renewed");
    assert!(calls < 5 * renewals / 1000, "{calls} calls for {renewals} renewals: the places are renewed together");
    drop(first);
    for task in tasks {
        soon(task).await.unwrap();
    }
    let order = order.lock().unwrap();
    assert!(order.iter().map(|(number, _)| *number).eq(0..CALLS), "out of order");
    assert!(order.is_sorted_by_key(|(_, fence)| *fence), "a fence did not rise");
}

#[tokio::test(start_paused = true)]
async fn try_lock_respects_the_queue_and_does_not_join_it() {
    let store = memory();
    let counted = Counting::new(store.clone());
    let (ours, theirs) = (client(store.clone()), client(counted.clone()));
    let held_by_them = theirs.mutex("orders").fair().lock().await.unwrap();
    let asking = waiting(&ours).await;
    ours.idle().await;
    assert!(theirs.mutex("orders").fair().try_lock().await.unwrap().is_none());
    held_by_them.release().await.unwrap();
    let guard = soon(asking).await.unwrap().unwrap();
    let before = counted.releases();
    assert!(theirs.mutex("orders").fair().try_lock().await.unwrap().is_none());
    theirs.idle().await;
    assert_eq!(counted.releases(), before, "there is no place to release");
    guard.release().await.unwrap();
    assert!(is_free(&store).await);
}

/// A dropped call must not keep its place, in whatever moment it is dropped.
// Promise: K2
#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_no_place_behind() {
    for cancel_at in 0..120 {
        let store = memory();
        let theirs = client(store.clone());
        let holder = theirs.mutex("orders").fair().lock().await.unwrap();
        let ours = client(Delayed::new(store.clone(), cancel_at, ms(30), ms(30)));
        drop(time::timeout(ms(cancel_at), ours.mutex("orders").fair().lock()).await);
        holder.release().await.unwrap();
        ours.idle().await;
        assert!(is_free(&store).await, "dropped after {cancel_at} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_leaves_no_place_behind() {
    for fate in [Fate::ReplyLost, Fate::RequestLost, Fate::Late(ms(500))] {
        let store = memory();
        let (theirs, wire) = (client(store.clone()), Lossy::new(store.clone()));
        let holder = theirs.mutex("orders").fair().lock().await.unwrap();
        let ours = client(wire.clone());
        ours.ready().await.unwrap();
        wire.next([fate]);
        wire.always(Fate::RequestLost);
        let asking = waiting(&ours).await;
        time::sleep(ms(1)).await;
        asking.abort();
        assert!(asking.await.is_err());
        wire.heal();
        soon(ours.idle()).await;
        holder.release().await.unwrap();
        assert!(is_free(&store).await, "{fate:?}");
    }
}

/// The first grant of a call comes too late, so the claim is repeated with the same id. Until the call has ended, no
/// release of that id may be sent: after a failover it would be sent again, and would end the hold.
#[tokio::test(start_paused = true)]
async fn no_release_of_a_late_grant_ends_the_next_hold_of_its_call() {
    let store = memory();
    let stopped = Stopped::new(store.clone());
    let wire = Forgetful::new(stopped.clone());
    let counted = Counting::new(wire.clone());
    let client = client(counted.clone());
    client.ready().await.unwrap();
    stopped.stop(Which::Requests);
    let mutex = client.mutex("orders").fair().lease(ms(1000));
    let call = tokio::spawn(async move { mutex.lock().await });
    stopped.until_held(1).await;
    time::sleep(ms(600)).await;
    stopped.stop(Which::Answers);
    stopped.until_held(2).await;
    time::sleep(ms(600)).await; // The lease began for the client 1.2 s ago, for the store 0.6 s ago.
    stopped.go_on();
    let guard = soon(call).await.unwrap().unwrap();
    assert_eq!((counted.grants(), counted.releases()), (2, 0), "the first grant came too late");
    wire.reconnected();
    soon(client.idle()).await;
    assert_eq!((held(&store).await, counted.releases()), (vec!["orders".to_owned()], 0));
    guard.release().await.unwrap();
    wire.reconnected();
    soon(client.idle()).await;
    assert_eq!(counted.releases(), 2, "the release of a call that has ended is sent again");
}

/// The head of the queue dies. Its place expires, and the next client gets the lock without a notification.
// Promise: K2
#[tokio::test(start_paused = true)]
async fn a_dead_head_delays_the_queue_only_until_its_place_expires() {
    let store = memory();
    let (holding, dead) = (client(store.clone()), Lossy::new(store.clone()));
    let holder = holding.mutex("orders").fair().lock().await.unwrap();
    let dying = client(dead.clone());
    let head = waiting(&dying).await;
    dying.idle().await;
    dead.always(Fate::RequestLost);
    let ours = client(store.clone());
    let next = waiting(&ours).await;
    ours.idle().await;
    holder.release().await.unwrap();
    let guard = time::timeout(PLACE + ms(2000), next).await.unwrap().unwrap().unwrap();
    assert!(!guard.is_lost());
    head.abort();
}

/// Clients in the middle of a long queue die. Their places expire together, and the renewal of the next client's place
/// says so. A poll would come much later, because the client's claim was far back in the queue.
// Promise: K2
#[tokio::test(start_paused = true)]
async fn dead_clients_in_the_middle_of_the_queue_cost_one_place_and_one_heartbeat() {
    const DEAD: u32 = 30;
    let store = memory();
    let holding = client(store.clone());
    let holder = holding.mutex("orders").fair().lock().await.unwrap();
    let first = client(store.clone());
    let first_call = waiting(&first).await;
    first.idle().await;
    let mut dying = Vec::new();
    for _ in 0..DEAD {
        let dead = Lossy::new(store.clone());
        let client = client(dead.clone());
        let call = waiting(&client).await;
        client.idle().await;
        dying.push((dead, client, call));
    }
    let ours = client(store.clone());
    let next = waiting(&ours).await;
    ours.idle().await;
    time::sleep(PLACE * 2).await; // All places are kept.
    dying.iter().for_each(|(dead, ..)| dead.always(Fate::RequestLost));
    holder.release().await.unwrap();
    let first_guard = soon(first_call).await.unwrap().unwrap();
    first_guard.release().await.unwrap();
    let guard = time::timeout(PLACE + PLACE / 3 + ms(100), next).await.unwrap().unwrap().unwrap();
    assert!(!guard.is_lost());
    dying.iter().for_each(|(_, _, call)| call.abort());
}

/// The first claim of a call is lost, so a later call of the same client gets the place before it. The later call is
/// notified by the store, or by the end of an older call of this client, and needs no poll.
#[tokio::test(start_paused = true)]
async fn a_call_whose_first_claim_was_lost_does_not_delay_later_calls() {
    for holds_itself in [false, true] {
        let store = memory();
        let wire = Lossy::new(store.clone());
        let (theirs, ours) = (client(store.clone()), client(wire.clone()));
        ours.ready().await.unwrap();
        let holder = if holds_itself { &ours } else { &theirs };
        let holder = holder.mutex("orders").fair().lock().await.unwrap();
        wire.next([Fate::RequestLost]);
        let first = waiting(&ours).await;
        let second = waiting(&ours).await;
        time::sleep(ms(100)).await; // The claim of the first call is repeated.
        let start = time::Instant::now();
        holder.release().await.unwrap();
        let guard = soon(second).await.unwrap().unwrap();
        assert!(start.elapsed() < ms(10), "held by this client: {holds_itself}; after {:?}", start.elapsed());
        assert!(!first.is_finished());
        guard.release().await.unwrap();
        soon(first).await.unwrap().unwrap().release().await.unwrap();
        assert!(start.elapsed() < ms(20), "held by this client: {holds_itself}; after {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_takes_a_fair_mutex_again() {
    let client = client(memory());
    let owner = client.owner();
    let orders = client.mutex("orders").fair().by(&owner);
    let outer = orders.lock().await.unwrap();
    let inner = orders.lock().await.unwrap();
    assert_eq!(inner.fence(), outer.fence());
    drop(outer);
    assert!(client.mutex("orders").fair().try_lock().await.unwrap().is_none());
    inner.release().await.unwrap();
    assert!(client.mutex("orders").fair().try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_release_and_the_next_claim_of_a_client_are_one_batch() {
    let store = Counting::new(memory());
    let client = client(store.clone());
    let guard = client.mutex("orders").fair().lock().await.unwrap();
    let next = waiting(&client).await;
    client.idle().await;
    let before = store.calls();
    guard.release().await.unwrap();
    drop(soon(next).await.unwrap().unwrap());
    client.idle().await;
    assert_eq!(store.calls() - before, 2, "the release and the next claim, then the last release");
}

/// The numbers of the calls in the order in which they get the lock. Each call has its own task.
#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<u32>>>);

impl Order {
    /// A call that waits until it has the lock, records its number, and releases the lock.
    async fn call(&self, client: &Client, number: u32) -> JoinHandle<()> {
        let (mutex, order) = (client.mutex("orders").fair(), self.0.clone());
        let task = tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            order.lock().unwrap_or_else(PoisonError::into_inner).push(number);
            guard.release().await.unwrap();
        });
        client.idle().await;
        task
    }

    fn numbers(&self) -> Vec<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_follow_each_other_in_the_queue_share_a_hold() {
    let store = Counting::new(memory());
    let client = client(store.clone());
    let first = client.mutex("orders").fair().lock().await.unwrap();
    let (order, mut tasks) = (Order::default(), Vec::new());
    for number in 0..20 {
        tasks.push(order.call(&client, number).await);
    }
    let grants = store.grants();
    first.release().await.unwrap();
    for task in tasks {
        soon(task).await.unwrap();
    }
    client.idle().await;
    assert_eq!(order.numbers(), (0..20).collect::<Vec<_>>());
    assert_eq!(store.grants() - grants, 1, "one hold for all calls");
    assert_eq!(held(&store).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_call_never_overtakes_a_call_of_another_client() {
    let store = memory();
    let clients = [client(store.clone()), client(store.clone())];
    let first = clients[0].mutex("orders").fair().lock().await.unwrap();
    let (order, mut tasks) = (Order::default(), Vec::new());
    // Groups of 1, 2, 3 ... calls of each client.
    let groups = (0..8).flat_map(|group| std::iter::repeat_n(group % 2, group + 1));
    for (number, client) in (0..).zip(groups) {
        tasks.push(order.call(&clients[client], number).await);
    }
    drop(first);
    let count = u32::try_from(tasks.len()).unwrap();
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!(order.numbers(), (0..count).collect::<Vec<_>>());
    assert!(is_free(&store).await);
}

#[tokio::test(start_paused = true)]
async fn followers_that_have_gone_or_want_other_terms_do_not_change_the_order() {
    let store = memory();
    let client = client(store.clone());
    let first = client.mutex("orders").fair().lock().await.unwrap();
    let (order, mut tasks) = (Order::default(), Vec::new());
    for number in 0..12 {
        match number {
            3 | 7 => {
                // This call wants a fixed lease, so it needs a hold of its own.
                let (mutex, order) = (client.mutex("orders").fair().lease(ms(60_000)), order.0.clone());
                tasks.push(tokio::spawn(async move {
                    let guard = mutex.lock().await.unwrap();
                    order.lock().unwrap_or_else(PoisonError::into_inner).push(number);
                    guard.release().await.unwrap();
                }));
                client.idle().await;
            }
            _ => tasks.push(order.call(&client, number).await),
        }
    }
    for gone in [1, 5, 6, 11] {
        tasks[gone].abort();
    }
    first.release().await.unwrap();
    for task in tasks {
        let _ = soon(task).await;
    }
    assert_eq!(order.numbers(), [0, 2, 3, 4, 7, 8, 9, 10]);
    client.idle().await;
    assert!(is_free(&store).await);
}

#[tokio::test(start_paused = true)]
async fn a_follower_learns_that_the_shared_hold_is_lost() {
    let store = memory();
    let client = paused().watchdog(ms(3000)).over(store.clone()).unwrap();
    let first = client.mutex("orders").fair().lock().await.unwrap();
    let (second, third) = (waiting(&client).await, waiting(&client).await);
    client.idle().await;
    first.release().await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    second.release().await.unwrap();
    let third = soon(third).await.unwrap().unwrap();
    client.evict("orders").await.unwrap();
    time::timeout(ms(2000), third.lost()).await.unwrap();
    assert!(third.release().await.is_err());
    client.idle().await;
    assert!(is_free(&store).await);
}

// Promise: K15
#[tokio::test(start_paused = true)]
async fn a_lost_fair_mutex_goes_to_the_next_call() {
    let client = paused().watchdog(ms(3000)).over(memory()).unwrap();
    let guard = client.mutex("orders").fair().lease(ms(1000)).lock().await.unwrap();
    let next = waiting(&client).await;
    guard.lost().await;
    let next = time::timeout(ms(1500), next).await.unwrap().unwrap().unwrap();
    assert!(next.fence() > guard.fence());
    assert!(guard.release().await.is_err());
    next.release().await.unwrap();
    assert_eq!(held(&memory()).await, [""; 0]);
}
