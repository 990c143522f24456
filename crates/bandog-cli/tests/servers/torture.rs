//! `bandog torture` over servers that work, fail, and lose data.

mod topologies;

use std::time::Duration;

use bandog_testkit::{Process, RedisServer, Reply, Signal, eventually};
use serde_json::Value;

use crate::help::{Place, Ran, SOON, ends};

/// The options of a short run with few workers, and JSON.
fn options<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["torture", "--url", url, "--prefix", "t:", "--json"], more].concat()
}

/// The report of a run that has printed JSON.
fn report(stdout: &str) -> Value {
    serde_json::from_str(stdout.trim()).unwrap_or_else(|error| panic!("{error}: {stdout:?}"))
}

/// Waits for the end of the command, and returns its report.
#[track_caller]
fn reported(torture: &mut Process, code: i32) -> Value {
    let status = torture.wait(Duration::from_secs(60));
    assert_eq!(status.code(), Some(code), "{:?} {:?}", torture.stdout(), torture.stderr());
    report(&torture.stdout().join("\n"))
}

/// Waits until a client holds the lock of this name. A server that has just started may still read its data.
#[track_caller]
fn held(redis: &RedisServer, name: &str) {
    eventually(SOON, || matches!(redis.cmd(&["PTTL", name]), Reply::Int(1..)));
}

/// Asserts that no key of the command is left, and that the other keys are unchanged. The registry of clients expires: a
/// client that is closed during a failover may leave its row there.
#[track_caller]
fn is_clean(redis: &RedisServer, others: &[&str]) {
    let keys: Vec<_> = redis.keys().into_iter().filter(|key| !key.starts_with("bandog:client")).collect();
    assert_eq!(keys, others);
}

/// Another program, which holds a name of the command.
fn in_use(place: &Place, url: &str) -> Process {
    let holder = place.start(&Place::lock("t:mutex-short-0", &["--url", url], "echo in; read word"));
    holder.stdout_line("in", SOON);
    holder
}

/// The sum of the numbers of errors.
fn errors(report: &Value) -> u64 {
    report["errors"].as_object().unwrap().values().filter_map(Value::as_u64).sum()
}

// Promise: C8
#[test]
fn a_healthy_server_loses_nothing_and_keeps_only_what_it_had() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.cmd(&["SET", "other", "17"]);
    let ran = place.run(&options(&redis.url(), &["--for", "2s", "--hold", "300ms"]));
    ran.assert_ended(0, &["16 workers take mutex, fair, read-write, semaphore locks", "\"t:\""]);
    let report = report(&ran.stdout);
    for field in ["losses_announced", "losses_not_announced", "repeated_fences", "hung_workers"] {
        assert_eq!(report[field], 0, "{field}: {report}");
    }
    assert!(report["grants"].as_u64() > Some(0), "{report}");
    let (gap, wait) = (report["longest_gap_ms"].as_u64().unwrap(), report["longest_wait_ms"].as_u64().unwrap());
    assert!((1..10_000).contains(&gap) && (1..10_000).contains(&wait), "{report}");
    assert!((2.0..10.0).contains(&report["seconds"].as_f64().unwrap()), "{report}");
    let expected = (&Value::Bool(false), &Value::Array(Vec::new()), &Value::Array(Vec::new()), 0);
    assert_eq!((&report["broken"], &report["left_behind"], &report["findings"], errors(&report)), expected);
    assert_eq!((&report["prefix"], &report["workers"]), (&"t:".into(), &16.into()));
    is_clean(&redis, &["other"]);
    assert_eq!(redis.cmd(&["GET", "other"]).text(), "17");
}

/// The server answers, and grants nothing.
#[test]
fn a_server_that_cannot_grant_anything_is_counted_soon() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let more = ["--for", "10m", "--hold", "300ms", "--kinds", "mutex", "--workers", "4"];
    let mut torture = place.start(&options(&redis.url(), &more));
    held(&redis, "t:mutex-long-0");
    redis.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let has_errors =
        |line: &String| line.split_once(" errors in this time").is_some_and(|(start, _)| !start.ends_with(" 0"));
    eventually(2 * SOON, || torture.stderr().iter().any(has_errors));
    redis.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    torture.int();
    let report = reported(&mut torture, 0);
    assert!(report["errors"]["unavailable"].as_u64() > Some(0), "{report}");
}

