//! Lost data, lost answers, and a server without memory.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bandog_core::{
    ErrorKind,
    queues::{Change, Extended, NewElement, OnceId, Queues, Settle, SettleEnd, Settled, Take, Taken},
};
use bandog_testkit::{RedisCluster, RedisServer, eventually_async, moves};

use super::kit::{
    HOUR, SOON, delivery, done, extend, impatient, new, push, push_of, queue, settle, take, take_of, texts,
};
use crate::at;

#[tokio::test]
async fn after_flushall_the_elements_are_absent_and_the_queue_works() {
    let server = RedisServer::start();
    let store = at(&server.url());
    push(&*store, vec![new("a"), new("b")]).await;
    let taken = take(&*store, 1, 1).await;
    server.cmd(&["FLUSHALL"]);
    assert_eq!(extend(&*store, &taken.elements[0]).await, Extended::Lost);
    assert_eq!(settle(&*store, &[done(&taken.elements[0])]).await, [Settled::Absent]);
    assert_eq!(take(&*store, 1, 10).await, Taken::default());
    push(&*store, vec![new("c")]).await;
    assert_eq!(texts(&take(&*store, 1, 10).await), ["c"]);
}

/// A server that evicts keys, and an operator, can delete a part of a queue.
#[tokio::test]
async fn elements_of_which_a_part_was_deleted_do_not_stop_the_queue() {
    let server = RedisServer::start();
    let store = at(&server.url());
    for part in ["elements", "bodies", "ready", "taken", "kept", "expiry", "fence", "order"] {
        let keyed = NewElement { order_key: Some("k".into()), ..new("keyed") };
        push(&*store, vec![new("a"), keyed.clone(), NewElement { id: new("").id, ..keyed }]).await;
        take(&*store, 1, 1).await;
        server.cmd(&["DEL", &format!("bandog:work:{{q}}:{part}")]);
        take(&*store, 1, 10).await;
        server.cmd(&["FLUSHALL"]);
        push(&*store, vec![new("next")]).await;
        let next = take(&*store, 1, 10).await;
        assert_eq!(texts(&next), ["next"], "without {part}");
        assert_eq!(settle(&*store, &[done(&next.elements[0])]).await, [Settled::Applied]);
    }
}

#[tokio::test]
async fn a_full_server_refuses_pushes_and_completes_elements() {
    let server = RedisServer::start();
    let store = at(&server.url());
    push(&*store, vec![new("a"), new("b"), new("c")]).await;
    let taken = take(&*store, 1, 1).await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let before = server.keys();
    let mixed = vec![
        NewElement { order_key: Some("k".into()), ..new("refused") },
        NewElement { once: Some(OnceId { id: "o".into(), window: HOUR }), ..new("refused") },
        new("refused"),
    ];
    let refused = store.push(&push_of(mixed.clone())).await.remove(0).unwrap_err();
    assert!(refused.kind() == ErrorKind::Unavailable && !refused.maybe_applied(), "{refused}");
    assert!(refused.to_string().contains("memory limit"), "{refused}");
    assert_eq!(server.keys(), before);
    assert_eq!(extend(&*store, &taken.elements[0]).await, Extended::Held);
    let second = take(&*store, 1, 1).await;
    assert_eq!(texts(&second), ["b"]);
    let retry = Settle { delivery: delivery(&second.elements[0]), end: SettleEnd::Retry(HOUR, "full".into()) };
    assert_eq!(settle(&*store, &[done(&taken.elements[0]), retry]).await, [Settled::Applied; 2]);
    assert_eq!(take(&*store, 1, 10).await.elements.len(), 1);
    store.change(&queue(), &Change::Pause(true)).await.unwrap();
    store.change(&queue(), &Change::Pause(false)).await.unwrap();
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(take(&*store, 1, 10).await.elements.is_empty(), "nothing of the refused push is there");
    push(&*store, mixed).await;
    assert_eq!(take(&*store, 1, 10).await.elements.len(), 3);
}

