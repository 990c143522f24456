//! Pushes.

use std::{collections::HashSet, time::Duration};

use bandog::{
    ErrorKind,
    testing::Store,
    work::{Backoff, ClientWork, Delivery, Phase, WorkQueue},
};
use futures_util::{FutureExt, future::join_all};

use crate::kit::{SECOND, Seen, count, elements, empty, queues};

#[tokio::test(start_paused = true)]
async fn elements_come_in_their_order() {
    let (queue, other) = queues();
    queue.push("b").await.unwrap();
    queue.push("a").priority(9).await.unwrap();
    queue.push("d").after(SECOND).await.unwrap();
    queue.push_all(&["c".to_owned()]).await.unwrap();
    let seen = Seen::default();
    let workers = other.workers(1).run({
        let seen = seen.clone();
        move |delivery: Delivery<String>| {
            seen.add(&delivery);
            async { Ok::<_, bandog::Error>(()) }
        }
    });
    empty(&queue).await;
    assert_eq!(seen.all(), ["a", "b", "c", "d"]);
    workers.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pushes_of_the_same_time_share_a_request_and_keep_their_ids() {
    let (queue, _) = queues();
    let names: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    let pushed = join_all(names.iter().map(|name| queue.push(name).into_future())).await;
    let rows = elements(&queue, Phase::Ready).await;
    for ((pushed, name), row) in pushed.into_iter().zip(&names).zip(&rows) {
        let pushed = pushed.unwrap();
        assert!(pushed.is_new);
        assert_eq!((row.id, &row.payload), (pushed.id, &format!("\"{name}\"").into_bytes()));
    }
}

// Promise: W4
#[tokio::test(start_paused = true)]
async fn ten_thousand_dropped_pushes_push_at_most_once() {
    let (queue, _) = queues();
    for number in 0..10_000_u32 {
        let push = queue.push(&number.to_string()).into_future();
        if number % 3 == 0 {
            drop(push); // Not polled.
        } else if number % 3 == 1 {
            _ = push.now_or_never();
        } else {
            push.await.unwrap();
        }
    }
    queue.push("last").await.unwrap();
    let rows = elements(&queue, Phase::Ready).await;
    let each: HashSet<_> = rows.iter().map(|row| row.payload.clone()).collect();
    assert_eq!(each.len(), rows.len());
    for number in 0..10_000_u32 {
        let is_pushed = each.contains(&format!("\"{number}\"").into_bytes());
        assert_eq!(is_pushed, number % 3 != 0, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_work_is_pushed_once() {
    let (queue, other) = queues();
    let first = queue.push("mail").once("order 7", SECOND * 60).await.unwrap();
    let second = other.push("mail").once("order 7", SECOND * 60).await.unwrap();
    assert!(first.is_new && !second.is_new && first.id == second.id);
    tokio::time::sleep(SECOND * 61).await;
    assert!(other.push("mail").once("order 7", SECOND * 60).await.unwrap().is_new);
    assert_eq!(count(&queue, Phase::Ready).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_an_end() {
    let (queue, other) = queues();
    let seen = Seen::default();
    let parts = ["a", "b", "c"].map(str::to_owned);
    let pushed = queue.push_all(&parts).then(queue.push("end")).await.unwrap();
    let last = queue.find(pushed[3].id).await.unwrap().unwrap();
    assert_eq!((pushed.len(), last.phase, last.payload.as_slice()), (4, Phase::Blocked, &b"\"end\""[..]));
    let workers = other.workers(3).backoff(Backoff::fixed(SECOND).unwrap()).run({
        let seen = seen.clone();
        move |delivery: Delivery<String>| {
            seen.add(&delivery);
            async move { if *delivery == "b" && delivery.attempt() < 3 { Err("not yet") } else { Ok(()) } }
        }
    });
    empty(&queue).await;
    let seen = seen.all();
    assert_eq!((seen.len(), seen.last().map(String::as_str)), (6, Some("end")), "{seen:?}");
    workers.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_before_anything_is_pushed() {
    let (queue, _) = queues();
    let elsewhere: WorkQueue<String> = Store::new().client().work_queue("other").unwrap();
    let kinds = [
        queue.push("a").priority(10).await,
        queue.push("a").once("", SECOND).await,
        queue.push("a").once("x".repeat(256), SECOND).await,
        queue.push("a").key("").await,
        queue.push("a").after(Duration::MAX).await,
        queue.push(&"x".repeat(2 << 20)).await,
        queue.push_all::<String>(&["a".to_owned()]).then(elsewhere.push("b")).await.map(|all| all[0]),
    ];
    for refused in kinds {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
        assert!(error.to_string().contains("orders"), "{error}");
    }
    assert!(queue.push_all::<String>(&[]).await.unwrap().is_empty());
    assert_eq!(count(&queue, Phase::Ready).await, 0);
    let client = Store::new().client();
    assert_eq!(client.work_queue::<String>("").unwrap_err().kind(), ErrorKind::Misused);
    let queue: WorkQueue<String> = client.work_queue("a").unwrap();
    for refused in [queue.workers(0), queue.workers(1).lease(SECOND / 2), queue.workers(1).deliveries(0)] {
        let error = refused.run(|_| async { Ok::<_, bandog::Error>(()) }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    }
}
