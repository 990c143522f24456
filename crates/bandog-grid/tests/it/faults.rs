//! Lost answers, cut connections, stopped servers and missing rights.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::IntoFuture,
    time::Duration,
};

use bandog::{
    ErrorKind,
    grid::{ClientGrid, Limits, Queue},
};
use bandog_testkit::{RedisServer, eventually_async};
use futures_util::FutureExt;
use tokio::time::{sleep, timeout};

use crate::{SOON, client, grid, keys};

const SECOND: Duration = Duration::from_secs(1);

/// Answers are lost and connections are cut again and again while elements are pushed exactly and popped.
// Promise: G4, G5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_neither_lose_nor_repeat_an_element() {
    let server = RedisServer::start();
    let wire = server.wire();
    let url = format!("{}?timeout=300ms", wire.url());
    let (producers, consumers) = (grid(&url).await, grid(&url).await);
    let total = 600_u32;
    let producer = tokio::spawn({
        let queue: Queue<u32> = producers.queue("q").unwrap().exact();
        async move {
            let mut unclear = BTreeSet::new();
            for number in 0..total {
                while let Err(error) = queue.push(&number).await {
                    if error.maybe_applied() {
                        unclear.insert(number);
                        break;
                    }
                }
            }
            unclear
        }
    });
    let consumer = tokio::spawn({
        let queue: Queue<u32> = consumers.queue("q").unwrap();
        async move {
            let mut received = BTreeMap::<u32, u32>::new();
            loop {
                match queue.pop_wait(SECOND * 2).await {
                    Ok(Some(number)) => *received.entry(number).or_default() += 1,
                    Ok(None) if producer.is_finished() => return (producer.await.unwrap(), received),
                    _ => {}
                }
            }
        }
    });
    let (end, mut ended) = tokio::sync::oneshot::channel::<()>();
    let faults = tokio::spawn(async move {
        while ended.try_recv().is_err() {
            sleep(Duration::from_millis(fastrand::u64(5..60))).await;
            wire.drop_replies(true);
            sleep(Duration::from_millis(fastrand::u64(1..20))).await;
            wire.cut();
            wire.drop_replies(false);
        }
    });
    let (unclear, received) = timeout(SOON * 3, consumer).await.unwrap().unwrap();
    end.send(()).unwrap();
    faults.await.unwrap();
    let repeated: Vec<_> = received.iter().filter(|(_, times)| **times > 1).collect();
    assert!(repeated.is_empty(), "{repeated:?}");
    let missing: Vec<_> =
        (0..total).filter(|number| !unclear.contains(number) && !received.contains_key(number)).collect();
    assert!(missing.is_empty(), "{missing:?} of {total}, {} unclear", unclear.len());
    assert!(unclear.len() < 100, "{} exact pushes had no answer for two timeouts", unclear.len());
    eventually_async(SOON, async || keys(&server).is_empty()).await;
}

// Promise: G3
#[tokio::test]
async fn a_write_without_an_answer_is_not_sent_again() {
    let server = RedisServer::start();
    let wire = server.wire();
    let counter = grid(&format!("{}?timeout=300ms", wire.url())).await.counter("n").unwrap();
    assert_eq!(counter.add(1).await.unwrap(), 1);
    wire.drop_replies(true);
    let error = counter.add(1).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.maybe_applied(), "{error}");
    wire.cut();
    wire.drop_replies(false);
    eventually_async(SOON, async || counter.get().await.is_ok()).await;
    assert_eq!(counter.get().await.unwrap(), 2);
}

// Promise: G8
#[tokio::test]
async fn a_server_that_stops_loses_the_element_in_time_and_not_in_the_store() {
    let server = RedisServer::start();
    let url = format!("{}?timeout=300ms", server.url());
    let queue: Queue<u32> = grid(&url).await.queue("q").unwrap().lease(SECOND * 2);
    queue.push(&1).await.unwrap();
    let taken = queue.take(SECOND).await.unwrap().unwrap();
    server.pause();
    timeout(SOON, taken.lost()).await.unwrap();
    assert!(taken.is_lost());
    let stopped = queue.pop_wait(SECOND).await.unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Unavailable, "{stopped}");
    server.resume();
    let again = timeout(SOON, queue.take(SOON)).await.unwrap().unwrap().unwrap();
    assert_eq!(*again, 1);
    let lost = taken.done().await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Lost, "{lost}");
    again.done().await.unwrap();
}

