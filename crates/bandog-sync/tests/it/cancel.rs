//! Futures that are dropped at random points, over connections that delay and lose messages.

use std::time::Duration;

use bandog_conformance::{
    Census,
    wrap::{Delayed, Lossy},
};
use bandog_core::Memory;
use bandog_sync::{Client, Mutex};
use futures_util::future::{Either, select};
use std::pin::pin;
use tokio::time;

use crate::kit::{held, memory, ms, paused, soon};

/// Number of calls of each task in one world. A *world* is a new store with two clients and four tasks.
const CALLS: usize = 50;
const WORLDS: u64 = 60;

/// Makes thousands of calls of all kinds. Many of them are dropped after a random number of polls, or after a random
/// time. At the end, no release may be pending and no lock may be held. Two guards must never be valid at the same
/// time.
#[tokio::test(start_paused = true)]
async fn dropped_calls_leave_nothing_over_a_slow_wire() {
    for seed in 0..WORLDS {
        soon(one_world(seed, 0.0)).await;
    }
}

/// The same test, but 30 % of all requests fail: the request or its answer is lost, or the request is applied long
/// after its error.
// Promise: L14
#[tokio::test(start_paused = true)]
async fn dropped_calls_leave_nothing_over_a_lossy_wire() {
    for seed in 0..WORLDS {
        soon(one_world(seed, 0.3)).await;
    }
}

type Wire = Lossy<Delayed<Memory>>;

async fn one_world(seed: u64, failure_rate: f64) {
    let store = memory();
    let mut random = fastrand::Rng::with_seed(seed);
    let wires = [(); 2].map(|()| {
        let wire = Lossy::new(Delayed::new(store.clone(), random.u64(..), ms(3), ms(10)));
        wire.at_random(random.u64(..), failure_rate, Duration::from_secs(2));
        wire
    });
    // In half of the worlds the ttls are so short that holds expire while their guards exist. In the other half they
    // are so long that a lock which is not released would still be held at the end.
    let short = seed.is_multiple_of(2);
    let (ttl, lease) = if short { (ms(400), ms(150)) } else { (ms(100_000), ms(50_000)) };
    let connect = |wire: &Wire| paused().watchdog(ttl).over(wire.clone()).unwrap();
    let clients = [connect(&wires[0]), connect(&wires[1])];
    let census = Census::default();
    let tasks: Vec<_> = (0..4)
        .map(|number| {
            let (client, census) = (clients[number % 2].clone(), census.clone());
            tokio::spawn(calls(client, census, lease, random.fork()))
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    wires.iter().for_each(Lossy::heal);
    for client in &clients {
        client.idle().await;
    }
    assert_eq!(held(&store).await, [""; 0], "world {seed}");
    assert!(census.entered() > 0);
}

async fn calls(client: Client, census: Census, lease: Duration, mut random: fastrand::Rng) {
    let owner = client.owner();
    for _ in 0..CALLS {
        let mutex = client.mutex(if random.bool() { "one" } else { "two" });
        let mutex = if random.u8(..4) == 0 { mutex.lease(lease) } else { mutex };
        let mutex = if random.u8(..4) == 0 { mutex.by(&owner) } else { mutex };
        let call = call(&mutex, &census, random.fork());
        match random.u8(..3) {
            // Dropped after a number of polls.
            0 => drop(polled(random.usize(..4), call).await),
            // Dropped after a time.
            1 => drop(time::timeout(Duration::from_micros(random.u64(..60_000)), call).await),
            _ => call.await,
        }
    }
}

async fn call(mutex: &Mutex, census: &Census, mut random: fastrand::Rng) {
    let guard = match random.u8(..4) {
        0 => mutex.lock().await.ok(),
        1 => mutex.try_lock().await.ok().flatten(),
        2 => mutex.try_lock_for(ms(random.u64(..200))).await.ok().flatten(),
        _ => {
            let body = async |guard: &bandog_sync::Guard| {
                let _stay = census.enter(guard);
                time::sleep(ms(2)).await;
            };
            return drop(mutex.run(body).await);
        }
    };
    let Some(guard) = guard else { return };
    let stay = census.enter(&guard);
    time::sleep(ms(random.u64(..4))).await;
    drop(stay);
    if random.bool() {
        // Other tests check the result of `release`.
        drop(guard.release().await);
    }
}

/// Polls the future until it is ready, but at most this number of times. Then drops it.
async fn polled<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut left = times;
    let polled_enough = std::future::poll_fn(|_| {
        if left == 0 {
            return std::task::Poll::Ready(());
        }
        left -= 1;
        std::task::Poll::Pending
    });
    match select(pin!(polled_enough), pin!(future)).await {
        Either::Left(_) => None,
        Either::Right((value, _)) => Some(value),
    }
}
