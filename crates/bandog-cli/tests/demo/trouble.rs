//! Bad arguments, a store that is away, replicas that are killed or stand still.

use bandog_testkit::{RedisServer, Signal, eventually, process::send};
use rusqlite::Connection;

use crate::{Demo, LONG};

#[test]
fn bad_arguments_are_told_with_64() {
    let bad: [&[&str]; 12] = [
        &["--replicas", "0"],
        &["--replicas", "1"],
        &["--replicas", "1000"],
        &["--replicas", "ten"],
        &["--orders", "0"],
        &["--orders", "1000000"],
        &["--orders", "-1"],
        &["--seconds", "0"],
        &["--only", "both"],
        &["--replicas", "64", "--orders", "2000"],
        &["--url", "memory:"],
        &["--url", "mongo://localhost"],
    ];
    for args in bad {
        let ended = Demo::start(args).end();
        ended.assert_code(64);
        assert!(ended.stdout.is_empty(), "{args:?}: {}", ended.stdout);
        let value = args.last().unwrap();
        assert!(ended.stderr.contains(value), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn a_store_that_is_away_is_told_with_69_before_anything_is_played() {
    let ended = Demo::start(&["--url", "redis://:secret@127.0.0.1:1"]).end();
    ended.assert_code(69);
    assert!(ended.stderr.contains("127.0.0.1:1"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("Without a lock"), "{}", ended.stderr);
}

#[test]
fn a_store_that_goes_away_in_the_middle_is_told_with_69() {
    let redis = RedisServer::start();
    let demo = Demo::start(&["--only", "with-lock", "--seconds", "10", "--url", &redis.url()]);
    drop(demo.shop("with-lock.db"));
    drop(redis);
    let ended = demo.end();
    ended.assert_code(69);
    assert!(ended.stderr.contains("went away"), "{}", ended.stderr);
}

#[test]
fn a_holder_that_is_killed_holds_nobody_up_for_long() {
    let demo = Demo::start(&["--only", "with-lock", "--seconds", "20", "--json"]);
    let replicas = demo.replicas(10);
    let shop = demo.shop("with-lock.db");
    send(pid(&replicas, holder(&shop)), Signal::KILL);
    drop(shop);
    let ended = demo.end();
    assert_eq!(ended.half(true)["closed"], 100);
    assert_eq!(ended.half(true)["restored_more_than_once"], 0);
}

#[test]
fn a_holder_that_stood_still_past_its_lease_spoils_nothing() {
    let demo = Demo::start(&["--only", "with-lock", "--seconds", "20", "--json"]);
    let replicas = demo.replicas(10);
    let shop = demo.shop("with-lock.db");
    let stopped = holder(&shop);
    send(pid(&replicas, stopped), Signal::STOP);
    eventually(LONG, || {
        shop.query_row(
            "select 1 from restoration where replica <> ?1 and fence = (select greatest from fence)",
            [stopped],
            |_| Ok(()),
        )
    });
    send(pid(&replicas, stopped), Signal::CONT);
    drop(shop);
    let ended = demo.end();
    assert_eq!(ended.half(true)["closed"], 100);
    assert_eq!(ended.half(true)["restored_more_than_once"], 0);
}

/// The number of the replica that sweeps under the lock now.
fn holder(shop: &Connection) -> u16 {
    eventually(LONG, || shop.query_row("select replica from sweep where state = 'sweeping'", [], |row| row.get(0)))
}

/// Replicas are started in the order of their numbers.
fn pid(replicas: &[u32], number: u16) -> u32 {
    replicas[usize::from(number) - 1]
}