// Promise: G5, G11
#[tokio::test]
async fn a_waiting_call_survives_a_restart_of_the_server() {
    let server = RedisServer::start();
    let queue: Queue<u32> = grid(&server.url()).await.queue("q").unwrap();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.pop_wait(SOON).await }
    });
    sleep(Duration::from_millis(200)).await;
    server.kill();
    sleep(Duration::from_millis(200)).await;
    server.restart();
    eventually_async(SOON, async || server.try_cmd(&["RPUSH", "q", "5"]).is_ok()).await;
    assert_eq!(timeout(SOON, waiting).await.unwrap().unwrap().unwrap(), Some(5));
}

// Promise: G11
#[tokio::test]
async fn without_the_right_to_track_waiting_calls_poll() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all", "-client|tracking"]);
    let queue: Queue<u32> = grid(&server.url().replace("redis://", "redis://few:PASSWORD@")).await.queue("q").unwrap();
    let waiting = tokio::spawn(async move { queue.pop_wait(SOON).await });
    sleep(Duration::from_millis(200)).await;
    server.cmd(&["RPUSH", "q", "5"]);
    assert_eq!(timeout(SOON, waiting).await.unwrap().unwrap().unwrap(), Some(5));
}

/// A counter has its ttl from its first command on, also if the user lacks the right to a later one.
#[tokio::test]
async fn without_a_right_no_counter_stays_without_its_ttl() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all"]);
    let grid = grid(&server.url().replace("redis://", "redis://few:PASSWORD@")).await;
    for right in ["pexpire", "incrby", "incrbyfloat", "set", "get"] {
        server.cmd(&["ACL", "SETUSER", "few", "+@all", &format!("-{right}")]);
        let _ = grid.counter("calls").unwrap().expiring(SOON).add(1).await;
        let _ = grid.float_counter("sums").unwrap().expiring(SOON).add(1.5).await;
        for name in ["calls", "sums"] {
            assert_ne!(server.pttl(name), -1, "without {right}, {name} never expires");
            server.cmd(&["DEL", name]);
        }
    }
    server.cmd(&["ACL", "SETUSER", "few", "+@all"]);
    assert_eq!(grid.counter("calls").unwrap().expiring(SOON).add(3).await.unwrap(), 3);
    assert_eq!(grid.float_counter("sums").unwrap().expiring(SOON).add(1.5).await.unwrap(), 1.5);
    assert!(server.pttl("calls") > 0 && server.pttl("sums") > 0);
}

// Promise: G3, G20
#[tokio::test]
async fn a_full_server_refuses_and_loses_nothing() {
    let server = RedisServer::start();
    let queue: Queue<String> = grid(&server.url()).await.queue("q").unwrap();
    queue.push("kept").await.unwrap();
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = queue.push("refused").await.unwrap_err();
    assert!(!refused.maybe_applied(), "{refused}");
    let refused = queue.pop().await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    // A pop is refused before it has taken the element, or it has taken it.
    let popped = match refused {
        Ok(popped) => popped,
        Err(_) => queue.pop_wait(SOON).await.unwrap(),
    };
    assert_eq!(popped.as_deref(), Some("kept"));
    eventually_async(SOON, async || keys(&server).is_empty()).await;
}

// Promise: G21
#[tokio::test]
async fn after_flushall_a_queue_is_empty_and_works() {
    let server = RedisServer::start();
    let queue: Queue<u32> = grid(&server.url()).await.queue("q").unwrap();
    queue.push_all(&[1, 2]).await.unwrap();
    let taken = queue.take(SECOND).await.unwrap().unwrap();
    server.cmd(&["FLUSHALL"]);
    let lost = taken.done().await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Lost, "{lost}");
    assert_eq!(queue.pop().await.unwrap(), None);
    queue.push(&3).await.unwrap();
    assert_eq!(queue.pop().await.unwrap(), Some(3));
}