#[tokio::test]
async fn calls_without_an_answer_are_repeated() {
    let server = RedisServer::start();
    let wire = server.wire();
    let store = impatient(&wire.url());
    let pushes = push_of(vec![new("a"), new("b")]);
    // The connection is there.
    eventually_async(SOON, async || store.status(&queue()).await.is_ok()).await;
    wire.drop_replies(true);
    let lost = store.push(&pushes).await.remove(0).unwrap_err();
    assert!(lost.maybe_applied(), "{lost}");
    wire.cut();
    wire.drop_replies(false);
    let repeated = async || store.push(&pushes).await.remove(0).is_ok_and(|pushed| pushed.iter().all(|p| p.is_new));
    eventually_async(SOON, repeated).await;
    let first = take_of(1, 2);
    wire.drop_replies(true);
    let lost = store.take(std::slice::from_ref(&first)).await.remove(0).unwrap_err();
    assert!(lost.maybe_applied(), "{lost}");
    wire.cut();
    wire.drop_replies(false);
    // Another take of the same taker in between.
    let mut other = None;
    eventually_async(SOON, async || {
        other = store.take(&[take_of(1, 2)]).await.remove(0).ok();
        other.is_some()
    })
    .await;
    assert!(other.unwrap().elements.is_empty());
    let taken = store.take(&[Take { is_repeated: true, ..first }]).await.remove(0).unwrap();
    assert_eq!(texts(&taken), ["a", "b"]);
    let settles: Vec<_> = taken.elements.iter().map(done).collect();
    wire.drop_replies(true);
    store.settle(&queue(), &settles).await.unwrap_err();
    wire.cut();
    wire.drop_replies(false);
    let mut answers = Vec::new();
    eventually_async(SOON, async || {
        answers = store.settle(&queue(), &settles).await.unwrap_or_default();
        !answers.is_empty()
    })
    .await;
    assert_eq!(answers, [Settled::Absent; 2]);
}

/// Pushes, takes and settles elements until all are done, while `fault` happens again and again. Each call is repeated until
/// it has an answer. Each element is delivered once.
async fn completes_each_element_once(url: &str, elements: u32, mut fault: impl FnMut() + Send + 'static) {
    let pusher = tokio::spawn({
        let store = at(url);
        async move {
            for chunk in 0..elements / 6 {
                let pushes = push_of((0..6).map(|at| new(&(chunk * 6 + at).to_string())).collect());
                while store.push(&pushes).await.remove(0).is_err() {}
            }
        }
    });
    let done_count = Arc::new(AtomicU32::new(0));
    let workers: Vec<_> = (1..=3_u64)
        .map(|taker| {
            let (store, done_count) = (at(url), done_count.clone());
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while done_count.load(Ordering::SeqCst) < elements {
                    let mut take = take_of(taker, 7);
                    let taken = loop {
                        match store.take(std::slice::from_ref(&take)).await.remove(0) {
                            Ok(taken) => break taken,
                            Err(_) => take.is_repeated = true,
                        }
                    };
                    let settles: Vec<_> = taken.elements.iter().map(done).collect();
                    if !settles.is_empty() {
                        while store.settle(&queue(), &settles).await.is_err() {}
                    }
                    seen.extend(texts(&taken));
                    done_count.fetch_add(u32::try_from(settles.len()).unwrap(), Ordering::SeqCst);
                }
                seen
            })
        })
        .collect();
    let faults = tokio::task::spawn_blocking(move || {
        while done_count.load(Ordering::SeqCst) < elements {
            fault();
        }
        fault // It has the servers, which the last calls need.
    });
    let mut counts = BTreeMap::<String, u32>::new();
    for worker in workers {
        for text in tokio::time::timeout(SOON * 3, worker).await.unwrap().unwrap() {
            *counts.entry(text).or_default() += 1;
        }
    }
    pusher.await.unwrap();
    drop(faults.await.unwrap());
    assert!(counts.len() == elements as usize && counts.values().all(|count| *count == 1), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_neither_lose_nor_repeat_an_element() {
    let server = RedisServer::start();
    completes_each_element_once(&server.url(), 600, move || {
        std::thread::sleep(Duration::from_millis(fastrand::u64(2..30)));
        server.kill_clients();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moving_slot_neither_loses_nor_repeats_an_element() {
    let cluster = RedisCluster::start(3, 0);
    let (url, mut at) = (cluster.url(), 0);
    completes_each_element_once(&url, 3000, move || {
        at = (at + 1) % 3;
        moves::move_names(&cluster, &["q".to_owned()], &cluster[at], Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(fastrand::u64(2..100)));
    })
    .await;
}
