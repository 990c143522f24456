//! One plain semaphore, used from Rust (`semaphores=plain`) and from Java (`RSemaphore`).

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bandog::{Client, ConnectOptions, Guard, SharedHold};
use bandog_testkit::{RedisServer, eventually};
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    neighbour::{Program, SOON},
    rig::{PROMPT, TTL, median, semaphore_channel, show, subscribers},
    stage::Actors,
};

/// Number of permits in the contended tests.
const LIMIT: u32 = 3;
/// Number of turns of each thread or task in the contended tests.
const TIMES: u32 = 150;
/// Number of hand-overs that are measured.
const ROUNDS: usize = 15;
/// The key of the number of permits in use.
const IN_USE: &str = "in use";
/// Timeout of a contended test.
const CONTENDED: Duration = Duration::from_secs(60);

async fn connect(server: &RedisServer, ttl: Duration) -> Client {
    let options = ConnectOptions::parse(format!("{}?semaphores=plain", server.url())).expect("a URL");
    options.watchdog(ttl).connect().await.expect("the server answers")
}

/// Starts a task that waits for permits. It returns the guard and the time of the grant.
fn waits(client: &Client, take: u32) -> JoinHandle<(Guard<SharedHold>, Instant)> {
    let semaphore = client.semaphore("gpus", LIMIT).permits(take);
    tokio::spawn(async move { (semaphore.acquire().await.expect("granted"), Instant::now()) })
}

/// Waits until this number of connections is subscribed to the semaphore's channel.
fn until_subscribed(server: &RedisServer, count: i64) {
    eventually(SOON, || subscribers(server, &semaphore_channel("gpus")) == count);
}

/// Both sides count the permits that are in use with one counter on the server.
// Promise: X8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_of_both_sides_are_never_above_the_limit() {
    let actors = Actors::start(TTL, &[Program::Redisson4]);
    let (server, java) = (&actors.server, &actors.neighbours[0]);
    let clients = [connect(server, TTL).await, connect(server, TTL).await];
    assert!(java.semaphore("a", "gpus", LIMIT).set_if_absent(LIMIT));
    let theirs = [("a", 1), ("b", 1), ("c", 2)]
        .map(|(thread, take)| java.semaphore(thread, "gpus", LIMIT).crowds(take, IN_USE, TIMES));
    let highest = Arc::new(AtomicI64::new(0));
    let ours: Vec<_> = [1, 1, 2]
        .into_iter()
        .flat_map(|take| clients.iter().map(move |client| (client, take)))
        .map(|(client, take)| {
            let (semaphore, highest) = (client.semaphore("gpus", LIMIT).permits(take), highest.clone());
            let mut counter = server.client();
            tokio::spawn(async move {
                for _ in 0..TIMES / 2 {
                    let guard = semaphore.acquire().await.expect("granted");
                    let add = |counter: &mut bandog_testkit::RawRedis, take: i64| {
                        counter.cmd(&["INCRBY", IN_USE, &take.to_string()]).expect("an answer").int()
                    };
                    highest.fetch_max(add(&mut counter, take.into()), SeqCst);
                    tokio::task::yield_now().await;
                    add(&mut counter, -i64::from(take));
                    guard.release().await.expect("released");
                }
            })
        })
        .collect();
    for task in ours {
        timeout(CONTENDED, task).await.expect("in time").expect("no panic");
    }
    let peaks = theirs.map(|crowd| crowd.answer(CONTENDED).parse::<i64>().expect("a number"));
    println!("permits in use at once: {} of ours saw this, {peaks:?} of Java's", highest.load(SeqCst));
    assert_eq!(highest.load(SeqCst).max(peaks.into_iter().max().expect("threads")), i64::from(LIMIT));
    assert_eq!(server.cmd(&["GET", IN_USE]).text(), "0");
    assert_eq!(java.semaphore("a", "gpus", LIMIT).available(), u64::from(LIMIT));
    assert_eq!(clients[0].show("gpus").await.expect("an answer").holders, []);
}

// Promise: X8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_ours_wakes_a_waiter_of_java() {
    let actors = Actors::start(TTL, &[Program::Redisson4]);
    let (server, java) = (&actors.server, &actors.neighbours[0]);
    let ours = connect(server, TTL).await;
    // Our first claim creates the semaphore, and Java finds it.
    let semaphore = ours.semaphore("gpus", LIMIT).permits(LIMIT);
    let theirs = java.semaphore("a", "gpus", LIMIT);
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let guard = timeout(SOON, semaphore.acquire()).await.expect("in time").expect("granted");
        assert!(!theirs.try_acquire(1));
        let waiting = theirs.waits(2);
        until_subscribed(server, 1);
        assert!(waiting.answered().is_none());
        let freed = Instant::now();
        // A dropped guard is released, too.
        if round % 2 == 0 {
            guard.release().await.expect("released");
        } else {
            drop(guard);
        }
        assert_eq!(waiting.answer(SOON), "held");
        times.push(freed.elapsed());
        assert_eq!(theirs.available(), 1);
        theirs.release(2);
        until_subscribed(server, 0);
    }
    show("plain semaphore: our release to Java's grant", &mut times);
    assert!(median(&mut times) < PROMPT);
}