#[test]
fn the_report_in_words_says_that_nothing_was_broken() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let ran = place.run(&["torture", "--url", &redis.url(), "--for", "1s", "--hold", "100ms", "--kinds", "mutex,fair"]);
    ran.assert_ended(0, &["take mutex, fair locks", "their names begin with \"bandog-torture:"]);
    for line in
        ["grants  ", "losses reported  ", "losses not reported     0", "repeated fences  ", "nothing was broken"]
    {
        assert!(ran.stdout.contains(line), "{line}: {}", ran.stdout);
    }
    is_clean(&redis, &[]);
}

#[test]
fn a_server_that_is_killed_and_keeps_its_data_loses_nothing() {
    let (redis, place) = (RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]), Place::new());
    let mut torture = place.start(&options(&redis.url(), &["--for", "10m", "--hold", "4s"]));
    held(&redis, "t:mutex-long-0");
    redis.kill();
    torture.stderr_line("errors in this time", SOON);
    redis.restart();
    held(&redis, "t:mutex-short-0");
    torture.int();
    let report = reported(&mut torture, 0);
    assert_eq!((&report["losses_not_announced"], &report["repeated_fences"]), (&0.into(), &0.into()), "{report}");
    assert!(report["errors"]["unavailable"].as_u64() > Some(0), "{report}");
    // The server was away for most of the time between two lines about the progress.
    assert!(report["longest_gap_ms"].as_u64() > Some(500), "{report}");
    is_clean(&redis, &[]);
}

/// The lock disappears from the store. The waiter gets it, and the holder still believes that it holds it.
// Promise: C9
#[test]
fn a_lock_that_is_deleted_is_one_loss_that_was_not_reported() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let more = ["--for", "10m", "--hold", "10m", "--kinds", "mutex", "--workers", "4"];
    let mut torture = place.start(&options(&redis.url(), &more));
    held(&redis, "t:mutex-long-0");
    redis.cmd(&["DEL", "t:mutex-long-0"]);
    held(&redis, "t:mutex-long-0");
    // The store knows the grant before the worker does.
    torture.stderr_line("1 not reported", SOON);
    torture.int();
    let report = reported(&mut torture, 1);
    let counts =
        ["losses_announced", "losses_not_announced", "repeated_fences", "hung_workers"].map(|name| &report[name]);
    assert_eq!(counts, [&Value::from(0), &1.into(), &0.into(), &0.into()], "{report}");
    assert_eq!((&report["broken"], &report["findings"][0]["name"]), (&true.into(), &"t:mutex-long-0".into()));
    assert!(report["findings"][0]["says"].as_str().unwrap().contains("was not notified"), "{report}");
    assert!(report["longest_overlap_ms"].as_u64() > Some(0), "{report}");
    is_clean(&redis, &[]);
}

// Promise: C9
#[test]
fn a_server_that_loses_all_data_is_found_for_every_kind() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let more = ["--for", "10m", "--hold", "10m", "--workers", "24"];
    for (kind, keys) in [
        ("mutex", ["t:mutex-long-0"].as_slice()),
        ("fair", &["t:fair-long-0"]),
        ("read-write", &["t:read-write-long-0"]),
        ("semaphore", &["t:semaphore-long-0", "{t:semaphore-long-0}:timeout"]),
    ] {
        let mut torture = place.start(&options(&redis.url(), &[more.as_slice(), &["--kinds", kind]].concat()));
        keys.iter().for_each(|key| eventually(SOON, || redis.pttl(key) != -2));
        // After a single loss, readers would share the lock with the reader that has lost it.
        eventually(SOON, || {
            redis.cmd(&["FLUSHALL"]);
            torture.stderr().iter().any(|line| line.contains("not reported") && !line.contains(" 0 not reported"))
        });
        torture.int();
        let report = reported(&mut torture, 1);
        assert!(report["losses_not_announced"].as_u64() > Some(0), "{report}");
        assert_eq!((&report["repeated_fences"], &report["broken"]), (&0.into(), &true.into()), "{report}");
        is_clean(&redis, &[]);
    }
}