/// A user without one of the rights gets an error, and the element is still there.
#[tokio::test]
async fn a_missing_right_loses_no_element() {
    let server = RedisServer::start();
    for missing in ["hset", "zadd", "set", "lpop", "hget", "hdel", "zrem", "pexpire", "evalsha"] {
        server.cmd(&["FLUSHALL"]);
        server.cmd(&["RPUSH", "q", "5"]);
        server.cmd(&["ACL", "SETUSER", "few", "reset", "on", ">PASSWORD", "~*", "&*", "+@all", &format!("-{missing}")]);
        let url = server.url().replace("redis://", "redis://few:PASSWORD@");
        let queue: Queue<u32> = grid(&url).await.queue("q").unwrap();
        let popped = queue.pop().await;
        let left = server.cmd(&["LRANGE", "q", "0", "-1"]).texts();
        let taken = server.cmd(&["HLEN", "bandog:taken:{q}"]).int();
        let leases = server.cmd(&["ZCARD", "bandog:leases:{q}"]).int();
        assert!(taken <= leases, "without {missing}: {taken} taken, {leases} leases");
        let is_somewhere = matches!(popped, Ok(Some(5))) || left == ["5"] || taken == 1;
        assert!(is_somewhere, "without {missing}: {popped:?}, {left:?}, {taken} taken");
        if let Err(error) = popped {
            assert_eq!(error.kind(), ErrorKind::Denied, "without {missing}: {error}");
        }
    }
}

#[tokio::test]
async fn a_pop_that_the_user_may_not_report_is_reported_when_the_right_is_back() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all"]);
    let grid = grid(&server.url().replace("redis://", "redis://few:PASSWORD@")).await;
    let queue: Queue<u32> = grid.queue("q").unwrap();
    queue.push(&5).await.unwrap();
    server.cmd(&["ACL", "SETUSER", "few", "-zscore"]);
    assert_eq!(queue.pop().await.unwrap(), Some(5));
    let unconfirmed = grid.close().await.unwrap_err();
    assert_eq!(unconfirmed.kind(), ErrorKind::Unavailable, "{unconfirmed}");
    server.cmd(&["ACL", "SETUSER", "few", "+zscore"]);
    eventually_async(SOON, async || grid.close().await.is_ok()).await;
    assert_eq!(keys(&server), [""; 0]);
}

/// Each attempt to release the element is refused before it has changed something.
#[tokio::test]
async fn an_element_that_the_user_may_not_remove_is_not_there_twice() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all"]);
    let grid = grid(&server.url().replace("redis://", "redis://few:PASSWORD@")).await;
    for missing in ["hdel", "zrem"] {
        let queue: Queue<u32> = grid.queue("q").unwrap();
        queue.push(&5).await.unwrap();
        let taken = queue.take(SECOND).await.unwrap().unwrap();
        server.cmd(&["ACL", "SETUSER", "few", &format!("-{missing}")]);
        let refused = taken.release().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "without {missing}: {refused}");
        assert_eq!(server.cmd(&["LLEN", "bandog:again:{q}"]).int(), 0, "without {missing}");
        server.cmd(&["ACL", "SETUSER", "few", &format!("+{missing}")]);
        assert_eq!(queue.taken_len().await.unwrap(), 1);
        assert!(queue.delete().await.unwrap());
    }
}

#[tokio::test]
async fn a_full_server_keeps_the_leases_of_taken_elements() {
    let server = RedisServer::start();
    let queue: Queue<u32> = grid(&server.url()).await.queue("q").unwrap().lease(SECOND * 2);
    queue.push_all(&[1, 2]).await.unwrap();
    let taken = queue.take(SECOND).await.unwrap().unwrap();
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    sleep(SECOND * 4).await;
    assert!(!taken.is_lost(), "the lease is renewed");
    assert_eq!(queue.pop().await.unwrap(), Some(2), "a pop frees memory");
    taken.done().await.unwrap();
}

#[tokio::test]
async fn an_element_that_the_server_has_evicted_is_lost() {
    let server = RedisServer::start();
    let queue: Queue<u32> = grid(&server.url()).await.queue("q").unwrap();
    queue.push(&1).await.unwrap();
    let taken = queue.take(SECOND).await.unwrap().unwrap();
    server.cmd(&["DEL", "bandog:taken:{q}"]);
    let lost = taken.done().await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Lost, "{lost}");
}

#[tokio::test]
async fn an_element_whose_lease_is_over_when_it_arrives_is_not_handed_out() {
    let server = RedisServer::start();
    let wire = server.wire();
    let url = format!("{}?timeout=20s", wire.url());
    let queue: Queue<u32> = grid(&url).await.queue("q").unwrap().lease(SECOND);
    queue.push(&1).await.unwrap();
    wire.delay_replies(SECOND * 3 / 2);
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move {
            let taken = queue.take(SOON).await.unwrap().unwrap();
            (taken.is_lost(), *taken)
        }
    });
    eventually_async(SOON, async || server.cmd(&["HLEN", "bandog:taken:{q}"]).int() == 1).await;
    sleep(SECOND * 2).await; // The late answer has arrived.
    wire.delay_replies(Duration::ZERO);
    assert_eq!(timeout(SOON, waiting).await.unwrap().unwrap(), (false, 1));
}

