//! Several busy clients share a lock fairly.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_conformance::wrap::{Counting, Delayed};
use tokio::time;

use crate::kit::{client, memory, ms};

/// Two clients with 16 tasks each compete for one lock, over a connection with delays. Their numbers of turns (times
/// that a task had the lock) differ by at most 20 %. Most turns need no request, because a client gives its hold from
/// one of its tasks to the next.
// Promise: L13
#[tokio::test(start_paused = true)]
async fn two_clients_with_sixteen_tasks_share_fairly() {
    shares(2, 16, 5).await;
}

/// With four clients the numbers differ by up to a half. When a client lets the others go first, any of them can get
/// the lock next, so luck matters more.
#[tokio::test(start_paused = true)]
async fn four_clients_with_eight_tasks_share_fairly() {
    shares(4, 8, 2).await;
}

/// Runs the clients for a minute. The numbers of turns of two clients must not differ by more than one `part`-th. The
/// delays are several milliseconds, because a paused clock has a resolution of one millisecond.
async fn shares(clients: u64, tasks: u64, part: u64) {
    let store = memory();
    let mut counts = Vec::new();
    let mut turns = Vec::new();
    let mut running = Vec::new();
    for seed in 0..clients {
        let wire = Counting::new(Delayed::new(store.clone(), seed, ms(8), ms(8)));
        let (client, mine) = (client(wire.clone()), Arc::new(AtomicU64::new(0)));
        for _ in 0..tasks {
            let (mutex, mine) = (client.mutex("orders"), Arc::clone(&mine));
            running.push(tokio::spawn(async move {
                loop {
                    let guard = mutex.lock().await.unwrap();
                    mine.fetch_add(1, Relaxed);
                    time::sleep(Duration::from_micros(200)).await;
                    guard.release().await.unwrap();
                }
            }));
        }
        counts.push(wire);
        turns.push(mine);
    }
    time::sleep(Duration::from_secs(60)).await;
    let turns: Vec<_> = turns.iter().map(|turns| turns.load(Relaxed)).collect();
    let (least, most) = (*turns.iter().min().unwrap(), *turns.iter().max().unwrap());
    assert!(most - least <= most / part, "{turns:?}");
    let requests: usize = counts.iter().map(|counts| counts.claims() + counts.passes() + counts.releases()).sum();
    let all: u64 = turns.iter().sum();
    assert!(requests as u64 * 3 < all, "{requests} requests for {all} turns");
    for task in running {
        task.abort();
    }
}