// Promise: X8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_java_wakes_a_waiter_of_ours() {
    let actors = Actors::start(TTL, &[Program::Redisson4]);
    let (server, java) = (&actors.server, &actors.neighbours[0]);
    let ours = connect(server, TTL).await;
    let theirs = java.semaphore("a", "gpus", LIMIT);
    assert!(theirs.set_if_absent(LIMIT));
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        theirs.acquire(LIMIT);
        assert!(ours.semaphore("gpus", LIMIT).try_acquire().await.expect("an answer").is_none());
        let waiting = waits(&ours, 2);
        until_subscribed(server, 1);
        let freed = Instant::now();
        theirs.release(2);
        let (guard, granted) = timeout(SOON, waiting).await.expect("in time").expect("no panic");
        times.push(granted.duration_since(freed));
        assert_eq!(theirs.available(), 0);
        guard.release().await.expect("released");
        theirs.release(1);
        assert_eq!(theirs.available(), u64::from(LIMIT));
        until_subscribed(server, 0);
    }
    show("plain semaphore: Java's release to our grant", &mut times);
    assert!(median(&mut times) < PROMPT);
}

/// The permits of our dead client return, and the permits of a killed JVM do not.
// Promise: RD23
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_permits_of_our_dead_clients_return() {
    let actors = Actors::start(TTL, &[Program::Redisson4; 2]);
    let (server, java, second) = (&actors.server, &actors.neighbours[0], &actors.neighbours[1]);
    let ours = connect(server, TTL).await;
    let dead = ours.semaphore("gpus", LIMIT).lease(Duration::from_millis(200));
    let guard = dead.acquire().await.expect("granted");
    java.semaphore("a", "gpus", LIMIT).acquire(1);
    java.kill();
    timeout(SOON, guard.lost()).await.expect("the lease expires");
    // Java sees the permit only after a client of ours has touched the semaphore.
    assert_eq!(second.semaphore("a", "gpus", LIMIT).available(), 1);
    let semaphore = ours.semaphore("gpus", LIMIT);
    let two = || async { semaphore.clone().permits(2).try_acquire().await.expect("an answer") };
    let start = Instant::now();
    let held = loop {
        if let Some(held) = two().await {
            break held;
        }
        assert!(start.elapsed() < SOON, "the permit of the dead client did not return");
    };
    let row = ours.show("gpus").await.expect("an answer");
    let unknown = row.holders.iter().filter(|holder| holder.owner.is_none());
    assert_eq!(unknown.map(|holder| holder.kind.expect("a kind").permits()).sum::<u32>(), 1);
    held.release().await.expect("released");
    assert!(semaphore.clone().permits(LIMIT).try_acquire().await.expect("an answer").is_none());
    // An operator adds the permit of the killed JVM.
    second.semaphore("a", "gpus", LIMIT).add(1);
    assert!(semaphore.permits(LIMIT).try_acquire().await.expect("an answer").is_some());
}

/// A change of the limit wakes waiters of both sides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_higher_limit_wakes_waiters_of_both_sides() {
    let actors = Actors::start(TTL, &[Program::Redisson4]);
    let (server, java) = (&actors.server, &actors.neighbours[0]);
    let ours = connect(server, TTL).await;
    let held = ours.semaphore("gpus", LIMIT).permits(LIMIT).acquire().await.expect("granted");
    let theirs = java.semaphore("a", "gpus", LIMIT).waits(1);
    until_subscribed(server, 1);
    ours.semaphore("gpus", LIMIT).set_limit(LIMIT + 1).await.expect("set");
    assert_eq!(theirs.answer(SOON), "held");
    // The first client knows that it has all permits of its limit, so it would not ask the store for more.
    let other = connect(server, TTL).await;
    let waiting = waits(&other, 1);
    until_subscribed(server, 1);
    java.semaphore("b", "gpus", LIMIT).add(1);
    let (guard, _) = timeout(SOON, waiting).await.expect("in time").expect("no panic");
    guard.release().await.expect("released");
    held.release().await.expect("released");
}
