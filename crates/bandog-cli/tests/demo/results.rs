//! What comes out.

use std::{process::Command, time::Duration};

use serde_json::Value;

use crate::Demo;

fn number(half: &Value, name: &str) -> u64 {
    half[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {half}"))
}

fn assert_without_lock(half: &Value, orders: u64) {
    assert_eq!(number(half, "orders"), orders);
    assert_eq!(number(half, "closed"), orders);
    assert_eq!(number(half, "restored"), orders);
    assert!(number(half, "restored_more_than_once") > 0, "{half}");
    assert!(number(half, "sweeps") > number(half, "ticks"), "{half}");
    assert!(number(half, "swept_by") > 1, "{half}");
    assert_eq!(number(half, "taken_over"), 0);
}

fn assert_with_lock(half: &Value, orders: u64) {
    assert_eq!(number(half, "orders"), orders);
    assert_eq!(number(half, "closed"), orders);
    assert_eq!(number(half, "restored"), orders);
    assert_eq!(number(half, "restored_more_than_once"), 0);
    assert!(number(half, "ticks") > 1, "{half}");
    assert!(number(half, "sweeps") <= number(half, "ticks") + number(half, "taken_over"), "{half}");
    assert!(number(half, "swept_by") > 0, "{half}");
}

#[test]
fn a_default_demo_tells_its_story_within_15_seconds() {
    let ended = Demo::start(&["--json"]).end();
    ended.assert_code(0);
    assert_eq!(ended.stdout.lines().count(), 2, "{}", ended.stdout);
    assert_eq!(ended.lines[0]["lock"], false, "the half without comes first");
    assert_without_lock(ended.half(false), 100);
    assert_with_lock(ended.half(true), 100);
    assert!(ended.took < Duration::from_secs(15), "{:?}", ended.took);
}

#[test]
fn a_small_demo_tells_it_too() {
    let ended = Demo::start(&["--replicas", "3", "--orders", "7", "--seconds", "10", "--json"]).end();
    ended.assert_code(0);
    assert_without_lock(ended.half(false), 7);
    assert_with_lock(ended.half(true), 7);
}

#[test]
fn one_half_alone() {
    let with = Demo::start(&["--only", "with-lock", "--orders", "20", "--seconds", "5", "--json"]).end();
    with.assert_code(0);
    assert_eq!(with.lines.len(), 1);
    assert_with_lock(with.half(true), 20);
    let without = Demo::start(&["--only", "without-lock", "--orders", "20", "--seconds", "5", "--json"]).end();
    without.assert_code(0);
    assert_eq!(without.lines.len(), 1);
    assert_without_lock(without.half(false), 20);
}

#[test]
fn the_records_may_live_on_redis_and_are_not_left_there() {
    let redis = bandog_testkit::RedisServer::start();
    let ended = Demo::start(&["--only", "with-lock", "--seconds", "5", "--json", "--url", &redis.url()]).end();
    ended.assert_code(0);
    assert_with_lock(ended.half(true), 100);
    assert_eq!(jobs(&redis.url()), ["[]"]);
}

#[test]
fn two_demos_share_a_store() {
    let redis = bandog_testkit::RedisServer::start();
    let start = || Demo::start(&["--only", "with-lock", "--orders", "20", "--json", "--url", &redis.url()]);
    for ended in [start(), start()].map(Demo::end) {
        ended.assert_code(0);
        assert_with_lock(ended.half(true), 20);
    }
    assert_eq!(jobs(&redis.url()), ["[]"]);
}

/// What the store knows of jobs of demos.
fn jobs(url: &str) -> Vec<String> {
    let url = format!("{url}?prefix=bandog-demo:");
    let listed = Command::new(env!("CARGO_BIN_EXE_bandog")).args(["jobs", "ls", "--json", "--url", &url]).output();
    let listed = listed.unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let text = String::from_utf8(listed.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn people_get_a_table_and_no_escapes_without_a_terminal() {
    let ended = Demo::start(&["--orders", "20", "--seconds", "6"]).end();
    ended.assert_code(0);
    let wanted = ["without a lock", "with bandog", "stock given back more than once", "exactly once", "bandog lock"];
    for words in wanted {
        assert!(ended.stdout.contains(words), "no {words:?} in\n{}", ended.stdout);
    }
    assert!(ended.stderr.contains("Without a lock"), "{}", ended.stderr);
    assert!(!format!("{}{}", ended.stdout, ended.stderr).contains('\x1b'));
}
