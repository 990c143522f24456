//! Every waiting client gets the lock after some time, even if other clients take it again and again, and even if there
//! are no notifications.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_conformance::wrap::Counting;
use bandog_sync::Client;
use tokio::{task::JoinHandle, time};

use crate::{
    kit::{client, memory, ms, paused, soon, waiting},
    without_subscription::{Cause, Unnotified},
};

/// Tasks of one client that repeatedly take a lock, hold it for a time, and count their turns.
struct Busy {
    turns: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Busy {
    fn start(client: &Client, tasks: usize, hold: Duration) -> Self {
        let turns = Arc::new(AtomicU64::new(0));
        let task = |_| {
            let (mutex, turns) = (client.mutex("orders"), Arc::clone(&turns));
            tokio::spawn(async move {
                loop {
                    let guard = mutex.lock().await.unwrap();
                    turns.fetch_add(1, Relaxed);
                    time::sleep(hold).await;
                    drop(guard);
                }
            })
        };
        Self { tasks: (0..tasks).map(task).collect(), turns }
    }

    fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// How long turns of `hold` milliseconds are counted, and how many each client must have: short turns for less time, because
/// each of them costs the test as much as a long one.
fn watched(hold: u64) -> (Duration, u64) {
    if hold < 10 { (ms(15_000), 3) } else { (ms(60_000), 10) }
}

/// One client takes the lock again and again. Another client without notifications gets the lock repeatedly, within
/// seconds. The first client still has the lock most of the time. The memory backend answers in no time. So a poll
/// finds the lock free only if the busy client *rests*: it does not claim the lock for a short time.
// Promise: L13
#[tokio::test(start_paused = true)]
async fn a_waiter_without_notifications_is_served() {
    for cause in [Cause::Denied, Cause::Silent, Cause::Unpublished] {
        for (tasks, hold) in [(1, 1), (1, 50), (4, 1), (4, 5), (4, 50), (4, 500)] {
            let store = memory();
            let theirs = client(store.clone());
            let busy = Busy::start(&theirs, tasks, ms(hold));
            time::sleep(ms(7)).await;
            let ours = client(Unnotified { store, cause });
            let start = time::Instant::now();
            drop(soon(waiting(&ours, "orders").await).await.unwrap().unwrap());
            let first = start.elapsed();
            assert!(first < ms(5_000 + 20 * hold), "{cause:?}, {tasks} tasks, {hold} ms: first after {first:?}");
            let before = busy.turns();
            let again = Busy::start(&ours, 1, ms(hold));
            let (watched, least) = watched(hold);
            time::sleep(watched).await;
            let (ours, theirs) = (again.turns(), busy.turns() - before);
            assert!(
                ours >= least && theirs > ours / 2,
                "{cause:?}, {tasks} tasks, {hold} ms: {ours} and {theirs} turns"
            );
        }
    }
}

/// Several clients take the lock again and again. When one of them rests, another one takes the lock. So the lock is
/// never free for long enough for a slow poll. Nevertheless, every client gets the lock repeatedly, with and without
/// notifications.
// Promise: L13
#[tokio::test(start_paused = true)]
async fn no_client_starves_beside_several_busy_clients() {
    for cause in [None, Some(Cause::Denied), Some(Cause::Silent), Some(Cause::Unpublished)] {
        for (clients, hold) in [(2, 1), (2, 5), (2, 100), (3, 5), (5, 5)] {
            let store = memory();
            let theirs: Vec<_> = (0..clients).map(|_| client(store.clone())).collect();
            let busy: Vec<_> = theirs.iter().map(|client| Busy::start(client, 4, ms(hold))).collect();
            time::sleep(ms(7)).await;
            let ours = match cause {
                Some(cause) => client(Unnotified { store, cause }),
                None => client(store),
            };
            let start = time::Instant::now();
            drop(soon(waiting(&ours, "orders").await).await.unwrap().unwrap());
            let first = start.elapsed();
            assert!(first < ms(4_000 + 20 * hold), "{cause:?}, {clients} clients, {hold} ms: first after {first:?}");
            let ours = Busy::start(&ours, 1, ms(hold));
            let before: Vec<_> = busy.iter().map(Busy::turns).collect();
            let (watched, least) = watched(hold);
            time::sleep(watched).await;
            let theirs: Vec<_> = busy.iter().zip(before).map(|(busy, before)| busy.turns() - before).collect();
            let (ours, all) = (ours.turns(), theirs.iter().sum::<u64>());
            let what = format!("{cause:?}, {clients} clients, {hold} ms: {ours} and {theirs:?} turns");
            assert!(ours >= least && theirs.iter().all(|turns| *turns >= least), "{what}");
            assert!(ms((ours + all) * hold) >= watched * 9 / 10, "the lock is free for too long: {what}");
        }
    }
}

/// A client that has waited for more than a second *starves*: a release then reserves the lock for such clients, for at
/// most [`bandog_core::OFFER`]. If such a client stops waiting, the other clients lose no more than this time, and no
/// lock stays reserved.
// Promise: L13
#[tokio::test(start_paused = true)]
async fn a_starving_waiter_may_give_up() {
    let store = memory();
    let busy: Vec<_> = (0..2).map(|_| client(store.clone())).collect();
    let theirs: Vec<_> = busy.iter().map(|client| Busy::start(client, 4, ms(50))).collect();
    let ours = client(store.clone());
    let mut gave_up = 0;
    for _ in 0..100 {
        let (start, before) = (time::Instant::now(), theirs.iter().map(Busy::turns).sum::<u64>());
        gave_up += u32::from(time::timeout(ms(1010), ours.mutex("orders").lock()).await.is_err());
        time::sleep(ms(1000)).await;
        let turns = theirs.iter().map(Busy::turns).sum::<u64>() - before;
        let expected = start.elapsed().saturating_sub(bandog_core::OFFER).as_millis() / 50 - 3;
        assert!(u128::from(turns) >= expected, "{turns} turns of 50 ms in {:?}", start.elapsed());
    }
    assert!(gave_up > 10, "{gave_up} of 100 gave up");
    drop(theirs);
    for client in busy.iter().chain([&ours]) {
        client.idle().await;
    }
    time::sleep(bandog_core::OFFER).await;
    assert!(ours.mutex("orders").try_lock().await.unwrap().is_some());
}

/// Each client has one task that releases the lock and claims it again immediately, so that the release and the claim
/// are in flight together. All clients get a fair share of the lock.
// Promise: L13
#[tokio::test(start_paused = true)]
async fn a_single_task_that_loops_lets_others_in() {
    for loops in [1, 2] {
        let store = memory();
        let clients: Vec<_> = (0..=loops).map(|_| client(store.clone())).collect();
        let busy: Vec<_> = clients.iter().map(|client| Busy::start(client, 1, ms(5))).collect();
        time::sleep(ms(20_000)).await;
        let turns: Vec<_> = busy.iter().map(Busy::turns).collect();
        let (least, most) = (*turns.iter().min().unwrap(), *turns.iter().max().unwrap());
        assert!(least * 2 > most, "{turns:?}");
    }
}

/// If no other client uses the lock, a busy client loses less than two percent of the time by resting.
#[tokio::test(start_paused = true)]
async fn a_busy_client_alone_loses_little() {
    for (tasks, hold) in [(1, 1), (4, 5), (4, 100)] {
        let client = client(memory());
        let busy = Busy::start(&client, tasks, ms(hold));
        time::sleep(ms(100_000)).await;
        let (turns, most) = (busy.turns(), 100_000 / hold);
        assert!(turns * 100 >= most * 98, "{tasks} tasks, {hold} ms: {turns} of {most} turns");
    }
}

/// A call with a short limit takes the lock immediately, even if the client should rest.
#[tokio::test(start_paused = true)]
async fn a_call_with_a_short_limit_does_not_rest() {
    let client = client(memory());
    let guard = client.mutex("orders").lock().await.unwrap();
    time::sleep(ms(60_000)).await;
    let mutex = client.mutex("orders");
    let short_call = tokio::spawn(async move { mutex.try_lock_for(ms(100)).await });
    time::sleep(ms(50)).await;
    drop(guard);
    assert!(short_call.await.unwrap().unwrap().is_some());
    assert!(client.mutex("orders").try_lock().await.unwrap().is_some(), "a call that does not wait must not rest");
}

/// One client keeps the lock and renews it. A waiting client without notifications polls slowly, even if the ttl is
/// short.
#[tokio::test(start_paused = true)]
async fn a_renewed_hold_is_not_polled_quickly() {
    for (cause, ttl, most) in
        [(Cause::Denied, 30_000, 130), (Cause::Denied, 1000, 1000), (Cause::Unpublished, 1000, 130)]
    {
        let store = memory();
        let theirs = paused().watchdog(ms(ttl)).over(store.clone()).unwrap();
        let guard = theirs.mutex("orders").lock().await.unwrap();
        let counts = Counting::new(Unnotified { store, cause });
        let ours = client(counts.clone());
        let waiter = waiting(&ours, "orders").await;
        time::sleep(ms(60_000)).await;
        assert!(counts.claims() <= most, "{cause:?}, ttl of {ttl} ms: {} claims in a minute", counts.claims());
        drop(guard);
        drop(soon(waiter).await.unwrap().unwrap());
    }
}

/// While one client is busy, a client without notifications begins and stops to wait at different moments. The busy
/// client continues, and at the end no lock is held.
#[tokio::test(start_paused = true)]
async fn a_waiter_may_give_up_at_any_time() {
    let store = memory();
    let theirs = client(store.clone());
    let busy = Busy::start(&theirs, 4, ms(5));
    let ours = client(Unnotified { store: store.clone(), cause: Cause::Denied });
    for patience in (100..5000).step_by(157) {
        // Some of these calls get the lock, and drop its guard immediately.
        drop(time::timeout(ms(patience), ours.mutex("orders").lock()).await);
    }
    let before = busy.turns();
    time::sleep(ms(1000)).await;
    assert!(busy.turns() > before + 150);
    drop(busy);
    theirs.idle().await;
    ours.idle().await;
    assert_eq!(crate::kit::held(&store).await, [""; 0]);
}

/// A client that waits while another client keeps the lock for a long time does not ask for a reservation of the lock
/// (an offer). So the lock is free immediately after the waiting client has stopped waiting, or has released the lock.
#[tokio::test(start_paused = true)]
async fn a_waiter_for_one_long_hold_asks_for_no_offer() {
    for gives_up in [true, false] {
        let store = memory();
        let (holder, quitter) = (client(store.clone()), client(store.clone()));
        let guard = holder.mutex("orders").lock().await.unwrap();
        let waiter = waiting(&quitter, "orders").await;
        time::sleep(ms(5_200)).await;
        if gives_up {
            waiter.abort();
            drop(waiter.await);
            guard.release().await.unwrap();
        } else {
            guard.release().await.unwrap();
            drop(soon(waiter).await.unwrap().unwrap());
            quitter.idle().await;
        }
        assert!(holder.mutex("orders").try_lock().await.unwrap().is_some());
    }
}
