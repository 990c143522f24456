//! Records under faults: lost answers, and servers that lose data, refuse, or fail over.

use std::time::Duration;

use bandog_core::{Error, ErrorKind, Pattern, Record, Records, Swap, Swapped};
use bandog_redis::Redis;
use bandog_testkit::{RedisServer, eventually_async};

use crate::{
    help::{SOON, operator, with_timeout},
    records::{create, deletion, from, key, must_swap, read_one, swap_one, value, with_lines},
};

const SHORT: Duration = Duration::from_millis(500);

// Promise: RD14
#[tokio::test]
async fn a_lost_answer_is_ambiguous_and_the_retry_finds_its_own_value() {
    let server = RedisServer::start();
    let wire = server.wire();
    let redis = with_timeout(&format!("redis://{}@{}", RedisServer::OPERATOR, wire.addr()), SHORT);
    let version = create(&redis, "r", "one").await;
    let swap = with_lines(from("r", version, "two"), &[("ok:0", "x")]);
    wire.drop_replies(true);
    ambiguous(&swap_one(&redis, &swap).await.unwrap_err());
    wire.drop_replies(false);
    let found = eventually_async(SOON, async || swap_one(&redis, &swap).await).await;
    let Swapped::Differs(Some(Record { version: now, value })) = found else { panic!("{found:?}") };
    assert!(now > version && value == "two");
    assert_eq!(redis.history(&key("r")).await.unwrap().len(), 1);
    // A creation and a deletion behave in the same way.
    wire.drop_replies(true);
    ambiguous(&swap_one(&redis, &Swap::new(key("new"), None, "mine")).await.unwrap_err());
    ambiguous(&swap_one(&redis, &deletion("r", now)).await.unwrap_err());
    wire.drop_replies(false);
    let found = eventually_async(SOON, async || swap_one(&redis, &Swap::new(key("new"), None, "mine")).await).await;
    assert!(matches!(found, Swapped::Differs(Some(Record { value, .. })) if value == "mine"));
    assert_eq!(swap_one(&redis, &deletion("r", now)).await.unwrap(), Swapped::Differs(None));
}

#[tokio::test]
async fn a_swap_on_a_breaking_connection_is_immediately_ambiguous() {
    let server = RedisServer::start();
    let wire = server.wire();
    let redis = crate::help::at(&format!("redis://{}@{}", RedisServer::OPERATOR, wire.addr()));
    let swaps: Vec<Swap> = (0..1000).map(|number| Swap::new(key(&number.to_string()), None, "x")).collect();
    redis.read(&[], &[]).await.unwrap();
    wire.drop_replies(true);
    let cut = async {
        eventually_async(SOON, async || server.cmd(&["SCARD", "bandog:records"]).int() == 1000).await;
        wire.drop_replies(false);
    };
    let (answer, ()) = tokio::join!(redis.swap(&swaps), cut);
    let error = answer.unwrap_err();
    ambiguous(&error);
    assert_eq!(error.verb(), Some("swap"));
    let names = eventually_async(SOON, async || redis.names(&Pattern::all()).await).await;
    assert_eq!(names.len(), 1000);
}

// Promise: RD14
#[tokio::test]
async fn a_swap_that_is_not_answered_during_a_pause_is_done_after_the_pause() {
    let server = RedisServer::start();
    let redis = with_timeout(&format!("redis://{}@{}", RedisServer::OPERATOR, server.addr()), SHORT);
    let mut version = create(&redis, "r", "one").await;
    for kind in ["ALL", "WRITE"] {
        server.cmd(&["CLIENT", "PAUSE", "2000", kind]);
        let paused = async || swap_one(&redis, &from("r", version, kind)).await;
        ambiguous(&paused().await.unwrap_err());
        eventually_async(SOON, async || server.hash("bandog:record:{r}")["b"] == kind).await;
        let found = eventually_async(SOON, paused).await;
        let Swapped::Differs(Some(record)) = found else { panic!("{found:?}") };
        assert_eq!(record.value, kind);
        version = record.version;
    }
}

