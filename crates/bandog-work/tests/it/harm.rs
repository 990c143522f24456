//! What the code of users can do to workers: panic anywhere, block, and return too much.

use std::{
    fmt,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use bandog::{
    testing::Store,
    work::{Backoff, ClientWork, Delivery, Outcome, Phase, WorkQueue},
};
use bandog_testkit::eventually_async;
use serde::{Deserialize, Deserializer, Serialize};

use crate::kit::{SECOND, count, elements, queues};

/// An error whose text panics.
#[derive(Debug)]
struct Loud;

impl fmt::Display for Loud {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("the text panics")
    }
}

impl std::error::Error for Loud {}

/// A value whose drop panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("the drop panics");
        }
    }
}

/// Panics when it is read.
#[derive(Debug, Serialize)]
struct Trap(u32);

impl<'de> Deserialize<'de> for Trap {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(from)?;
        assert!(number % 2 == 0, "the number is odd");
        Ok(Self(number))
    }
}

/// Whatever panics is a failed delivery of its element, and the workers go on, with all their slots.
// Promise: W5
#[tokio::test(start_paused = true)]
async fn a_panic_anywhere_is_a_failed_delivery() {
    for kind in ["display", "drop", "drop of the value"] {
        let (queue, other) = queues();
        let fixed = Backoff::fixed(SECOND).unwrap();
        let workers = other.workers(2).lease(SECOND * 2).deliveries(2).backoff(fixed).run(
            move |delivery: Delivery<String>| async move {
                let is_bad = delivery.as_str() == "bad";
                let _bomb = (is_bad && kind == "drop").then(|| Bomb);
                match is_bad {
                    true if kind == "display" => Err(Loud),
                    true if kind == "drop of the value" => {
                        let bomb = Bomb;
                        tokio::time::sleep(SECOND).await;
                        drop(bomb);
                        Ok(())
                    }
                    _ => Ok(()),
                }
            },
        );
        queue.push_all(&["bad", "bad", "bad", "good", "good"].map(str::to_owned)).await.unwrap();
        let is_over = async || {
            let status = queue.status().await.unwrap();
            match (status.count(Phase::Dead), status.counts.values().sum::<u64>()) {
                (3, 3) => Ok(()),
                _ => Err((kind, status)),
            }
        };
        eventually_async(SECOND * 3600, is_over).await;
        let dead = elements(&queue, Phase::Dead).await;
        assert!(
            dead.iter().all(|row| row.error.as_ref().is_some_and(|error| error.contains("panic"))),
            "{kind}: {dead:?}"
        );
        assert!(dead.iter().all(|row| row.attempt == 2), "{kind}: {dead:?}");
        workers.stop().await.unwrap();
    }
}

/// A payload whose type panics while it is read.
// Promise: W5
#[tokio::test(start_paused = true)]
async fn a_payload_that_panics_ends_no_workers() {
    let store = Store::new();
    let queue = || -> WorkQueue<Trap> { store.client().work_queue("traps").unwrap() };
    let (pusher, worker) = (queue(), queue());
    let workers = worker.workers(1).deliveries(2).run(async |_: Delivery<Trap>| Ok::<_, std::io::Error>(()));
    pusher.push_all(&(0..10).map(Trap).collect::<Vec<_>>()).await.unwrap();
    eventually_async(SECOND * 3600, async || {
        let status = pusher.status().await.unwrap();
        (status.count(Phase::Dead), status.counts.values().sum::<u64>()) == (5, 5)
    })
    .await;
    workers.stop().await.unwrap();
}

/// A handler whose future panics when it is dropped, because its element was removed.
#[tokio::test(start_paused = true)]
async fn a_drop_that_panics_frees_the_slot_of_a_removed_element() {
    let (queue, other) = queues();
    let workers = other.workers(1).lease(SECOND * 3).run(async |delivery: Delivery<String>| {
        if delivery.as_str() == "bad" {
            let _bomb = Bomb;
            std::future::pending::<()>().await;
        }
        Ok::<_, std::io::Error>(())
    });
    let bad = queue.push(&"bad".to_owned()).await.unwrap();
    eventually_async(SECOND * 60, async || count(&queue, Phase::Taken).await == 1).await;
    queue.push(&"good".to_owned()).await.unwrap();
    assert_eq!(queue.remove(&[bad.id]).await.unwrap(), 1);
    crate::kit::empty(&queue).await;
    workers.stop().await.unwrap();
}

/// A result that is larger than a payload may be.
#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_makes_its_element_dead_at_once() {
    let (queue, other) = queues();
    let runs = std::sync::Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let workers = other.workers(4).answer(move |delivery: Delivery<String>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, std::io::Error>(vec![b'r'; delivery.parse().unwrap()]) }
    });
    let mut ids = Vec::new();
    for length in ["1", "1048576", "1048577"] {
        ids.push(queue.push(&length.to_owned()).keep_result(SECOND * 600).await.unwrap().id);
    }
    for (id, length) in ids.iter().zip([Some(1), Some(1 << 20), None]) {
        match (queue.result(*id, SECOND * 60).await.unwrap().unwrap(), length) {
            (Outcome::Done(bytes), Some(length)) => assert_eq!(bytes.len(), length),
            (Outcome::Failed(error), None) => {
                assert!(error.contains("1048577") && error.contains("1048576"), "{error}")
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    workers.stop().await.unwrap();
}

/// One handler that blocks its thread keeps its own element, and no other.
// Promise: W7
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_keeps_only_its_own_element() {
    let queue: WorkQueue<String> = bandog::connect("memory:").await.unwrap().work_queue("orders").unwrap();
    let has_begun = std::sync::Arc::new(AtomicU32::new(0));
    let begun = has_begun.clone();
    let workers =
        queue.workers(4).lease(Duration::from_secs(30)).drain(Duration::ZERO).run(move |delivery: Delivery<String>| {
            let begun = begun.clone();
            async move {
                if delivery.as_str() == "blocks" {
                    begun.store(1, Ordering::SeqCst);
                    thread::sleep(Duration::from_secs(4));
                }
                std::future::pending::<Result<(), std::io::Error>>().await
            }
        });
    let texts = ["blocks", "a", "b", "c", "d", "e", "f", "g", "h"];
    queue.push_all(&texts.map(str::to_owned)).await.unwrap();
    let is_begun = async || has_begun.load(Ordering::SeqCst) == 1 && count(&queue, Phase::Taken).await >= 4;
    eventually_async(Duration::from_secs(60), is_begun).await;
    workers.stop().await.unwrap();
    let taken = elements(&queue, Phase::Taken).await;
    let payloads: Vec<_> = taken.iter().map(|row| String::from_utf8_lossy(&row.payload).into_owned()).collect();
    assert_eq!(payloads, ["\"blocks\""]);
    let ready = elements(&queue, Phase::Ready).await;
    assert!(ready.len() == 8 && ready.iter().all(|row| row.attempt == 0), "{ready:?}");
}
