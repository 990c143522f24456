//! Bad arguments, a store without an answer, replicas that are killed or paused.

use std::fs;

use bandog_testkit::{RedisServer, Signal, eventually, process::send};
use rusqlite::Connection;

use crate::{Demo, LONG};

#[test]
fn bad_arguments_exit_with_64() {
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
fn a_store_without_an_answer_exits_with_69_before_the_first_phase() {
    let ended = Demo::start(&["--url", "redis://:secret@127.0.0.1:1"]).end();
    ended.assert_code(69);
    assert!(ended.stderr.contains("127.0.0.1:1"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("Without a lock"), "{}", ended.stderr);
}

#[test]
fn a_store_that_stops_during_a_phase_exits_with_69() {
    let redis = RedisServer::start();
    let demo = Demo::start(&["--only", "with-lock", "--seconds", "10", "--url", &redis.url()]);
    drop(demo.shop("with-lock.db"));
    redis.kill(); // It keeps its port.
    let ended = demo.end();
    ended.assert_code(69);
    assert!(ended.stderr.contains("stopped answering"), "{}", ended.stderr);
}

#[test]
fn a_tick_whose_replica_is_killed_in_the_middle_runs_again_on_another() {
    let demo = Demo::start(&["--only", "with-lock", "--seconds", "20", "--json"]);
    let replicas = demo.replicas(10);
    let shop = demo.shop("with-lock.db");
    let sweep = stopped_in_the_middle(&shop, &replicas);
    send(pid(&replicas, sweep.replica), Signal::KILL);
    let (second_replica, fence): (u16, i64) = eventually(LONG, || {
        let again = "select replica, fence from sweep where tick = ?1 and attempt = 2";
        shop.query_row(again, [sweep.tick], |row| Ok((row.get(0)?, row.get(1)?)))
    });
    assert_ne!(second_replica, sweep.replica);
    assert!(fence > sweep.fence, "{fence} after {}", sweep.fence);
    drop(shop);
    let ended = demo.end();
    ended.assert_code(0);
    assert_eq!(ended.phase(true)["restored"], 100);
    assert_eq!(ended.phase(true)["restored_more_than_once"], 0);
    assert!(ended.phase(true)["taken_over"].as_u64() > Some(0), "{}", ended.phase(true));
}

#[test]
fn a_replica_that_was_paused_past_its_lease_changes_nothing() {
    let demo = Demo::start(&["--only", "with-lock", "--seconds", "20", "--json"]);
    let replicas = demo.replicas(10);
    let shop = demo.shop("with-lock.db");
    let stopped = stopped_in_the_middle(&shop, &replicas);
    eventually(LONG, || shop.query_row("select 1 from restoration where fence > ?1", [stopped.fence], |_| Ok(())));
    send(pid(&replicas, stopped.replica), Signal::CONT);
    drop(shop);
    let ended = demo.end();
    ended.assert_code(0);
    assert_eq!(ended.phase(true)["restored"], 100);
    assert_eq!(ended.phase(true)["restored_more_than_once"], 0);
}

/// A run of the job.
struct Sweep {
    replica: u16,
    tick: i64,
    fence: i64,
}

/// Stops a replica that has returned stock in a sweep and has not ended the sweep.
fn stopped_in_the_middle(shop: &Connection, replicas: &[u32]) -> Sweep {
    let half_done = "select replica, tick, fence from sweep where state = 'sweeping' \
                     and fence in (select fence from restoration)";
    let half_done_sweep = || {
        shop.query_row(half_done, [], |row| Ok(Sweep { replica: row.get(0)?, tick: row.get(1)?, fence: row.get(2)? }))
    };
    eventually(LONG, || {
        let found = half_done_sweep().map_err(|error| error.to_string())?;
        let pid = pid(replicas, found.replica);
        send(pid, Signal::STOP);
        eventually(LONG, || is_stopped(pid).then_some(()));
        // The replica might have ended its sweep before it was stopped.
        match half_done_sweep() {
            Ok(still) if still.fence == found.fence => Ok(still),
            Ok(_) | Err(_) => {
                send(pid, Signal::CONT);
                Err("the sweep had ended".to_owned())
            }
        }
    })
}

fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('T')
}

/// The pid of a replica. The replicas start in the order of their numbers, so their pids have the same order.
fn pid(replicas: &[u32], number: u16) -> u32 {
    replicas[usize::from(number) - 1]
}
