//! Futures that are dropped at any await: no element is lost, and nothing is left behind.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use bandog::grid::{ClientGrid, Grid, Queue};
use bandog_testkit::{RedisServer, eventually_async};
use futures_util::{FutureExt, future::poll_fn};
use tokio::time::timeout;

use crate::{SOON, client, keys};

/// The time that a call waits for an element that may not come.
const SHORT: Duration = Duration::from_millis(2);

/// Polls a future at most this number of times, and drops it then.
pub(crate) async fn poll_at_most<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return std::task::Poll::Ready(None);
        }
        left -= 1;
        future.poll_unpin(context).map(Some)
    })
    .await
}

/// Drops calls after a random number of polls or a random time, and counts what arrives.
async fn drop_calls(grid: &Grid, calls: usize) -> BTreeMap<usize, usize> {
    let queue: Queue<usize> = grid.queue("q").unwrap();
    let mut received = BTreeMap::new();
    let mut pushed = 0;
    for call in 0..calls {
        if call % 3 != 0 {
            queue.push(&pushed).await.unwrap();
            pushed += 1;
        }
        let polls = fastrand::usize(1..5);
        let micros = Duration::from_micros(fastrand::u64(0..600));
        let got = match call % 4 {
            0 => poll_at_most(polls, queue.pop()).await.and_then(|popped| popped.unwrap()),
            1 => timeout(micros, queue.pop_wait(SOON)).await.ok().and_then(|popped| popped.unwrap()),
            2 => poll_at_most(polls, queue.drain(3)).await.and_then(|drained| {
                let mut drained = drained.unwrap().into_iter();
                let first = drained.next();
                drained.for_each(|number| *received.entry(number).or_default() += 1);
                first
            }),
            _ => {
                let taken = timeout(SHORT, poll_at_most(polls, queue.take(SOON))).await.ok().flatten();
                let taken = taken.and_then(|taken| taken.unwrap());
                match taken {
                    Some(taken) if fastrand::bool() => {
                        let number = *taken;
                        taken.done().await.unwrap();
                        Some(number)
                    }
                    _ => None,
                }
            }
        };
        if let Some(number) = got {
            *received.entry(number).or_default() += 1;
        }
    }
    while let Some(number) = queue.pop_wait(Duration::from_secs(2)).await.unwrap() {
        *received.entry(number).or_default() += 1;
    }
    assert_eq!(received.len(), pushed, "each element has arrived");
    received
}

// Promise: G12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_dropped_calls_lose_nothing_in_memory() {
    let received = drop_calls(&client("memory:").await.grid(), 10_000).await;
    assert!(received.values().all(|times| *times == 1));
}

// Promise: G5, G12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_dropped_calls_lose_nothing_and_leave_nothing_on_redis() {
    let server = RedisServer::start();
    let received = drop_calls(&client(&server.url()).await.grid(), 10_000).await;
    assert!(received.values().all(|times| *times == 1));
    eventually_async(SOON, async || keys(&server).is_empty()).await;
}
