//! A release of one side wakes a waiter of the other side immediately, without polling.

use std::time::{Duration, Instant};

use bandog_testkit::eventually;

use crate::{
    neighbour::SOON,
    rig::{PROMPT, Rig, TTL, connect, median, show},
};

const TURNS: usize = 40;

// Promise: X2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_frees_and_we_get_it() {
    let rig = Rig::start(TTL).await;
    let mut times = Vec::new();
    for _ in 0..TURNS {
        assert_eq!(rig.java.ask("a", &["lock", "orders"]), "held");
        let waiting = rig.ours_waits("orders");
        let start = Instant::now();
        assert_eq!(rig.java.ask("a", &["unlock", "orders"]), "freed");
        let (guard, granted) = waiting.await.expect("no panic");
        times.push(granted - start);
        guard.release().await.expect("released");
        settle(&rig);
    }
    show_and_check_median("Java's unlock to our guard", &mut times);
}

// Promise: X2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_release_and_java_gets_it() {
    let rig = Rig::start(TTL).await;
    let mut times = Vec::new();
    for _ in 0..TURNS {
        times.push(to_java(&rig, async |guard| guard.release().await.expect("released")).await);
    }
    show_and_check_median("our release to Java's lock", &mut times);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_drop_and_java_gets_it() {
    let rig = Rig::start(TTL).await;
    let mut times = Vec::new();
    for _ in 0..TURNS {
        times.push(to_java(&rig, async |guard| drop(guard)).await);
    }
    show_and_check_median("our drop to Java's lock", &mut times);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_both_sides_are_all_served() {
    let rig = Rig::start(TTL).await;
    let guard = rig.ours.mutex("orders").lock().await.expect("granted");
    let theirs: Vec<_> = ["a", "b", "c"].map(|thread| (thread, rig.java.send(thread, &["lock", "orders"]))).into();
    // The waiters use a different client than the holder, so that the lock is not passed on within one client.
    let other = connect(&rig.server, TTL).await;
    let ours: Vec<_> = (0..3).map(|_| other.mutex("orders")).collect();
    let ours = ours.into_iter().map(|mutex| {
        tokio::spawn(async move { mutex.lock().await.expect("granted").release().await.expect("released") })
    });
    let ours: Vec<_> = ours.collect();
    eventually(SOON, || rig.subscribers("orders") == 2);

    let start = Instant::now();
    guard.release().await.expect("released");
    let mut left = theirs;
    while !left.is_empty() {
        // The thread of Java that has the lock now releases it. The order of the threads is not defined.
        eventually(SOON, || left.iter().any(|(_, asked)| asked.answered().is_some()));
        for (thread, _) in left.extract_if(.., |(_, asked)| asked.answered().is_some()) {
            assert_eq!(rig.java.ask(thread, &["unlock", "orders"]), "freed");
        }
    }
    for waiting in ours {
        waiting.await.expect("no panic");
    }
    println!("three waiters of each side served in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    assert!(start.elapsed() < SOON, "a waiter waited for longer than a notification takes");
}

/// Time from the end of our guard until Java's waiting call returns.
async fn to_java(rig: &Rig, end: impl AsyncFnOnce(bandog::Guard)) -> Duration {
    let guard = rig.ours.mutex("orders").lock().await.expect("granted");
    let before = rig.subscribers("orders");
    let asked = rig.java.send("a", &["lock", "orders"]);
    eventually(SOON, || rig.subscribers("orders") > before);
    let start = Instant::now();
    end(guard).await;
    assert_eq!(asked.answer(TTL), "held");
    let time = start.elapsed();
    assert_eq!(rig.java.ask("a", &["unlock", "orders"]), "freed");
    settle(rig);
    time
}

/// Waits until no client is subscribed, so that the next turn does not mistake an old subscription for the subscription
/// of its own waiter.
fn settle(rig: &Rig) {
    eventually(SOON, || rig.subscribers("orders") == 0);
}

/// Prints these times, and checks that hand-overs are notified and not polled.
#[track_caller]
fn show_and_check_median(what: &str, times: &mut [Duration]) {
    show(what, times);
    // The median is checked, because the machine might be busy during a turn. A waiter that polls would be late in most
    // turns.
    assert!(median(times) < PROMPT, "{what} took {times:?}");
    assert!(times.iter().all(|time| *time < TTL / 10), "{what} took {times:?}");
}
