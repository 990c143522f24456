use std::{
    fs, thread,
    time::{Duration, Instant},
};

use bandog_testkit::{RedisServer, eventually};
use serde_json::Value;

use crate::help::{Place, Ran, SOON, ends};

#[test]
fn contenders_take_turns_and_lose_nothing() {
    let (redis, place) = (RedisServer::start(), Place::new());
    fs::write(place.path("counter"), "0\n").unwrap();
    let turn = "n=$(cat counter); sleep 0.01; echo $((n + 1)) > counter; echo $BANDOG_FENCE >> fences";
    let url = redis.url();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (0..5).for_each(|_| place.run(&Place::lock("x", &["--url", &url], turn)).assert_ended(0, &[]))
            });
        }
    });
    assert_eq!(place.written("counter"), "20");
    let fences: Vec<u64> = place.lines("fences").iter().map(|line| line.parse().unwrap()).collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

// Promise: C7
#[test]
fn a_password_is_not_passed_to_the_command() {
    let (redis, place) = (RedisServer::start_with(&["--requirepass", "hunter2"]), Place::new());
    let url = redis.url().replace("redis://", "redis://default:hunter2@");
    let script = "env; cat /proc/$$/cmdline; echo $BANDOG_URL > url";
    let by_option = place.run(&Place::lock("x", &["--url", &url], script));
    let mut command = place.bandog(&Place::lock("x", &[], script));
    command.env("BANDOG_URL", &url);
    for ran in [by_option, command.into()] {
        ran.assert_ended(0, &[]);
        assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{ran:?}");
        assert_eq!(place.written("url"), redis.url().replace("redis://", "redis://default@"));
    }
    let row = place.show("x", &["--url", &url]);
    assert!(!row.to_string().contains("hunter2"), "{row}");
    // A nested bandog says why it has no password.
    let nested = format!("{} lock y -- true; exit $?", env!("CARGO_BIN_EXE_bandog"));
    let ran = place.run(&Place::lock("x", &["--url", &url], &nested));
    ran.assert_ended(77, &["this user or password", "bandog passes BANDOG_URL to its commands without the password"]);
}

#[test]
fn a_password_in_the_place_of_the_user_is_not_printed() {
    let (redis, place) = (RedisServer::start_with(&["--requirepass", "hunter2"]), Place::new());
    let url = redis.url().replace("redis://", "redis://hunter2@");
    for words in [&["doctor"][..], &["doctor", "--json"], &["show", "x"], &["lock", "x", "--", "true"]] {
        let mut command = place.bandog(words);
        command.env("BANDOG_URL", &url);
        let ran = Ran::from(command);
        ran.assert_ended(77, &["redis://***@", "or :PASSWORD@ directly after ://"]);
        assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{ran:?}");
    }
}

// Promise: C10
#[test]
fn the_child_gets_the_url_that_bandog_used() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let nested = format!("echo \"$BANDOG_URL\"; {} lock y -- true; echo $?", env!("CARGO_BIN_EXE_bandog"));
    let mut command = place.bandog(&Place::lock("x", &[], &nested));
    command.env("BANDOG_URL", format!(" {}\r\n", redis.url()));
    assert_eq!(Ran::from(command).stdout, format!("{}\n0\n", redis.url()));
}

// Promise: C11
#[test]
fn a_wait_with_a_limit_is_also_a_wait_for_the_store() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = redis.url();
    redis.cmd(&["SET", "kept", "1"]);
    redis.kill();
    let mut lock = place.start(&["lock", "x", "--wait", "60s", "--url", &url, "--", "true"]);
    let mut latch = place.start(&["latch", "done", "wait", "--timeout", "60s", "--url", &url]);
    let mut acquire = place.start(&["acquire", "y", "--lease", "1h", "--wait", "60s", "--url", &url]);
    // Without a limit, the wait for the store ends after 5 s; and so did those with one, if there were only one limit.
    let began = Instant::now();
    place
        .run(&["lock", "x", "--url", &url, "--", "true"])
        .assert_ended(69, &["cannot reach", "check that the store runs"]);
    place.run(&["lock", "x", "--wait", "1500ms", "--url", &url, "--", "true"]).assert_ended(69, &[]);
    assert!(began.elapsed() > Duration::from_secs(6));
    assert!(lock.try_wait().is_none() && latch.try_wait().is_none(), "{:?} {:?}", lock.stderr(), latch.stderr());
    assert!(acquire.try_wait().is_none(), "{:?}", acquire.stderr());
    redis.restart();
    assert_eq!(lock.wait(SOON).code(), Some(0), "{:?}", lock.stderr());
    assert_eq!(latch.wait(SOON).code(), Some(0), "{:?}", latch.stderr());
    assert_eq!(acquire.wait(SOON).code(), Some(0), "{:?}", acquire.stderr());
}