// Promise: RD15, RS3
#[tokio::test]
async fn a_restart_loses_records_that_were_not_persisted() {
    let (forgets, keeps) = (RedisServer::start(), RedisServer::start_with(&["--appendonly", "yes"]));
    for (server, kept) in [(forgets, false), (keeps, true)] {
        let redis = operator(&server);
        let version = must_swap(&redis, &with_lines(Swap::new(key("r"), None, "one"), &[("ok:0", "x")])).await.unwrap();
        server.restart();
        let reading = eventually_async(SOON, async || read_one(&redis, "r").await).await;
        assert_eq!(reading, kept.then(|| Record { version, value: "one".into() }));
        assert_eq!(redis.names(&Pattern::all()).await.unwrap().len(), usize::from(kept));
        assert_eq!(redis.history(&key("r")).await.unwrap().len(), usize::from(kept));
        let next = swap_one(&redis, &from("r", version, "two")).await.unwrap();
        match next {
            Swapped::Done(Some(next)) => assert!(kept && next > version),
            other => assert!(!kept && other == Swapped::Differs(None), "{other:?}"),
        }
        if !kept {
            assert!(create(&redis, "r", "again").await > version);
        }
    }
}

// Promise: RS3
#[tokio::test]
async fn an_append_only_file_that_is_always_synced_keeps_every_answered_swap() {
    let server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut version = create(&operator(&server), "r", "0").await;
    for number in 1..50 {
        version = must_swap(&operator(&server), &from("r", version, &number.to_string())).await.unwrap();
        if number % 10 == 0 {
            server.restart();
            assert_eq!(value(&operator(&server), "r").await, Some(number.to_string()));
        }
    }
}

// Promise: RD15, RS4
#[tokio::test]
async fn versions_rise_after_a_failover_that_lost_the_latest_swaps() {
    let (master, replica) = (RedisServer::start(), RedisServer::start());
    let redis = operator(&master);
    let first = create(&redis, "r", "one").await;
    replica.cmd(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    eventually_async(2 * SOON, async || replica.hash("bandog:record:{r}").len() == 2).await;
    // The replica does not receive the writes that follow.
    replica.cmd(&["REPLICAOF", "NO", "ONE"]);
    let mut last = first;
    for number in 0..10 {
        last = must_swap(&redis, &from("r", last, &number.to_string())).await.unwrap();
    }
    let other = create(&redis, "other", "x").await;
    let promoted = operator(&replica);
    assert_eq!(
        swap_one(&promoted, &from("r", last, "x")).await.unwrap(),
        Swapped::Differs(Some(Record { version: first, value: "one".into() }))
    );
    assert!(must_swap(&promoted, &from("r", first, "promoted")).await.unwrap() > last);
    assert!(create(&promoted, "other", "promoted").await > other);
}

// Promise: RD16
#[tokio::test]
async fn a_full_server_refuses_new_values_and_accepts_deletions() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let version = must_swap(&redis, &with_lines(Swap::new(key("r"), None, "one"), &[("ok:0", "x")])).await.unwrap();
    let gone = create(&redis, "gone", "x").await;
    let before = all(&server);
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let swaps = [
        Swap::new(key("new"), None, "two"),
        with_lines(Swap::new(key("new"), None, "two"), &[("ok:0", "y")]),
        from("r", version, "two"),
        with_lines(from("r", version, "two"), &[("ok:0", "y"), ("ok:1", "y")]),
    ];
    for swap in &swaps {
        refused(&swap_one(&redis, swap).await.unwrap_err(), "memory limit");
    }
    for answer in redis.swap(&swaps).await.unwrap().each {
        refused(&answer.unwrap_err(), "memory limit");
    }
    assert_eq!(all(&server), before);
    assert_eq!(value(&redis, "r").await.unwrap(), "one");
    must_swap(&redis, &deletion("gone", gone)).await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    must_swap(&redis, &from("r", version, "two")).await;
}

