//! Tests of `forget`.

use bandog_testkit::{RedisServer, Reply};
use serde_json::Value;

use crate::help::{Place, Ran};

/// The token of a name that was locked in the year 2020.
const OLD: &str = "1600000000000000";

fn forget(place: &Place, url: &str, words: &[&str]) -> Ran {
    place.run(&[&["forget", "--url", url], words].concat())
}

// Promise: L31
#[test]
fn forget_removes_old_names_only() {
    let (place, redis) = (Place::new(), RedisServer::start());
    let url = redis.url();
    let token = |name: &str| format!("redisson_lock_token:{{{name}}}");
    for number in 0..300 {
        redis.cmd(&["SET", &token(&format!("old-{number}")), OLD]);
    }
    // A name that another program uses, a name that is just held, and a counter of Redisson.
    redis.cmd(&["SET", &token("foreign"), OLD]);
    redis.cmd(&["SET", "foreign", "data"]);
    redis.cmd(&["SET", &token("{tag}x"), OLD]);
    redis.cmd(&["SET", &token("java"), "5"]);
    place.run(&["lock", "fresh", "--url", &url, "--", "true"]).assert_ended(0, &[]);
    forget(&place, &url, &["*"]).assert_ended(64, &["--yes forgets all names that match \"*\""]);
    forget(&place, &url, &["*", "--unused", "59m", "--yes"]).assert_ended(64, &["an hour after its last grant"]);
    let names = forget(&place, &url, &["old-*", "--dry-run"]);
    names.assert_ended(0, &["300 of ", "would be forgotten"]);
    assert_eq!(names.stdout.lines().count(), 300, "{names:?}");
    let exists = |name: &str| redis.cmd(&["EXISTS", &token(name)]) == Reply::Int(1);
    assert!(exists("old-7"));
    let forgotten = forget(&place, &url, &["old-*", "--yes", "--json"]);
    let report: Value = serde_json::from_str(&forgotten.stdout).unwrap();
    assert_eq!((&report["unused"], &report["forgotten"]), (&300.into(), &300.into()), "{report}");
    assert!((0..300).all(|number| !exists(&format!("old-{number}"))));
    forget(&place, &url, &["*", "--yes"]).assert_ended(0, &["were forgotten"]);
    assert!(exists("foreign") && exists("java") && exists("fresh"));
    let again = place.run(&Place::lock("old-1", &["--url", &url], "echo $BANDOG_FENCE"));
    assert!(again.stdout.trim().parse::<u64>().unwrap() > OLD.parse().unwrap(), "{again:?}");
}

#[test]
fn forget_needs_a_store_that_exists() {
    let place = Place::new();
    let ran = forget(&place, "sqlite:gone.db", &["*", "--yes"]);
    ran.assert_ended(69, &["gone.db", "does not exist"]);
}