// Promise: C7
#[test]
fn a_password_in_the_variable_is_on_no_command_line() {
    let (redis, place) = (RedisServer::start_with(&["--requirepass", "hunter2"]), Place::new());
    let mut command =
        place.bandog(&Place::lock("x", &[], "tr '\\0' ' ' < /proc/$PPID/cmdline; tr '\\0' ' ' < /proc/$$/cmdline"));
    command.env("BANDOG_URL", redis.url().replace("redis://", "redis://:hunter2@"));
    let ran = Ran::from(command);
    ran.assert_ended(0, &[]);
    assert!(ran.stdout.contains("lock x") && !ran.stdout.contains("hunter2"), "{ran:?}");
}

#[test]
fn a_lock_that_would_wait_for_itself_is_refused() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let (url, bandog) = (redis.url(), env!("CARGO_BIN_EXE_bandog"));
    let inner = |name: &str, url: &str| format!("{bandog} lock {name} --url {url} -- true; exit $?");
    let under = |script: &str| place.run(&Place::lock("x", &["--url", &url], script));
    under(&inner("x", &format!("{url}/0?watchdog=3s"))).assert_ended(64, &["bandog: \"x\"", "wait for itself"]);
    under(&inner("x", &format!("{url}/1"))).assert_ended(0, &[]);
    under(&inner("y", &url)).assert_ended(0, &[]);
}

#[test]
fn a_waiter_that_leaves_leaves_no_data_in_the_store() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = redis.url();
    let mut holder = place.start(&Place::lock("x", &["--url", &url], "echo in; read word; exit 0"));
    holder.stdout_line("in", SOON);
    // The holder registers in the store shortly after the grant.
    eventually(SOON, || !place.show("x", &["--url", &url])["holder"].is_null());
    // The entry in the index of clients is written by a second call.
    eventually(SOON, || redis.keys().iter().any(|key| key == "bandog:clients"));
    let before = (redis.keys(), redis.hash("x"));
    let mut waiter = place.start(&["lock", "x", "--url", &url, "--", "true"]);
    // The waiter subscribes after the store has answered that the lock is held.
    eventually(SOON, || redis.cmd(&["PUBSUB", "CHANNELS", "*"]).texts().len() == 1);
    waiter.term();
    ends(&mut waiter, 143);
    assert_eq!((redis.keys(), redis.hash("x")), before);
    eventually(SOON, || redis.cmd(&["PUBSUB", "CHANNELS", "*"]).texts().is_empty());
    holder.close_stdin();
    ends(&mut holder, 0);
    assert_eq!(place.show("x", &["--url", &url])["held"], false);
}

#[test]
fn a_lock_of_redisson_is_shown_and_awaited() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = redis.url();
    let owner = "0c1d2e3f-0000-4000-8000-000000000001:57";
    redis.cmd(&["HSET", "x", owner, "1"]);
    redis.cmd(&["PEXPIRE", "x", "60000"]);
    redis.cmd(&["HSET", "user:1", "name", "Ann"]);
    redis.cmd(&["SET", "text", "x"]);
    let row = place.show("x", &["--url", &url]);
    assert_eq!((&row["held"], &row["owner"], &row["fence"]), (&true.into(), &owner.into(), &Value::Null));
    assert!((1..=60_000).contains(&row["ttl_ms"].as_u64().unwrap()));
    let list = place.run(&["ls", "--json", "--url", &url]);
    assert_eq!(list.stdout.lines().count(), 1, "{list:?}");
    assert!(list.stdout.contains(owner));
    place.run(&["lock", "x", "--wait", "0s", "--url", &url, "--", "true"]).assert_ended(75, &["\"x\"", &url]);
    redis.cmd(&["PEXPIRE", "x", "100"]);
    place.run(&["lock", "x", "--url", &url, "--", "true"]).assert_ended(0, &[]);
}

#[test]
fn ls_does_not_use_keys() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = redis.url();
    let holder = place.start(&Place::lock("order-1", &["--url", &url], "echo $BANDOG_FENCE; read word"));
    let fence: u64 = holder.stdout_line("", SOON).parse().unwrap();
    let ran = place.run(&["ls", "order-*", "--json", "--url", &url]);
    let row: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&row["name"], &row["fence"], &row["held"]), (&"order-1".into(), &fence.into(), &true.into()));
    assert_eq!(place.run(&["ls", "stock-*", "--json", "--url", &url]).stdout, "");
    assert_eq!(redis.calls("keys"), 0);
}