/// Operations that were sent count for the limit until they are answered, also if their callers have gone.
#[tokio::test]
async fn dropped_calls_stay_within_the_limit() {
    let server = RedisServer::start();
    let grid = client(&server.url()).await.grid_with(Limits { operations: 4, ..Limits::default() });
    let counter = grid.counter("n").unwrap();
    counter.get().await.unwrap();
    server.pause();
    let first = tokio::spawn(counter.get().into_future());
    tokio::task::yield_now().await; // It is sent alone.
    for _ in 0..3 {
        timeout(SECOND / 2, counter.get().into_future()).await.unwrap_err();
    }
    let refused = counter.get().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Overloaded, "{refused}");
    server.resume();
    first.await.unwrap().unwrap();
    eventually_async(SOON, async || counter.get().await.is_ok()).await;
}

/// The answer to `done` is lost: the repeated request finds the element removed by the first one.
#[tokio::test]
async fn an_element_whose_end_had_no_answer_is_done() {
    let server = RedisServer::start();
    let wire = server.wire();
    let queue: Queue<u32> = grid(&format!("{}?timeout=300ms", wire.url())).await.queue("q").unwrap();
    for end in ["done", "release"] {
        queue.push(&1).await.unwrap();
        let taken = queue.take(SECOND).await.unwrap().unwrap();
        wire.drop_replies(true);
        let ended = tokio::spawn(if end == "done" { taken.done().boxed() } else { taken.release().boxed() });
        eventually_async(SOON, async || server.cmd(&["HLEN", "bandog:taken:{q}"]).int() == 0).await;
        wire.cut();
        wire.drop_replies(false);
        ended.await.unwrap().unwrap_or_else(|error| panic!("{end}: {error}"));
    }
    assert_eq!((queue.pop().await.unwrap(), queue.pop().await.unwrap()), (Some(1), None));
}

/// The task of a queue ends a second after it has lost its last element.
#[tokio::test]
async fn an_element_that_flushall_has_removed_is_lost_for_ever() {
    let server = RedisServer::start();
    let queue: Queue<u32> = grid(&server.url()).await.queue("q").unwrap().lease(SECOND);
    queue.push(&1).await.unwrap();
    let taken = queue.take(SECOND).await.unwrap().unwrap();
    server.cmd(&["FLUSHALL"]);
    timeout(SOON, taken.lost()).await.unwrap();
    sleep(SECOND * 2).await;
    let lost = taken.done().await.unwrap_err();
    assert_eq!((lost.kind(), lost.maybe_applied()), (ErrorKind::Lost, false), "{lost}");
}

/// Elements whose leases the server has evicted come again; one that it has evicted itself is lost for its holder.
#[tokio::test]
async fn elements_without_leases_come_again() {
    let server = RedisServer::start();
    let queue: Queue<u32> = grid(&server.url()).await.queue("q").unwrap().lease(SECOND);
    queue.push_all(&[1, 2]).await.unwrap();
    let taken = queue.take(SECOND).await.unwrap().unwrap();
    server.cmd(&["DEL", "bandog:leases:{q}"]);
    timeout(SOON, taken.lost()).await.unwrap();
    let mut again = [queue.pop_wait(SOON).await.unwrap().unwrap(), queue.pop_wait(SOON).await.unwrap().unwrap()];
    again.sort_unstable();
    assert_eq!(again, [1, 2]);
    queue.push(&3).await.unwrap();
    let taken = queue.take(SECOND).await.unwrap().unwrap();
    server.cmd(&["DEL", "bandog:taken:{q}"]);
    timeout(SOON, taken.lost()).await.unwrap();
}

