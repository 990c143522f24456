//! `bandog jobs` over Redis.

use std::fs;

use bandog_testkit::RedisServer;

use crate::help::{Place, SOON, ends};

#[test]
fn a_store_without_an_answer_or_with_a_refusal_is_reported() {
    let place = Place::new();
    let redis = RedisServer::start();
    redis.cmd(&["ACL", "SETUSER", "weak", "on", ">secret", "~*", "+@connection", "+info"]);
    let weak = redis.url().replace("redis://", "redis://weak:secret@");
    for verb in [&["ls"][..], &["show", "x"], &["run", "x"], &["pause", "x", "--reason", "y"], &["history", "x"]] {
        let refused = place.run(&[&["jobs"], verb, &["--url", &weak]].concat());
        refused.assert_ended(77, &["bandog: "]);
        assert!(!refused.stderr.contains("secret"), "{refused:?}");
    }
    let url = redis.url();
    redis.kill(); // It keeps its port.
    for verb in [&["ls"][..], &["run", "x"]] {
        place.run(&[&["jobs"], verb, &["--url", &url]].concat()).assert_ended(69, &["bandog: "]);
    }
}

#[test]
fn a_wait_continues_after_a_short_outage_and_ends_after_a_long_one() {
    let place = Place::new();
    let redis = RedisServer::start();
    let url = redis.url();
    fs::write(
        place.path("jobs.toml"),
        "[[job]]\nname = 'x'\ncron = '0 0 2 1 1 ?'\ncommand = 'until [ -e go ]; do sleep 0.02; done'\n",
    )
    .unwrap();
    let scheduler = place.start(&["schedule", "jobs.toml", "--url", &url]);
    scheduler.stderr_line("started", SOON);
    let wait = || {
        let wait = place.start(&["jobs", "run", "x", "--wait", "--url", &url]);
        wait.stdout_line("", SOON);
        wait
    };
    let mut first = wait();
    redis.kill_clients();
    fs::write(place.path("go"), "").unwrap();
    ends(&mut first, 0);
    fs::remove_file(place.path("go")).unwrap();
    let mut second = wait();
    redis.kill();
    ends(&mut second, 69);
}
