//! How workers end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bandog::work::{ClientWork, Delivery, Phase, Running, WorkQueue};
use bandog_testkit::eventually_async;
use tokio::time::Instant;

use crate::kit::{SECOND, count, elements, queues};

/// Workers whose handlers take this time.
fn slow(queue: &WorkQueue<String>, time: Duration, ended: &Arc<AtomicU32>) -> Running {
    let ended = ended.clone();
    queue.workers(2).drain(SECOND * 10).run(move |_: Delivery<String>| {
        let ended = ended.clone();
        async move {
            tokio::time::sleep(time).await;
            ended.fetch_add(1, Ordering::SeqCst);
            Ok::<_, bandog::Error>(())
        }
    })
}

// Promise: W7
#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_handlers() {
    let (queue, _) = queues();
    let ended = Arc::default();
    queue.push_all(&["a", "b", "c"].map(str::to_owned)).await.unwrap();
    let workers = slow(&queue, SECOND * 5, &ended);
    eventually_async(SECOND * 60, async || count(&queue, Phase::Taken).await == 2).await;
    workers.stop().await.unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 2);
    let left = elements(&queue, Phase::Ready).await;
    assert_eq!(left.iter().map(|row| (row.payload.as_slice(), row.attempt)).collect::<Vec<_>>(), [(&b"\"c\""[..], 0)]);
    assert_eq!(count(&queue, Phase::Taken).await, 0);
}

#[tokio::test(start_paused = true)]
async fn handlers_that_take_too_long_are_dropped_and_their_elements_handed_back() {
    let (queue, _) = queues();
    let ended = Arc::default();
    queue.push_all(&["a", "b"].map(str::to_owned)).await.unwrap();
    let workers = slow(&queue, SECOND * 50, &ended);
    eventually_async(SECOND * 60, async || count(&queue, Phase::Taken).await == 2).await;
    let begun = Instant::now();
    workers.stop().await.unwrap();
    assert!((SECOND * 10..SECOND * 12).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    let left = elements(&queue, Phase::Ready).await;
    assert!(left.len() == 2 && left.iter().all(|row| row.attempt == 0), "{left:?}");
    tokio::time::sleep(SECOND * 100).await;
    assert_eq!(ended.load(Ordering::SeqCst), 0);
}

/// It has not failed: the stop drops it.
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_while_a_stop_drops_it_does_not_count() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    let (queue, _) = queues();
    queue.push("a").await.unwrap();
    let workers = queue.workers(1).drain(Duration::ZERO).run(|_: Delivery<String>| async {
        let _bomb = Bomb;
        std::future::pending::<Result<(), bandog::Error>>().await
    });
    eventually_async(SECOND * 60, async || count(&queue, Phase::Taken).await == 1).await;
    tokio::time::sleep(SECOND).await;
    workers.stop().await.unwrap();
    let left = elements(&queue, Phase::Ready).await;
    assert_eq!(left.iter().map(|row| row.attempt).collect::<Vec<_>>(), [0]);
}

// Promise: W7
#[tokio::test(start_paused = true)]
async fn dropped_workers_hand_their_elements_back() {
    let (queue, _) = queues();
    let ended = Arc::default();
    queue.push_all(&["a", "b", "c"].map(str::to_owned)).await.unwrap();
    for at in 0..100_u64 {
        let workers = slow(&queue, SECOND * 50, &ended);
        tokio::time::sleep(Duration::from_micros(at * 700)).await;
        match at % 3 {
            0 => drop(workers),
            1 => drop(tokio::time::timeout(SECOND / 100, workers).await),
            _ => drop(tokio::time::timeout(SECOND / 100, workers.stop()).await),
        }
        eventually_async(SECOND * 3, async || count(&queue, Phase::Ready).await == 3).await;
    }
    let left = elements(&queue, Phase::Ready).await;
    assert_eq!(
        left.iter().map(|row| row.payload.clone()).collect::<Vec<_>>(),
        ["\"a\"", "\"b\"", "\"c\""].map(|text| text.as_bytes().to_vec())
    );
    assert!(left.iter().all(|row| row.attempt == 0), "{left:?}");
    assert_eq!(ended.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn workers_run_until_a_future_resolves() {
    let (queue, _) = queues();
    let ended = Arc::default();
    queue.push("a").await.unwrap();
    let begun = Instant::now();
    slow(&queue, SECOND, &ended).until(tokio::time::sleep(SECOND * 60)).await.unwrap();
    assert!(begun.elapsed() >= SECOND * 60);
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

// Promise: W7
#[test]
fn workers_end_with_their_runtime_and_others_get_their_elements() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = Arc::default();
    let first = runtime();
    let open = async || bandog::connect("memory:ended_runtime").await.unwrap().work_queue("orders").unwrap();
    let (workers, other) = first.block_on(async {
        let (queue, other): (WorkQueue<String>, _) = (open().await, open().await);
        queue.push("a").await.unwrap();
        let workers = queue.workers(1).lease(SECOND).run(|_: Delivery<String>| async {
            std::future::pending::<()>().await;
            Ok::<_, bandog::Error>(())
        });
        eventually_async(SECOND * 60, async || count(&queue, Phase::Taken).await == 1).await;
        (workers, other)
    });
    drop(first);
    runtime().block_on(async {
        assert!(workers.await.is_err());
        let workers = slow(&other, Duration::ZERO, &ended);
        eventually_async(SECOND * 60, async || ended.load(Ordering::SeqCst) == 1).await;
        workers.stop().await.unwrap();
    });
}
