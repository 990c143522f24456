//! How deliveries end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bandog::{
    ErrorKind,
    testing::Store,
    work::{Backoff, ClientWork, Delivery, Outcome, Phase, Rate, WorkQueue},
};
use bandog_testkit::eventually_async;
use futures_util::FutureExt;
use tokio::time::Instant;

use crate::kit::{SECOND, Seen, count, elements, empty, queues};

// Promise: W5
#[tokio::test(start_paused = true)]
async fn a_failed_element_comes_again_and_is_dead_after_the_last_delivery() {
    let (log, _guard) = bandog_testkit::LogCapture::of_thread("bandog_work");
    let (queue, other) = queues();
    let begun = Instant::now();
    let seen = Seen::default();
    let workers = other.workers(2).deliveries(3).backoff(Backoff::fixed(SECOND * 10).unwrap()).run({
        let seen = seen.clone();
        move |delivery: Delivery<String>| {
            seen.add(&delivery);
            assert!(delivery.as_str() != "panic", "on purpose");
            async move {
                let last = delivery.last_error().map(str::to_owned);
                assert_eq!(last.is_some(), delivery.attempt() > 1);
                let cause = std::io::Error::other("no route");
                Err::<(), _>(std::io::Error::other(format!("attempt {}: {cause}", delivery.attempt())))
            }
        }
    });
    queue.push_all(&["error", "panic"].map(str::to_owned)).await.unwrap();
    eventually_async(SECOND * 3600, async || count(&queue, Phase::Dead).await == 2).await;
    assert!(begun.elapsed() >= SECOND * 20, "{:?}", begun.elapsed());
    assert_eq!(seen.all().len(), 6);
    let dead = elements(&queue, Phase::Dead).await;
    let errors: Vec<_> = dead.iter().map(|row| row.error.clone().unwrap()).collect();
    assert!(errors.iter().any(|error| error == "attempt 3: no route"), "{errors:?}");
    assert!(errors.iter().any(|error| error == "the handler has panicked: on purpose"), "{errors:?}");
    assert!(dead.iter().all(|row| row.attempt == 3), "{dead:?}");
    assert_eq!(queue.retry(&[dead[0].id]).await.unwrap(), 1);
    eventually_async(SECOND * 3600, async || count(&queue, Phase::Dead).await == 2).await;
    // The second death comes in the same ten seconds, the third one later.
    let lines = log.lines_with("an element is dead: the handler has failed");
    assert!(lines.len() == 2 && lines.iter().all(|line| line.starts_with("WARN")), "{lines:?}");
    assert!(lines[0].contains("queue=\"orders\"") && lines[0].contains("error=\""), "{lines:?}");
    assert_eq!(log.lines_with("its element comes again").len(), 6, "two for each life of an element");
    assert_eq!(queue.purge(Phase::Dead).await.unwrap(), 2);
    assert_eq!(queue.purge(Phase::Taken).await.unwrap_err().kind(), ErrorKind::Misused);
    workers.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_element_that_cannot_be_read_is_dead_at_once() {
    let store = Store::new();
    let newer: WorkQueue<String> = store.client().work_queue("orders").unwrap();
    let older: WorkQueue<u32> = store.client().work_queue("orders").unwrap();
    newer.push("secret text").await.unwrap();
    older.push(&7).await.unwrap();
    let workers = older.workers(1).run(|number: Delivery<u32>| async move {
        assert_eq!(*number, 7);
        Ok::<_, bandog::Error>(())
    });
    eventually_async(SECOND * 3600, async || {
        count(&newer, Phase::Ready).await == 0 && count(&newer, Phase::Taken).await == 0
    })
    .await;
    let dead = elements(&newer, Phase::Dead).await;
    assert_eq!(dead.len(), 1);
    let error = dead[0].error.as_deref().unwrap();
    assert!(error.contains("TextJson") && !error.contains("secret"), "{error}");
    workers.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_settles_a_delivery_whatever_the_handler_returns() {
    let (queue, other) = queues();
    let workers = other.workers(8).deliveries(2).run(move |delivery: Delivery<String>| async move {
        let result = match (delivery.as_str(), delivery.attempt()) {
            ("done", _) => delivery.done().await,
            ("fail", _) => delivery.fail("for good").await,
            ("retry", _) => delivery.retry_after(SECOND, "soon").await,
            ("back", _) if delivery.age() < SECOND => {
                tokio::time::sleep(SECOND).await;
                delivery.hand_back().await
            }
            _ => return Ok(()),
        };
        result.unwrap();
        assert_eq!(delivery.done().await.unwrap_err().kind(), ErrorKind::Misused);
        Err("the handler fails")
    });
    queue.push_all(&["done", "fail", "retry", "back"].map(str::to_owned)).await.unwrap();
    eventually_async(SECOND * 3600, async || {
        let status = queue.status().await.unwrap();
        status.count(Phase::Dead) == 2 && status.counts.values().sum::<u64>() == 2
    })
    .await;
    let errors: Vec<_> =
        elements(&queue, Phase::Dead).await.into_iter().map(|row| (row.error.unwrap(), row.attempt)).collect();
    assert_eq!(errors, [("for good".to_owned(), 1), ("soon".to_owned(), 2)]);
    workers.stop().await.unwrap();
}

// Promise: W2
#[tokio::test(start_paused = true)]
async fn a_long_handler_keeps_its_element_and_shows_its_progress() {
    let (queue, other) = queues();
    let runs = Arc::new(AtomicU32::new(0));
    let handler = |runs: Arc<AtomicU32>| {
        move |delivery: Delivery<String>| {
            let runs = runs.clone();
            async move {
                runs.fetch_add(1, Ordering::SeqCst);
                delivery.progress("half");
                tokio::time::sleep(SECOND * 600).await;
                assert!(!delivery.is_lost() && delivery.remaining() > Duration::ZERO);
                Ok::<_, bandog::Error>(())
            }
        }
    };
    let (ours, theirs) = (queue.workers(1).run(handler(runs.clone())), other.workers(1).run(handler(runs.clone())));
    let id = queue.push("long").keep_result(SECOND * 1000).await.unwrap().id;
    tokio::time::sleep(SECOND * 60).await;
    let row = queue.find(id).await.unwrap().unwrap();
    assert_eq!((row.phase, row.progress.as_deref()), (Phase::Taken, Some("half")));
    let status = queue.status().await.unwrap();
    assert_eq!(
        status.workers.iter().map(|worker| (worker.slots, worker.running)).collect::<std::collections::HashSet<_>>(),
        [(1, 0), (1, 1)].into()
    );
    assert!(status.workers.iter().all(|worker| worker.place.contains('@')), "{status:?}");
    tokio::time::sleep(SECOND * 600).await;
    let row = queue.find(id).await.unwrap().unwrap();
    assert_eq!((row.phase, row.outcome), (Phase::Ended, Some(Outcome::Done(Vec::new()))));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    ours.stop().await.unwrap();
    theirs.stop().await.unwrap();
    assert!(queue.status().await.unwrap().workers.is_empty());
}

// Promise: W2
#[tokio::test(start_paused = true)]
async fn a_removed_element_ends_its_handler() {
    let (queue, other) = queues();
    let dropped = Arc::new(AtomicU32::new(0));
    struct Counts(Arc<AtomicU32>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let workers = other.workers(1).run({
        let dropped = dropped.clone();
        move |_: Delivery<String>| {
            let counts = Counts(dropped.clone());
            async move {
                std::future::pending::<()>().await;
                drop(counts);
                Ok::<_, bandog::Error>(())
            }
        }
    });
    let id = queue.push("endless").keep_result(SECOND * 1000).await.unwrap().id;
    eventually_async(SECOND * 60, async || count(&queue, Phase::Taken).await == 1).await;
    assert_eq!(queue.remove(&[id]).await.unwrap(), 1);
    eventually_async(SECOND * 60, async || dropped.load(Ordering::SeqCst) == 1).await;
    eventually_async(SECOND * 60, async || {
        queue.find(id).await.unwrap().and_then(|row| row.outcome) == Some(Outcome::Cancelled)
    })
    .await;
    workers.stop().await.unwrap();
}

// Promise: W6
#[tokio::test(start_paused = true)]
async fn elements_of_a_key_are_worked_on_one_by_one() {
    let (queue, other) = queues();
    let (busy, seen) = (Arc::new(AtomicU32::new(0)), Seen::default());
    let handler = |busy: Arc<AtomicU32>, seen: Seen| {
        move |delivery: Delivery<String>| {
            let (busy, seen) = (busy.clone(), seen.clone());
            async move {
                assert_eq!(busy.fetch_add(1, Ordering::SeqCst), 0);
                tokio::time::sleep(SECOND / 10).await;
                busy.fetch_sub(1, Ordering::SeqCst);
                if delivery.attempt() == 1 && delivery.ends_with('3') {
                    return Err("again");
                }
                seen.add(&delivery);
                Ok(())
            }
        }
    };
    let names: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    queue.push_all(&names).key("order 7").await.unwrap();
    let ours = queue.workers(4).run(handler(busy.clone(), seen.clone()));
    let theirs = other.workers(4).run(handler(busy.clone(), seen.clone()));
    empty(&queue).await;
    assert_eq!(seen.all(), names);
    ours.stop().await.unwrap();
    theirs.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn limits_and_pauses_hold_for_all_workers() {
    let (queue, other) = queues();
    let (busy, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let handler = |busy: Arc<AtomicU32>, most: Arc<AtomicU32>| {
        move |_: Delivery<String>| {
            let (busy, most) = (busy.clone(), most.clone());
            async move {
                most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(SECOND).await;
                busy.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, bandog::Error>(())
            }
        }
    };
    queue.pause().await.unwrap();
    queue.limit_concurrency(3.try_into().ok()).await.unwrap();
    let names: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    queue.push_all(&names).await.unwrap();
    let ours = queue.workers(8).run(handler(busy.clone(), most.clone()));
    let theirs = other.workers(8).run(handler(busy.clone(), most.clone()));
    tokio::time::sleep(SECOND * 10).await;
    assert_eq!(count(&queue, Phase::Ready).await, 30);
    queue.resume().await.unwrap();
    let begun = Instant::now();
    empty(&queue).await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert!(begun.elapsed() < SECOND * 15, "{:?}", begun.elapsed());

    queue.limit_concurrency(None).await.unwrap();
    queue.limit_rate(Some(Rate { deliveries: 10.try_into().unwrap(), per: SECOND * 10 })).await.unwrap();
    let begun = Instant::now();
    queue.push_all(&names).await.unwrap();
    empty(&queue).await;
    assert!((SECOND * 28..SECOND * 40).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    // Much faster than the polls.
    queue.limit_rate(Some(Rate { deliveries: 20.try_into().unwrap(), per: SECOND })).await.unwrap();
    let begun = Instant::now();
    queue.push_all(&names).await.unwrap();
    empty(&queue).await;
    assert!((SECOND..SECOND * 3).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    ours.stop().await.unwrap();
    theirs.stop().await.unwrap();
}

/// A call that gives an element back returns when the element may be here again: the end of the first handler is not that of
/// the second delivery.
#[tokio::test(start_paused = true)]
async fn a_handler_that_goes_on_after_its_settlement_does_not_end_the_next_delivery() {
    let (queue, other) = queues();
    queue.push("text").await.unwrap();
    let deliveries = Arc::new(AtomicU32::new(0));
    let counted = deliveries.clone();
    let workers = other.workers(2).run(move |delivery: Delivery<String>| {
        let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
        async move {
            if number == 1 {
                delivery.hand_back().await.unwrap();
                tokio::time::sleep(SECOND).await;
                assert_eq!(delivery.done().await.unwrap_err().kind(), ErrorKind::Misused);
                return Ok(());
            }
            tokio::time::sleep(SECOND * 5).await;
            Ok::<_, std::io::Error>(())
        }
    });
    let begun = Instant::now();
    empty(&queue).await;
    assert_eq!(deliveries.load(Ordering::Relaxed), 2);
    assert!(begun.elapsed() < SECOND * 10, "{:?}", begun.elapsed());
    workers.stop().await.unwrap();
}

/// The handler works for longer than its lease, and than these workers need to stop otherwise.
#[tokio::test(start_paused = true)]
async fn a_delivery_that_is_settled_has_no_deadline_and_a_stop_waits_for_its_handler() {
    let (queue, other) = queues();
    queue.push_all(&["first", "second"].map(str::to_owned)).await.unwrap();
    let seen = Seen::default();
    let workers = other.workers(1).lease(SECOND * 2).run({
        let seen = seen.clone();
        move |delivery: Delivery<String>| {
            let seen = seen.clone();
            async move {
                delivery.done().await.unwrap();
                assert!(!delivery.is_lost() && delivery.remaining() > SECOND * 86_400);
                assert!(delivery.lost().now_or_never().is_none());
                tokio::time::sleep(SECOND * 10).await;
                seen.add(&delivery);
                Ok::<_, std::io::Error>(())
            }
        }
    });
    tokio::time::sleep(SECOND * 11).await;
    assert_eq!(seen.all(), ["first"]);
    // The second handler keeps the only slot, so no third element is taken.
    queue.push("third").await.unwrap();
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!((count(&queue, Phase::Ready).await, count(&queue, Phase::Taken).await), (1, 0));
    let begun = Instant::now();
    workers.stop().await.unwrap();
    assert_eq!(seen.all(), ["first", "second"]);
    assert!(begun.elapsed() > SECOND * 6, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_is_refused_leaves_the_delivery_lost() {
    let (queue, other) = queues();
    let id = queue.push("text").await.unwrap().id;
    let (sender, ended) = tokio::sync::oneshot::channel();
    let sender = Arc::new(std::sync::Mutex::new(Some(sender)));
    let workers = other.workers(1).lease(SECOND * 2).run(move |delivery: Delivery<String>| {
        let sender = sender.clone();
        async move {
            // A thread that does not see that its delivery is lost.
            let blocked = tokio::spawn(async move {
                tokio::time::sleep(SECOND * 5).await;
                let error = delivery.done().await.unwrap_err();
                (error.kind(), delivery.is_lost(), delivery.remaining(), delivery.done().await.unwrap_err().kind())
            });
            let sender = sender.lock().unwrap().take().unwrap();
            tokio::spawn(async move { sender.send(blocked.await.unwrap()) });
            std::future::pending::<Result<(), std::io::Error>>().await
        }
    });
    eventually_async(SECOND * 60, async || count(&queue, Phase::Taken).await == 1).await;
    assert!(queue.remove(&[id]).await.unwrap() == 1);
    assert_eq!(ended.await.unwrap(), (ErrorKind::Lost, true, Duration::ZERO, ErrorKind::Misused));
    workers.stop().await.unwrap();
}

/// A program whose handlers were short takes elements in advance. It does not while a handler runs for longer: they would wait
/// in it, and another program has a free slot.
#[tokio::test(start_paused = true)]
async fn a_program_whose_slots_are_all_in_use_leaves_elements_to_others() {
    let (queue, other) = queues();
    let handler = |seen: &Seen| {
        let seen = seen.clone();
        move |delivery: Delivery<String>| {
            let seen = seen.clone();
            async move {
                match delivery.as_str() {
                    "long" => tokio::time::sleep(SECOND * 60).await,
                    _ => seen.add(&delivery),
                }
                Ok::<_, std::io::Error>(())
            }
        }
    };
    let seen = Seen::default();
    let busy = other.workers(4).run(handler(&seen));
    queue.push_all(&vec!["short".to_owned(); 50]).await.unwrap();
    empty(&queue).await;
    queue.push_all(&vec!["long".to_owned(); 4]).await.unwrap();
    eventually_async(SECOND * 60, async || count(&queue, Phase::Taken).await == 4).await;
    tokio::time::sleep(SECOND).await;
    let idle = queue.workers(1).run(handler(&seen));
    for number in 1..=20 {
        queue.push("short").await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(seen.all().len(), 50 + number, "an element waits");
        // They may be taken again by the time at which the other program looks.
        tokio::time::sleep(Duration::from_millis(number as u64 * 373 % 1_500)).await;
    }
    drop(busy);
    idle.stop().await.unwrap();
}

/// The futures of the settlements are dropped after their first poll, and the handlers end at once.
#[tokio::test(start_paused = true)]
async fn a_settlement_without_an_awaiter_is_not_overtaken_by_the_end_of_its_handler() {
    let (queue, other) = queues();
    queue.push_all(&["ok", "error"].map(str::to_owned)).await.unwrap();
    let seen = Seen::default();
    let workers = other.workers(1).run({
        let seen = seen.clone();
        move |delivery: Delivery<String>| {
            seen.add(&delivery);
            async move {
                assert!(delivery.done().now_or_never().is_none());
                if delivery.as_str() == "ok" { Ok(()) } else { Err("it is done all the same") }
            }
        }
    });
    empty(&queue).await;
    workers.stop().await.unwrap();
    assert_eq!(seen.all(), ["ok", "error"]);
}

/// The workers are dropped before they hear of the settlement, because they hear of the end of another handler first.
#[tokio::test(start_paused = true)]
async fn a_settlement_is_not_overtaken_by_the_end_of_the_workers() {
    let (queue, other) = queues();
    queue.push_all(&["other", "order"].map(str::to_owned)).await.unwrap();
    let (sender, mut deliveries) = tokio::sync::mpsc::unbounded_channel();
    let ends = Arc::new(tokio::sync::Notify::new());
    let workers = other.workers(2).run({
        let ends = ends.clone();
        move |delivery: Delivery<String>| {
            let (sender, ends) = (sender.clone(), ends.clone());
            async move {
                let is_other = delivery.as_str() == "other";
                sender.send(delivery).unwrap();
                match is_other {
                    true => ends.notified().await,
                    false => std::future::pending().await,
                }
                Ok::<_, bandog::Error>(())
            }
        }
    });
    let (_other, delivery) = (deliveries.recv().await.unwrap(), deliveries.recv().await.unwrap());
    ends.notify_one();
    let mut settled = Box::pin(delivery.done());
    assert!((&mut settled).now_or_never().is_none());
    drop(workers);
    settled.await.unwrap();
    empty(&queue).await;
}