/// The fence counter and the lock are set back, as by a server that is restored from an old backup with a clock that is
/// behind.
// Promise: C9
#[test]
fn a_fence_that_repeats_is_found() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let more = ["--for", "10m", "--hold", "10m", "--kinds", "mutex", "--workers", "4"];
    let mut torture = place.start(&options(&redis.url(), &more));
    held(&redis, "t:mutex-short-0");
    // The next fences are far ahead, and then the counter is lost.
    redis.cmd(&["SET", "redisson_lock_token:{t:mutex-short-0}", "4000000000000000"]);
    eventually(SOON, || {
        redis.cmd(&["GET", "redisson_lock_token:{t:mutex-short-0}"]).text().parse::<u64>().unwrap()
            > 4_000_000_000_000_000
    });
    // The worker has its grant when another one follows.
    torture.stderr_line("errors in this time", SOON);
    redis.cmd(&["DEL", "redisson_lock_token:{t:mutex-short-0}"]);
    torture.stderr_line("errors in this time", SOON);
    torture.int();
    let report = reported(&mut torture, 1);
    assert!(report["repeated_fences"].as_u64() > Some(0), "{report}");
    assert_eq!((&report["losses_not_announced"], &report["broken"]), (&0.into(), &true.into()), "{report}");
}

/// A server that does not answer for longer than a ttl. Each holder knows of its loss before the server can grant the
/// lock again.
// Promise: C8
#[test]
fn signals_of_the_command_hurt_the_process_that_they_name() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let [stop, cont] = ["STOP@1s", "sigcont@4s"].map(|signal| format!("{}:{signal}", redis.pid()));
    let url = format!("{}?watchdog=1s&timeout=500ms", redis.url());
    let more = ["--for", "6s", "--hold", "10m", "--kill", &stop, "--kill", &cont];
    let ran = place.run(&options(&url, &more));
    ran.assert_ended(0, &["1s: sent STOP to process", "4s: sent CONT to process"]);
    let report = report(&ran.stdout);
    assert!(report["losses_announced"].as_u64() > Some(0), "{report}");
    assert_eq!((&report["losses_not_announced"], &report["repeated_fences"]), (&0.into(), &0.into()), "{report}");
    assert!(report["longest_gap_ms"].as_u64() > Some(2_000), "{report}");
    is_clean(&redis, &[]);
}

// Promise: C8
#[test]
fn a_server_that_is_away_at_the_end_keeps_names_that_are_printed() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let kill = format!("{}@1s", redis.pid());
    let url = format!("{}?watchdog=1s&timeout=500ms", redis.url());
    let ran = place.run(&options(&url, &["--for", "2s", "--kinds", "mutex", "--kill", &kill]));
    ran.assert_ended(69, &["sent KILL to process", &redis.port().to_string()]);
    let report = report(&ran.stdout);
    assert_eq!(report["left_behind"], serde_json::json!(["t:mutex-short-0", "t:mutex-long-0"]), "{report}");
    assert_eq!(report["broken"], false, "{report}");
}

#[test]
fn a_signal_ends_the_traffic_early_and_a_second_one_ends_the_command() {
    let (redis, place) = (RedisServer::start(), Place::new());
    for signal in [Signal::INT, Signal::TERM] {
        let mut torture = place.start(&options(&redis.url(), &["--for", "10m"]));
        held(&redis, "t:mutex-long-0");
        torture.signal(signal);
        let report = reported(&mut torture, 0);
        assert!(report["seconds"].as_f64() < Some(60.0), "{report}");
        is_clean(&redis, &[]);
    }
    let mut torture = place.start(&options(&redis.url(), &["--for", "10m"]));
    held(&redis, "t:mutex-long-0");
    redis.pause();
    torture.int();
    torture.stderr_line("a second signal ends the command at once", SOON);
    torture.term();
    ends(&mut torture, 143);
    torture.stderr_line("\"t:\" stay behind", SOON);
    redis.resume();
}