// Promise: RD16
#[tokio::test]
async fn a_server_that_accepts_no_writes_can_be_read() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let version = create(&redis, "r", "one").await;
    let before = all(&server);
    for (bad, good, part) in [
        (&["REPLICAOF", "127.0.0.1", "1"][..], &["REPLICAOF", "NO", "ONE"][..], "read-only replica"),
        (
            &["CONFIG", "SET", "min-replicas-to-write", "1"],
            &["CONFIG", "SET", "min-replicas-to-write", "0"],
            "replicas",
        ),
    ] {
        server.cmd(bad);
        for swap in [from("r", version, "x"), Swap::new(key("new"), None, "x"), deletion("r", version)] {
            refused(&swap_one(&redis, &swap).await.unwrap_err(), part);
        }
        assert_eq!(value(&redis, "r").await.unwrap(), "one");
        server.cmd(good);
        assert_eq!(all(&server), before);
    }
}

#[tokio::test]
async fn a_node_of_a_cluster_returns_its_time_and_refuses_swaps_as_unsupported() {
    let server = RedisServer::start_node();
    let redis = operator(&server);
    redis.read(&[], &[]).await.unwrap();
    let error = async || swap_one(&redis, &Swap::new(key("r"), None, "x")).await.unwrap_err();
    // The keys of the swap are in different slots, and this node has no slots yet. Redis checks these two faults in
    // another order than Valkey. So the error is either `Unsupported`, or it says that the cluster is down.
    match error().await {
        error if error.kind() == ErrorKind::Unsupported => assert!(!error.maybe_applied(), "{error}"),
        error => refused(&error, "cannot serve now"),
    }
    let slots: Vec<String> = (0..16384).map(|slot| slot.to_string()).collect();
    server.cmd(&[&["CLUSTER", "ADDSLOTS"][..], &slots.iter().map(String::as_str).collect::<Vec<_>>()].concat());
    eventually_async(SOON, async || error().await.kind() == ErrorKind::Unsupported).await;
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test]
async fn concurrent_additions_to_one_record_are_not_lost() {
    let server = RedisServer::start();
    let backends: Vec<Redis> = (0..4).map(|_| operator(&server)).collect();
    create(&backends[0], "r", "0").await;
    let count = async |redis: &Redis| {
        for _ in 0..100 {
            let mut present = read_one(redis, "r").await.unwrap().unwrap();
            loop {
                let next = (present.value.parse::<u32>().unwrap() + 1).to_string();
                match swap_one(redis, &from("r", present.version, &next)).await.unwrap() {
                    Swapped::Done(_) => break,
                    Swapped::Differs(Some(other)) => present = other,
                    other => panic!("{other:?}"),
                }
            }
        }
    };
    futures_util::future::join_all(backends.iter().flat_map(|redis| [count(redis), count(redis)])).await;
    assert_eq!(value(&backends[0], "r").await.unwrap(), "800");
}

#[tokio::test]
async fn calls_without_a_server_are_not_applied() {
    let server = RedisServer::start();
    server.kill();
    let redis: Redis = operator(&server);
    let errors = [
        redis.swap(&[Swap::new(key("r"), None, "x")]).await.map(|_| ()).unwrap_err(),
        redis.read(&[], &[]).await.map(|_| ()).unwrap_err(),
        redis.names(&Pattern::all()).await.map(|_| ()).unwrap_err(),
        redis.history(&key("r")).await.map(|_| ()).unwrap_err(),
    ];
    for (error, verb) in errors.iter().zip(["swap", "read", "names", "history"]) {
        refused(error, "cannot reach");
        assert_eq!(error.verb(), Some(verb));
    }
}

/// All keys with their data.
fn all(server: &RedisServer) -> Vec<String> {
    server.keys().iter().map(|key| format!("{key} {:?}", server.cmd(&["DUMP", key]))).collect()
}

#[track_caller]
fn ambiguous(error: &Error) {
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, true), "{error}");
}

#[track_caller]
fn refused(error: &Error, part: &str) {
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, false), "{error}");
    assert!(error.to_string().contains(part), "{error} does not contain {part:?}");
}
