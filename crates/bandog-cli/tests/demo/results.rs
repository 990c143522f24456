//! The results of a demo.

use std::{process::Command, time::Duration};

use bandog_testkit::{MariaDbServer, PostgresServer};
use serde_json::Value;

use crate::Demo;

fn number(phase: &Value, name: &str) -> u64 {
    phase[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {phase}"))
}

fn assert_without_lock(phase: &Value, orders: u64) {
    assert_eq!(number(phase, "orders"), orders);
    assert_eq!(number(phase, "closed"), orders);
    assert_eq!(number(phase, "restored"), orders);
    assert!(number(phase, "restored_more_than_once") > 0, "{phase}");
    assert!(number(phase, "sweeps") > number(phase, "ticks"), "{phase}");
    assert!(number(phase, "swept_by") > 1, "{phase}");
    assert_eq!(number(phase, "taken_over"), 0);
    assert_eq!(number(phase, "notified"), orders);
    assert!(number(phase, "notified_more_than_once") > 0, "{phase}");
}

fn assert_with_lock(phase: &Value, orders: u64) {
    assert_eq!(number(phase, "orders"), orders);
    assert_eq!(number(phase, "closed"), orders);
    assert_eq!(number(phase, "restored"), orders);
    assert_eq!(number(phase, "restored_more_than_once"), 0);
    assert!(number(phase, "ticks") > 1, "{phase}");
    assert!(number(phase, "sweeps") <= number(phase, "ticks") + number(phase, "taken_over"), "{phase}");
    assert!(number(phase, "swept_by") > 0, "{phase}");
    assert_eq!(number(phase, "notified"), orders);
    assert_eq!(number(phase, "notified_more_than_once"), 0);
}

#[test]
fn a_default_demo_has_the_expected_result_within_15_seconds() {
    let ended = Demo::start(&["--json"]).end();
    ended.assert_code(0);
    assert_eq!(ended.stdout.lines().count(), 2, "{}", ended.stdout);
    assert_eq!(ended.lines[0]["lock"], false, "the phase without a lock is not the first");
    assert_without_lock(ended.phase(false), 100);
    assert_with_lock(ended.phase(true), 100);
    assert!(ended.took < Duration::from_secs(15), "{:?}", ended.took);
}

#[test]
fn a_small_demo_has_the_expected_result() {
    let ended = Demo::start(&["--replicas", "3", "--orders", "7", "--seconds", "20", "--json"]).end();
    ended.assert_code(0);
    assert_without_lock(ended.phase(false), 7);
    assert_with_lock(ended.phase(true), 7);
}

#[test]
fn one_phase_can_run_alone() {
    let with = Demo::start(&["--only", "with-lock", "--orders", "20", "--seconds", "15", "--json"]).end();
    with.assert_code(0);
    assert_eq!(with.lines.len(), 1);
    assert_with_lock(with.phase(true), 20);
    let without = Demo::start(&["--only", "without-lock", "--orders", "20", "--seconds", "15", "--json"]).end();
    without.assert_code(0);
    assert_eq!(without.lines.len(), 1);
    assert_without_lock(without.phase(false), 20);
}

fn assert_records_are_kept_and_removed(url: &str) {
    let ended = Demo::start(&["--only", "with-lock", "--seconds", "20", "--json", "--url", url]).end();
    ended.assert_code(0);
    assert_with_lock(ended.phase(true), 100);
    assert!(!format!("{}{}", ended.stdout, ended.stderr).contains("PASSWORD"), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(jobs(url), ["[]"]);
}

#[test]
fn the_records_may_be_on_redis_and_are_removed() {
    let redis = bandog_testkit::RedisServer::start();
    assert_records_are_kept_and_removed(&redis.url());
}

#[test]
fn the_records_may_be_in_postgresql_and_are_removed() {
    let server = PostgresServer::start();
    let (port, database) = (server.port(), server.new_database());
    assert_records_are_kept_and_removed(&format!("postgres://{}@127.0.0.1:{port}/{database}", PostgresServer::LOCKS));
}

#[test]
fn the_records_may_be_in_mariadb_and_are_removed() {
    let server = MariaDbServer::start();
    let (port, database) = (server.port(), server.new_database());
    assert_records_are_kept_and_removed(&format!("mysql://{}@127.0.0.1:{port}/{database}", MariaDbServer::LOCKS));
}

#[test]
fn two_demos_can_share_a_store() {
    let redis = bandog_testkit::RedisServer::start();
    let start = || Demo::start(&["--only", "with-lock", "--orders", "20", "--json", "--url", &redis.url()]);
    for ended in [start(), start()].map(Demo::end) {
        ended.assert_code(0);
        assert_with_lock(ended.phase(true), 20);
    }
    assert_eq!(jobs(&redis.url()), ["[]"]);
}

/// The jobs of demos in the store.
fn jobs(url: &str) -> Vec<String> {
    let url = format!("{url}?prefix=bandog-demo:");
    let listed = Command::new(env!("CARGO_BIN_EXE_bandog")).args(["jobs", "ls", "--json", "--url", &url]).output();
    let listed = listed.unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let text = String::from_utf8(listed.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn without_a_terminal_people_get_a_table_without_escapes() {
    let ended = Demo::start(&["--orders", "20", "--seconds", "20"]).end();
    ended.assert_code(0);
    let wanted = ["without a lock", "with bandog", "stock returned more than once", "exactly once", "bandog lock"];
    for words in wanted {
        assert!(ended.stdout.contains(words), "no {words:?} in\n{}", ended.stdout);
    }
    assert!(ended.stderr.contains("Without a lock"), "{}", ended.stderr);
    assert!(!format!("{}{}", ended.stdout, ended.stderr).contains('\x1b'));
}
