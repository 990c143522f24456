//! Users with few rights.

use std::time::Duration;

use bandog_core::{
    ErrorKind, Key, Notifier, Pattern,
    queues::{Bell, Change, Extend, NewElement, OnceId, Phase, Push, Queues, Settle, SettleEnd, Take, When, WorkerRow},
    structures::Cursor,
};
use bandog_testkit::{RedisServer, eventually_async};

use super::kit::{HOUR, SOON, delivery, done, new, push, push_of, queue, take, take_of, texts};
use crate::at;

#[tokio::test]
async fn without_the_right_to_subscribe_a_bell_is_silent() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all", "-subscribe", "-publish"]);
    let store = at(&server.url().replace("redis://", "redis://few:PASSWORD@"));
    let bell = Bell::Ready { queue: queue(), taker: 1 };
    let subscription = store.subscribe_bell(&bell, Notifier::new(|| {})).await.unwrap();
    assert!(subscription.is_silent());
    assert!(take(&*store, 1, 1).await.elements.is_empty());
    push(&*store, vec![new("a")]).await;
    assert_eq!(texts(&take(&*store, 1, 1).await), ["a"]);
}

#[tokio::test]
async fn a_user_of_a_prefix_has_the_rights_of_the_page() {
    let server = RedisServer::start();
    let page = include_str!("../../../../../docs/redis-keys.md");
    let (_, rights) = page.split_once("\n## Work queues\n").unwrap();
    let (rights, _) = rights.split_once("\n## ").unwrap();
    let words = rights.split(|c: char| c.is_whitespace() || c == '`' || c == ',' || c == ';');
    let words = words.map(|word| word.trim_end_matches('.')).filter(|word| word.len() > 2);
    let mut acl = vec!["ACL", "SETUSER", "few", "on", ">PASSWORD", "resetchannels"];
    acl.extend(words.filter(|word| word.starts_with(['~', '&', '+'])));
    server.cmd(&acl);
    let store = at(&server.url().replace("redis://", "redis://few:PASSWORD@"));
    let queue = Key::new("orders:q").unwrap();
    let bell = Bell::Ready { queue: queue.clone(), taker: 1 };
    let subscription = store.subscribe_bell(&bell, Notifier::new(|| {})).await.unwrap();
    assert!(!subscription.is_silent());
    let all = [
        NewElement { order_key: Some("k".into()), keep_result: Some(HOUR), ..new("a") },
        NewElement { once: Some(OnceId { id: "o".into(), window: HOUR }), ..new("b") },
        NewElement { when: When::After(Duration::from_millis(1)), ..new("c") },
    ];
    let pushes = [Push { queue: queue.clone(), elements: all.to_vec() }];
    store.push(&pushes).await.remove(0).unwrap();
    let mut taken = Vec::new();
    eventually_async(SOON, async || {
        let take = Take { queue: queue.clone(), ..take_of(1, 10) };
        taken.extend(store.take(&[take]).await.remove(0).unwrap().elements);
        taken.len() == 3
    })
    .await;
    let deliveries = taken.iter().map(|element| (delivery(element), Some("half".to_owned()))).collect();
    store.extend(&Extend { queue: queue.clone(), deliveries, lease: HOUR }).await.unwrap();
    let fail = Settle { delivery: delivery(&taken[1]), end: SettleEnd::Fail("no".into()) };
    let retry = Settle { delivery: delivery(&taken[2]), end: SettleEnd::Retry(Duration::ZERO, "no".into()) };
    store.settle(&queue, &[done(&taken[0]), fail, retry]).await.unwrap();
    store.find(&queue, &[taken[0].id], 9).await.unwrap();
    store.status(&queue).await.unwrap();
    for phase in Phase::IN_QUEUE {
        let page = store.elements(&queue, phase, &Cursor::default(), 1, 9).await.unwrap();
        if let Some(next) = page.1 {
            store.elements(&queue, phase, &next, 1, 9).await.unwrap();
        }
    }
    for change in [
        Change::Pause(true),
        Change::Concurrency(None),
        Change::Rate(None),
        Change::Retry(Vec::new()),
        Change::Remove(vec![taken[1].id]),
        Change::Purge(Phase::Ready),
        Change::Worker(WorkerRow::default(), HOUR),
    ] {
        store.change(&queue, &change).await.unwrap();
    }
    let listed = store.queues(&Pattern::all(), &Cursor::default(), 100).await;
    assert_eq!(listed.unwrap().1, None);
}

#[tokio::test]
async fn a_text_that_is_too_long_is_refused() {
    let server = RedisServer::start();
    let long = NewElement { order_key: Some("k".repeat(256).into()), ..new("a") };
    let refused = at(&server.url()).push(&push_of(vec![long])).await.remove(0).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Misused, "{refused}");
    assert!(server.keys().is_empty());
}

/// After a right was missing, all elements are found again.
#[tokio::test]
async fn a_missing_right_loses_no_element() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all"]);
    let (store, few) = (at(&server.url()), at(&server.url().replace("redis://", "redis://few:PASSWORD@")));
    for missing in ["hset", "zadd", "zrem", "hmget", "zrange", "set", "zremrangebyrank", "pexpire"] {
        push(&*store, vec![new("a")]).await;
        server.cmd(&["ACL", "SETUSER", "few", &format!("-{missing}")]);
        let denied = few.take(&[take_of(1, 10)]).await.remove(0).unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::Denied, "{missing}: {denied}");
        server.cmd(&["ACL", "SETUSER", "few", &format!("+{missing}")]);
        // It may have been taken.
        let mut found = take(&*store, 1, 10).await.elements;
        if found.is_empty() {
            let taken = store.elements(&queue(), Phase::Taken, &Cursor::default(), 10, 9).await.unwrap().0;
            assert_eq!(taken.len(), 1, "{missing}");
            let lost = bandog_core::queues::DeliveryId { id: taken[0].id, fence: taken[0].fence };
            let back = Settle { delivery: lost, end: SettleEnd::HandBack(Duration::ZERO) };
            store.settle(&queue(), &[back]).await.unwrap();
            found = take(&*store, 1, 10).await.elements;
        }
        assert_eq!(found.len(), 1, "{missing}");
        store.settle(&queue(), &[done(&found[0])]).await.unwrap();
        assert!(store.status(&queue()).await.unwrap().counts.values().all(|count| *count == 0), "{missing}");
    }
}
