//! Holders and waiters as text.

use bandog_testkit::RedisServer;
use serde_json::Value;

use crate::help::{Place, SOON, ends};

const ANN: &str = "0c1d2e3f-0000-4000-8000-000000000001:57";
const BEN: &str = "0c1d2e3f-0000-4000-8000-000000000002:9";

#[test]
fn a_java_client_is_described_as_one() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.cmd(&["HSET", "x", ANN, "1"]);
    let show = place.run(&["show", "x", "--url", &redis.url()]).stdout;
    assert!(show.contains(&format!("a Java client, {ANN}")), "{show}");
    let row = place.show("x", &["--url", &redis.url()]);
    assert_eq!((&row["holder"], &row["waiters"]), (&Value::Null, &Value::Array(Vec::new())));
}

#[test]
fn a_verbose_waiter_reports_each_holder_once() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = redis.url();
    redis.cmd(&["HSET", "x", ANN, "1"]);
    let mut silent = place.start(&["lock", "x", "--url", &url, "--", "true"]);
    let mut waiter = place.start(&["lock", "x", "-v", "--url", &url, "--", "true"]);
    waiter.stderr_line(ANN, SOON);
    redis.cmd(&["HSET", "x", BEN, "1"]);
    redis.cmd(&["HDEL", "x", ANN]);
    waiter.stderr_line(BEN, SOON);
    redis.cmd(&["DEL", "x"]);
    ends(&mut waiter, 0);
    ends(&mut silent, 0);
    let said = waiter.stderr();
    assert!(said.iter().all(|line| line.starts_with("bandog: info: ")), "{said:?}");
    for owner in [ANN, BEN] {
        assert_eq!(said.iter().filter(|line| line.contains(owner)).count(), 1, "{said:?}");
    }
    assert!(said.last().unwrap().contains("got \"x\""), "{said:?}");
    assert_eq!(silent.stderr(), [""; 0]);
}
