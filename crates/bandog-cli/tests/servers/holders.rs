//! Who holds a lock and who waits for it, in words.

use bandog_testkit::{Process, RedisServer, eventually};
use serde_json::Value;

use crate::help::{Place, SOON, ends};

const ANN: &str = "0c1d2e3f-0000-4000-8000-000000000001:57";
const BEN: &str = "0c1d2e3f-0000-4000-8000-000000000002:9";

/// A holder whose script reads a word, once the store knows of it.
fn holder(place: &Place, url: &str) -> Process {
    let holder = place.start(&Place::lock("x", &["--url", url], "echo in; read word; exit 0"));
    holder.stdout_line("in", SOON);
    eventually(SOON, || !place.show("x", &["--url", url])["holder"].is_null());
    holder
}

#[test]
fn show_and_ls_name_the_holder_and_the_waiters() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = redis.url();
    let mut holder = holder(&place, &url);
    let waiter = place.start(&["lock", "x", "--url", &url, "--", "env", "SECRET=hunter2", "true"]);
    let row = eventually(SOON, || Some(place.show("x", &["--url", &url])).filter(|row| row["waiters"][0].is_object()));
    let told = |person: &Value, process: &Process, program: &str| {
        assert_eq!((&person["pid"], &person["program"]), (&process.pid().into(), &program.into()), "{person}");
        assert!(person["host"].is_string() && person["since"].as_str().unwrap().ends_with('Z'), "{person}");
    };
    told(&row["holder"], &holder, "bandog lock -- sh");
    told(&row["waiters"][0], &waiter, "bandog lock -- env");
    let list = place.run(&["ls", "--json", "--url", &url]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap()["holder"], row["holder"]);
    let show = place.run(&["show", "x", "--url", &url]).stdout;
    for word in
        ["HOLDER", "bandog lock -- sh (process ", "waiting:\n  bandog lock -- env (process ", &holder.pid().to_string()]
    {
        assert!(show.contains(word), "{word}: {show}");
    }
    assert!(!show.contains("hunter2"), "a command's arguments are its own");
    let busy = place.run(&["lock", "x", "--wait", "0s", "--url", &url, "--", "true"]);
    busy.told(75, &["held by bandog lock -- sh (process "]);
    holder.close_stdin();
    ends(&mut holder, 0);
    drop(waiter);
}

#[test]
fn a_java_client_is_told_as_one() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.cmd(&["HSET", "x", ANN, "1"]);
    let show = place.run(&["show", "x", "--url", &redis.url()]).stdout;
    assert!(show.contains(&format!("a Java client, {ANN}")), "{show}");
    let row = place.show("x", &["--url", &redis.url()]);
    assert_eq!((&row["holder"], &row["waiters"]), (&Value::Null, &Value::Array(Vec::new())));
}

#[test]
fn a_waiter_tells_of_each_holder_once_if_it_is_asked_to() {
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
