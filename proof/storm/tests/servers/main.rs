//! A short storm with a fixed seed on servers: Redis, one server and several that fail, PostgreSQL, MariaDB and
//! ZooKeeper. And the exits of programs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod exits;
mod hard;

use std::process::Command;

#[track_caller]
fn is_well(store: &str, calls: u32, seed: u32) {
    passes(&[store], calls, seed);
}

#[track_caller]
fn passes(args: &[&str], calls: u32, seed: u32) {
    let mut storm = Command::new(env!("CARGO_BIN_EXE_bandog-storm"));
    let (calls, seed) = (calls.to_string(), seed.to_string());
    let output = storm.args(args).args(["--ops", &calls, "--seed", &seed]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("nothing is wrong"), "{text}");
}

// Promise: RD18
#[test]
fn redis_keeps_its_promises_in_a_storm() {
    is_well("redis", 10_000, 1);
}

// Promise: SE2
#[test]
fn redis_with_sentinels_keeps_its_promises_in_a_storm() {
    // The first fault of this seed kills the master.
    is_well("sentinel", 3_000, 5);
}

// Promise: RC2
#[test]
fn a_redis_cluster_keeps_its_promises_in_a_storm() {
    // The first faults of this seed let a replica take over, and move slots.
    is_well("cluster", 3_000, 4);
}

#[test]
fn objects_keep_their_promises_in_a_storm() {
    passes(&["grid", "redis"], 30_000, 1);
}

#[test]
fn objects_on_servers_that_fail_keep_their_promises_in_a_storm() {
    passes(&["grid", "sentinel", "cluster"], 20_000, 1);
}

#[test]
fn work_queues_keep_their_promises_in_a_storm() {
    passes(&["work", "redis", "sqlite", "postgres", "mariadb"], 5_000, 1);
}

#[test]
fn work_queues_on_servers_that_fail_keep_their_promises_in_a_storm() {
    passes(&["work", "sentinel", "cluster"], 5_000, 1);
}

// Promise: RQ2
#[test]
fn a_quorum_keeps_its_promises_in_a_storm() {
    // One of the first faults of this seed restarts an empty server.
    is_well("quorum", 3_000, 4);
}

#[test]
fn postgres_keeps_its_promises_in_a_storm() {
    is_well("postgres", 3_000, 1);
}

#[test]
fn mariadb_keeps_its_promises_in_a_storm() {
    is_well("mariadb", 3_000, 1);
}

#[test]
fn zookeeper_keeps_its_promises_in_a_storm() {
    is_well("zookeeper", 3_000, 1);
}