/// The rights that docs/grid.md names for a prefix are enough for each object.
#[tokio::test]
async fn a_user_of_a_prefix_has_the_rights_of_the_page() {
    let server = RedisServer::start();
    let page = include_str!("../../../../docs/grid.md");
    let (_, rights) = page.split_once("\n## Rights and versions\n").unwrap();
    let (rights, _) = rights.split_once("\n## ").unwrap();
    let words = rights.split(|c: char| c.is_whitespace() || c == '`' || c == ',' || c == ';');
    let words = words.map(|word| word.trim_end_matches('.')).filter(|word| word.len() > 2);
    let mut acl =
        vec!["ACL", "SETUSER", "few", "on", ">PASSWORD", "resetchannels", "+evalsha", "+script|load", "+ping"];
    acl.extend([
        "+time",
        "+publish",
        "+subscribe",
        "+unsubscribe",
        "+pttl",
        "+pexpire",
        "~bandog:client:*",
        "~bandog:clients",
    ]);
    acl.extend(["~redisson_lock_token:{orders:*", "~bandog:starving:{orders:*", "&redisson_lock__channel:{orders:*"]);
    acl.extend(words.filter(|word| word.starts_with(['~', '&', '+'])));
    server.cmd(&acl);
    let grid = grid(&format!("redis://few:PASSWORD@{}?prefix=orders:", server.addr())).await;
    let map = grid.map::<String, u32>("m").unwrap();
    map.put("k", &1).await.unwrap();
    map.update("k", |old| old).await.unwrap();
    map.lock("k").unwrap().try_lock().await.unwrap().expect("free").release().await.unwrap();
    let timed = grid.timed_map::<String, u32>("t").unwrap();
    let mut events = timed.events().await.unwrap();
    timed.bound(5, bandog::grid::Victim::LeastRecentlyUsed).await.unwrap();
    timed.put_for("k", &1, SECOND).await.unwrap();
    timed.get("k").await.unwrap();
    timeout(SOON, events.next()).await.unwrap().unwrap();
    assert!(timed.delete().await.unwrap());
    let near = grid.map::<String, u32>("n").unwrap().near(10);
    near.put("k", &1).await.unwrap();
    near.read("k").await.unwrap();
    let queue = grid.queue::<u32>("q").unwrap();
    queue.push(&1).await.unwrap();
    queue.take(SECOND).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(queue.pop_wait(SECOND).await.unwrap(), Some(1));
    let journal = grid.journal::<u32>("j").unwrap();
    let group = journal.group("g").await.unwrap();
    journal.append(&1).await.unwrap();
    group.take(SECOND).await.unwrap().unwrap().done().await.unwrap();
    grid.counter("c").unwrap().exact().add(1).await.unwrap();
    grid.ids("i").unwrap().next().await.unwrap();
    let values = grid.set_multimap::<String, u32>("v").unwrap();
    values.insert("k", &1).await.unwrap();
    values.expire_key("k", SECOND).await.unwrap();
    let users = grid.live::<crate::live::User>().unwrap();
    users.insert(&crate::live::user(7, "a", 1)).await.unwrap();
    users.at(&7).email().set("b").await.unwrap();
    assert_eq!(users.find(crate::live::User::email().eq("b")).ids().await.unwrap(), [7]);
    assert!(users.to_vec(9).await.unwrap().len() == 1 && users.delete(&7).await.unwrap());
    let bloom = grid.bloom::<String>("b").unwrap().create_or_open(100, 0.01).await.unwrap();
    bloom.insert("x").await.unwrap();
    let scores = grid.sorted_set::<String>("s").unwrap();
    scores.insert(1.0, "a").await.unwrap();
    scores.pop_min().await.unwrap();
    let topic = grid.topic::<u32>("topic").unwrap();
    let mut subscriber = topic.subscribe().await.unwrap();
    topic.publish(&1).await.unwrap();
    timeout(SOON, subscriber.next()).await.unwrap().unwrap();
    let cache = grid.cache::<u32, u32>("cache").unwrap();
    cache.get_or_load(&1, async |key| Ok::<_, std::io::Error>(key)).await.unwrap();
    assert_eq!(cache.stats().store_errors, 0);
}

/// Such a call can never succeed, so it is not repeated.
#[tokio::test]
async fn an_element_that_the_server_does_not_accept_is_refused_at_once() {
    let server = RedisServer::start_with(&["--proto-max-bulk-len", "1048576"]);
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all", "-config"]);
    for url in [server.url(), server.url().replace("redis://", "redis://few:PASSWORD@")] {
        let limits = Limits { element: 4 << 20, ..Limits::default() };
        let grid = client(&format!("{url}?timeout=20s")).await.grid_with(limits);
        let queue: Queue<String> = grid.queue("q").unwrap().exact();
        let long = "x".repeat(2 << 20);
        let error = timeout(SECOND * 10, queue.push(&long).into_future()).await.unwrap().unwrap_err();
        assert!(error.kind() == ErrorKind::Misused && error.to_string().contains("proto-max-bulk-len"), "{error}");
        let cache = grid.cache::<u32, String>("c").unwrap();
        let error = timeout(SECOND * 10, cache.put(&1, &long).into_future()).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
        queue.push("short").await.unwrap();
    }
}
