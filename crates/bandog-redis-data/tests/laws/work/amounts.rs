//! Many elements, and what stays of them.

use std::{collections::BTreeSet, time::Duration};

use bandog_core::queues::{Change, Delivered, NewElement, OnceId, Phase, Queues, Settle, SettleEnd, When, WorkerRow};
use bandog_testkit::{RedisServer, eventually_async};

use super::kit::{HOUR, SOON, delivery, done, extend, new, push, queue, settle, take};
use crate::at;

/// The number of commands that the server has run since the last call, and the time of the scripts in µs.
fn commands(server: &RedisServer) -> (u64, u64) {
    let text = server.cmd(&["INFO", "commandstats"]).text().to_owned();
    server.cmd(&["CONFIG", "RESETSTAT"]);
    let number = |line: &str, name: &str| -> u64 {
        let rest = line.split_once(&format!("{name}=")).map_or("0", |(_, rest)| rest);
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let lines = || text.lines().filter(|line| !line.contains("_info:") && !line.contains("_config"));
    let time = lines().find(|line| line.contains("_evalsha:")).map_or(0, |line| number(line, "usec"));
    (lines().map(|line| number(line, "calls")).sum(), time)
}

#[tokio::test]
async fn many_delayed_dead_and_blocked_elements_do_not_slow_a_take() {
    let server = RedisServer::start();
    let store = at(&server.url());
    let round = async || {
        commands(&server);
        for _ in 0..50 {
            push(&*store, vec![new("a"), NewElement { order_key: Some("own".into()), ..new("b") }]).await;
            let taken = take(&*store, 1, 10).await;
            assert_eq!(taken.elements.len(), 2);
            settle(&*store, &taken.elements.iter().map(done).collect::<Vec<_>>()).await;
        }
        commands(&server)
    };
    let few = round().await;
    let keyed = |text: &str| NewElement { order_key: Some("k".into()), ..new(text) };
    push(&*store, (0..1000).map(|_| new("dead")).collect()).await;
    let dead = take(&*store, 1, 1000).await.elements;
    let fail = |element: &Delivered| Settle { delivery: delivery(element), end: SettleEnd::Fail("no".into()) };
    settle(&*store, &dead.iter().map(fail).collect::<Vec<_>>()).await;
    for chunk in 0..100 {
        let delayed = |_| NewElement { when: When::After(HOUR), ..new("delayed") };
        push(&*store, (0..1000).map(delayed).collect()).await;
        if chunk < 10 {
            push(&*store, (0..1000).map(|_| keyed("blocked")).collect()).await;
        }
    }
    assert_eq!(take(&*store, 1, 1).await.elements.len(), 1, "the first one of the key");
    let status = store.status(&queue()).await.unwrap();
    let counts = [Phase::Delayed, Phase::Blocked, Phase::Dead].map(|phase| status.count(phase));
    assert_eq!(counts, [100_000, 9_999, 1_000]);
    let many = round().await;
    assert!(many.0 <= few.0 + 150, "commands: {few:?} before, {many:?} with many elements");
    assert!(many.1 < few.1 * 6, "time: {few:?} before, {many:?} with many elements");
}

#[tokio::test]
async fn all_keys_of_an_empty_queue_expire() {
    let server = RedisServer::start();
    let store = at(&server.url());
    let short = Duration::from_millis(200);
    let last = NewElement { waits_for: 1, ..new("last") };
    let elements = vec![
        NewElement { once: Some(OnceId { id: "o".into(), window: HOUR }), ..new("once") },
        NewElement { keep_result: Some(HOUR), order_key: Some("k".into()), ..new("k1") },
        NewElement { keep_result: Some(short), order_key: Some("k".into()), ..new("k2") },
        NewElement { before: Some(last.id), when: When::After(short), ..new("first") },
        last,
        new("dead"),
    ];
    let ids: Vec<_> = elements.iter().map(|element| element.id).collect();
    push(&*store, elements).await;
    store.change(&queue(), &Change::Worker(WorkerRow { id: 5, ..WorkerRow::default() }, short)).await.unwrap();
    store.change(&queue(), &Change::Pause(true)).await.unwrap();
    store.change(&queue(), &Change::Pause(false)).await.unwrap();
    let mut left: BTreeSet<_> = ids.iter().copied().collect();
    eventually_async(SOON, async || {
        for element in take(&*store, 1, 10).await.elements {
            extend(&*store, &element).await;
            let end = match (element.payload.as_slice(), element.attempt) {
                (b"dead", _) => SettleEnd::Fail("no".into()),
                (_, 1) => SettleEnd::Retry(Duration::ZERO, "again".into()),
                _ => SettleEnd::Done(vec![1]),
            };
            if matches!(end, SettleEnd::Done(_) | SettleEnd::Fail(_)) {
                left.remove(&element.id);
            }
            settle(&*store, &[Settle { delivery: delivery(&element), end }]).await;
        }
        left.is_empty()
    })
    .await;
    assert_eq!(store.change(&queue(), &Change::Purge(Phase::Dead)).await.unwrap(), 1);
    for key in server.keys() {
        assert!(server.cmd(&["PTTL", &key]).int() > 0, "{key} stays");
    }
    let found = store.find(&queue(), &ids, 1 << 20).await.unwrap();
    assert!(found[1].is_some() && found[0].is_none(), "{found:?}");
    // A result whose time is over is removed by the next calls.
    let field = format!("r{:016x}-{:016x}", ids[1].client, ids[1].number);
    server.cmd(&["ZADD", "bandog:work:{q}:expiry", "XX", "1", &field]);
    push(&*store, vec![new("x")]).await;
    let rest = take(&*store, 1, 1).await;
    settle(&*store, &[done(&rest.elements[0])]).await;
    assert_eq!(store.find(&queue(), &ids[1..2], 9).await.unwrap(), [None]);
}
