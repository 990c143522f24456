//! The store stops answering, or loses its data, while a command runs.

use std::time::{Duration, Instant};

use bandog_testkit::{Process, RedisServer, eventually, is_alive};

use crate::help::{Place, SOON, dead, ends};

/// A child that ignores signals, a descendant that left its group, and an orphan. Each writes its pid, and then
/// repeatedly `a` with its fence into the log.
const STUBBORN: &str = r#"
    work='echo $$ > $0; trap "echo notified >> notified" TERM; n=0; while [ $n -lt 4000 ]; do n=$((n + 1)); echo a $BANDOG_FENCE >> log; sleep 0.005; done'
    setsid sh -c "$work" left &
    (sh -c "$work" orphan &)
    exec sh -c "$work" child
"#;

fn child_pids(place: &Place) -> [u32; 3] {
    let pids = ["child", "left", "orphan"].map(|name| place.pid(name));
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    pids
}

// Promise: C1
#[test]
fn all_processes_are_dead_before_another_client_can_hold_the_lock() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let wire = redis.wire();
    let url = format!("{}?watchdog=3s", wire.url());
    let mut bandog = place.start(&Place::lock("x", &["--url", &url], STUBBORN));
    let pids = child_pids(&place);
    let mut next = place.start(&Place::lock("x", &["--url", &redis.url()], "echo b $BANDOG_FENCE >> log; sleep 0.3"));
    wire.stall(true);
    ends(&mut bandog, 76);
    dead(&pids);
    let said = bandog.stderr().join("\n");
    assert!(said.contains("could not be renewed") && said.contains("\"x\""), "{said}");
    assert!(place.path("notified").exists(), "KILL came without TERM");
    ends(&mut next, 0);
    let log = place.lines("log");
    let first = log.iter().position(|line| line.starts_with('b')).unwrap();
    assert!(first > 0 && log[first..].len() == 1, "{:?}", &log[first..]);
    let fence = |line: &str| line.split_once(' ').and_then(|(_, fence)| fence.parse::<u64>().ok()).unwrap();
    assert!(fence(&log[0]) < fence(&log[first]));
}

#[test]
fn a_paused_server_ends_the_command_in_time() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = format!("{}?watchdog=3s", redis.url());
    let script = "trap 'echo notified; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let mut bandog = place.start(&Place::lock("x", &["--url", &url, "--kill-after", "1s"], script));
    bandog.stdout_line("ready", SOON);
    let start = Instant::now();
    redis.pause();
    bandog.stdout_line("notified", SOON);
    ends(&mut bandog, 76);
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    redis.resume();
}

// Promise: C6
#[test]
fn a_short_outage_does_not_end_the_command() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let wire = redis.wire();
    let url = format!("{}?watchdog=6s&timeout=500ms", wire.url());
    let mut bandog = place.start(&Place::lock("x", &["--url", &url], "echo ready; read word; exit 0"));
    bandog.stdout_line("ready", SOON);
    wire.refuse(true);
    wire.cut();
    // A renewal is due and cannot be done.
    eventually(SOON, || redis.pttl("x") < 3500);
    wire.refuse(false);
    eventually(SOON, || redis.pttl("x") > 5000);
    bandog.close_stdin();
    ends(&mut bandog, 0);
}

#[test]
fn a_blocked_standard_error_delays_no_renewal() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let wire = redis.wire();
    // Standard error is a pipe that is full and that no process reads.
    let line = format!(
        "mkfifo full; exec 3<> full; dd if=/dev/zero of=full bs=4096 oflag=nonblock 2> dd
        exec {} lock x -vvv --url '{}?watchdog=6s&timeout=500ms' -- sh -c 'echo ready; read word; exit 5' 2>&3",
        env!("CARGO_BIN_EXE_bandog"),
        wire.url()
    );
    let mut bandog = Process::spawn(&place.command(&["setsid", "sh", "-c", &line]));
    bandog.stdout_line("ready", SOON);
    wire.refuse(true);
    wire.cut();
    // A renewal has failed, which the engine logs.
    eventually(SOON, || redis.pttl("x") < 3500);
    wire.refuse(false);
    eventually(SOON, || redis.pttl("x") > 5000);
    bandog.close_stdin();
    ends(&mut bandog, 5);
}

// Promise: C2
#[test]
fn a_server_that_came_back_empty_ends_the_command() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let mut bandog = place.start(&Place::lock("x", &["--url", &redis.url(), "--kill-after", "300ms"], STUBBORN));
    let pids = child_pids(&place);
    let start = Instant::now();
    redis.restart();
    ends(&mut bandog, 76);
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "the command did not end long before the ttl: {:?}",
        start.elapsed()
    );
    dead(&pids);
    reports(&bandog, "taken away");
    assert!(place.path("notified").exists(), "KILL came without TERM");
}

// Promise: C2
#[test]
fn a_lock_that_was_forced_ends_the_command() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = format!("{}?watchdog=4s", redis.url());
    let script = "trap 'sleep 0.3; echo notified; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let mut bandog = place.start(&Place::lock("x", &["--url", &url, "--kill-after", "2s"], script));
    bandog.stdout_line("ready", SOON);
    redis.cmd(&["DEL", "x"]);
    bandog.stdout_line("notified", SOON);
    ends(&mut bandog, 76);
    reports(&bandog, "taken away");
}

// Promise: C3
#[test]
fn a_lock_that_was_lost_unnoticed_is_reported_at_the_release() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let mut bandog = place.start(&Place::lock("x", &["--url", &redis.url()], "echo ready; read word; exit 3"));
    bandog.stdout_line("ready", SOON);
    redis.cmd(&["DEL", "x"]);
    bandog.close_stdin();
    ends(&mut bandog, 76);
    reports(&bandog, "exited with 3");
}

#[test]
fn a_command_that_ends_during_an_outage_keeps_its_code() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = format!("{}?timeout=300ms", redis.url());
    let mut bandog = place.start(&Place::lock("x", &["--url", &url], "echo ready; read word; exit 3"));
    bandog.stdout_line("ready", SOON);
    redis.pause();
    bandog.close_stdin();
    ends(&mut bandog, 3);
    reports(&bandog, "after its ttl");
    redis.resume();
}

#[test]
fn a_waiter_continues_when_the_server_comes_back() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let holder = place.start(&Place::lock("x", &["--url", &redis.url()], "echo in; exec sleep 1000"));
    holder.stdout_line("in", SOON);
    let mut waiter = place.start(&Place::lock("x", &["--url", &redis.url()], "exit 4"));
    eventually(SOON, || redis.cmd(&["PUBSUB", "CHANNELS", "*"]).texts().len() == 1);
    drop(holder);
    redis.restart();
    ends(&mut waiter, 4);
}

#[track_caller]
fn reports(bandog: &Process, words: &str) {
    let said = bandog.stderr().join("\n");
    assert!(said.contains("bandog: ") && said.contains(words) && said.contains("\"x\""), "{said}");
}

#[test]
fn a_server_that_cannot_grant_is_reported_within_the_timeout_of_the_first_answer() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
    let start = Instant::now();
    let mut bandog = place.start(&Place::lock("x", &["--url", &redis.url()], "true"));
    ends(&mut bandog, 69);
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    assert!(bandog.stderr().join("\n").contains("read only replica"), "{:?}", bandog.stderr());
}
