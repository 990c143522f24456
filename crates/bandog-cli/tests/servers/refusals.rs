use std::time::{Duration, Instant};

use bandog_testkit::RedisServer;

use crate::help::{Place, Ran, SOON};

#[test]
fn a_wrong_password_is_reported_immediately_and_not_printed() {
    let (redis, place) = (RedisServer::start_with(&["--requirepass", "right"]), Place::new());
    let url = redis.url().replace("redis://", "redis://:hunter2@");
    let start = Instant::now();
    for args in [&["lock", "x", "--url", &url, "--", "true"][..], &["show", "x", "--url", &url], &["ls", "--url", &url]]
    {
        let ran = place.run(args);
        ran.assert_ended(77, &["bandog: ", "password", &redis.port().to_string(), "--url"]);
        assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
    }
    place.run(&["lock", "x", "--url", &redis.url(), "--", "true"]).assert_ended(77, &["password"]);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[test]
fn a_missing_right_is_reported_with_the_verb_and_the_lock() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.cmd(&["ACL", "SETUSER", "reader", "on", ">hunter2", "~*", "&*", "+@all", "-hset", "-hincrby", "-pexpire"]);
    let url = redis.url().replace("redis://", "redis://reader:hunter2@");
    let ran = place.run(&["lock", "orders", "--url", &url, "--", "true"]);
    ran.assert_ended(77, &["claim", "\"orders\"", "lacks a right", "run `bandog doctor`"]);
    assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
    assert!(!redis.keys().contains(&"orders".to_owned()), "{:?}", redis.keys());
}

#[test]
fn a_waiter_that_may_not_subscribe_is_warned() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.cmd(&["ACL", "SETUSER", "deaf", "on", ">hunter2", "~*", "&*", "+@all", "-subscribe", "-psubscribe"]);
    let holder = place.start(&Place::lock("x", &["--url", &redis.url()], "echo in; read word"));
    holder.stdout_line("in", SOON);
    let url = redis.url().replace("redis://", "redis://deaf:hunter2@");
    let mut waiter = place.start(&Place::lock("x", &["--url", &url], "exit 4"));
    let warning = waiter.stderr_line("may not subscribe", SOON);
    assert!(warning.starts_with("bandog: ") && !warning.contains("hunter2"), "{warning}");
    drop(holder);
    redis.cmd(&["DEL", "x"]);
    crate::help::ends(&mut waiter, 4);
}

#[test]
fn a_key_of_another_kind_is_not_touched() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.cmd(&["SET", "x", "a letter"]);
    let url = redis.url();
    place.run(&["lock", "x", "--url", &url, "--", "true"]).assert_ended(77, &["\"x\""]);
    assert!(place.run(&["show", "x", "--url", &url]).stdout.contains("value"));
    place.run(&["release", "x", "--force", "--url", &url]).assert_ended(77, &["\"x\""]);
    assert_eq!(redis.cmd(&["GET", "x"]).text(), "a letter");
    assert_eq!(redis.keys(), ["x"]);
}

#[test]
fn a_closed_port_is_reported_within_the_timeout_of_the_first_answer() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.kill();
    let url = redis.url();
    let unavailable = |options: &[&str], within: Duration| {
        let start = Instant::now();
        let ran: Ran = place.run(&Place::lock("x", &[&["--url", &url], options].concat(), "true"));
        ran.assert_ended(69, &["bandog: ", &redis.port().to_string(), "--url"]);
        assert!(start.elapsed() < within, "{options:?}: {:?}", start.elapsed());
    };
    unavailable(&[], Duration::from_secs(7));
    let start = Instant::now();
    unavailable(&["--wait", "8s"], Duration::from_secs(20));
    assert!(start.elapsed() >= Duration::from_secs(8), "the wait is for the store, too: {:?}", start.elapsed());
    unavailable(&["--wait", "300ms"], Duration::from_secs(2));
    unavailable(&["--wait", "0s"], Duration::from_secs(5));
    let start = Instant::now();
    place.run(&["show", "x", "--url", &url]).assert_ended(69, &["bandog: "]);
    place.run(&["ls", "--url", &url]).assert_ended(69, &["bandog: "]);
    assert!(start.elapsed() < Duration::from_secs(13), "{:?}", start.elapsed());
}

#[test]
fn a_silent_server_is_unavailable_too() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.pause();
    let start = Instant::now();
    place.run(&["lock", "x", "--url", &redis.url(), "--", "true"]).assert_ended(69, &["bandog: "]);
    assert!(start.elapsed() < Duration::from_secs(7), "{:?}", start.elapsed());
    redis.resume();
}

#[test]
fn a_server_that_starts_in_time_is_awaited() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.kill();
    let mut early = place.start(&["lock", "x", "--url", &redis.url(), "--", "true"]);
    redis.restart();
    crate::help::ends(&mut early, 0);
}