#[test]
fn a_signal_during_the_first_claims_ends_the_command_and_removes_their_names() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = redis.url();
    let _holder = in_use(&place, &url);
    let mut torture = place.start(&options(&url, &["--kinds", "fair,mutex", "--for", "10m"]));
    let has_fair = || redis.keys().iter().any(|key| key.contains("fair"));
    eventually(SOON, has_fair); // Now the command waits for the mutex.
    torture.int();
    ends(&mut torture, 130);
    assert!(torture.stdout().is_empty(), "{:?}", torture.stdout());
    assert!(!has_fair(), "the name of the fair mutex is removed");
    assert_eq!(redis.cmd(&["EXISTS", "t:mutex-short-0"]).int(), 1, "the lock of the other program stays held");
}

// Promise: C8
#[test]
fn a_kind_that_the_store_does_not_have_is_left_out_or_refused() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = format!("{}?layout=setnx", redis.url());
    let ran = place.run(&options(&url, &["--for", "1s", "--hold", "100ms"]));
    ran.assert_ended(0, &["fair locks are left out: ", "workers take mutex locks"]);
    assert_eq!(report(&ran.stdout)["kinds"], serde_json::json!(["mutex"]));
    is_clean(&redis, &[]);
    place.run(&options(&url, &["--kinds", "mutex,fair"])).assert_ended(64, &["fair"]);
    // The mutex was taken before the fair mutex was refused.
    is_clean(&redis, &[]);
}

// Promise: C8
#[test]
fn a_prefix_that_is_in_use_is_refused() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = redis.url();
    let _holder = in_use(&place, &url);
    place.run(&options(&url, &[])).assert_ended(75, &["\"t:mutex-short-0\"", "--prefix"]);
    place.run(&options(&url, &["--kinds", "fair,mutex"])).assert_ended(75, &["\"t:mutex-short-0\"", "--prefix"]);
    assert!(!redis.keys().iter().any(|key| key.contains("fair")), "the name of the fair mutex is removed");
    assert_eq!(redis.cmd(&["EXISTS", "t:mutex-short-0"]).int(), 1, "the lock of the other program stays held");
}

#[test]
fn two_runs_with_one_prefix_are_refused() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let mut first = place.start(&options(&redis.url(), &["--for", "10m", "--hold", "10m", "--kinds", "mutex"]));
    held(&redis, "t:mutex-long-0");
    place.run(&options(&redis.url(), &["--kinds", "mutex"])).assert_ended(75, &["\"t:mutex-", "--prefix"]);
    first.int();
    assert_eq!(reported(&mut first, 0)["broken"], false);
    is_clean(&redis, &[]);
}

/// A fault makes waits endless. They are the longest ones.
#[test]
fn a_wait_that_has_not_ended_counts_as_the_longest_wait() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = format!("{}?watchdog=1s&timeout=500ms", redis.url());
    let stop = format!("{}:STOP@500ms", redis.pid());
    let more = ["--for", "3500ms", "--kinds", "mutex", "--kill", &stop];
    let mut torture = place.start(&options(&url, &more));
    torture.stderr_line("the traffic has ended", SOON);
    redis.resume();
    let report = reported(&mut torture, 0);
    assert!(report["longest_wait_ms"].as_u64() > Some(2_000), "{report}");
}

#[test]
fn wrong_arguments_and_stores_are_reported_before_the_traffic() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = redis.url();
    let cases: [(&[&str], &str); 9] = [
        (&["--prefix", ""], "--prefix is empty"),
        (&["--kinds", "latch"], "possible values"),
        (&["--workers", "1"], "4..=256"),
        (&["--for", "0s"], "between 100ms"),
        (&["--kill", "redis@1s"], "is no process id"),
        (&["--kill", "4711"], "write it like 4711@20s"),
        (&["--kill", "2147483647@1s"], "does not exist"),
        (&["--for", "1s", "--kill", "2@5s"], "is not before the end of --for"),
        (&["--prefix", "a\nb"], "control"),
    ];
    for (more, part) in cases {
        place.run(&[&["torture", "--url", &url], more].concat()).assert_ended(64, &[part]);
    }
    place.run(&["torture", "--url", "mongo://localhost"]).assert_ended(64, &["mongo"]);
    redis.kill();
    let ran: Ran = place.run(&["torture", "--url", &url]);
    ran.assert_ended(69, &["bandog: ", &redis.port().to_string(), "--url"]);
    assert_eq!(ran.stdout, "");
}
