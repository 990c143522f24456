//! `bandog acquire`, `extend` and `release --token`, without a server.

use std::{fs::File, process::Stdio};

use bandog_testkit::{Signal, eventually};
use serde_json::Value;

use crate::{
    help::{Place, SOON, ends},
    token,
};

// Promise: L30
#[test]
fn a_lock_is_acquired_in_one_process_and_released_in_another() {
    let place = Place::new();
    token::is_passed_on(&place, &[]);
}

/// The fence is in the token, and greater for each later holder.
#[test]
fn a_token_has_the_fence_and_json_has_all() {
    let place = Place::new();
    let first = token::acquire(&place, "x", &[]);
    let fence = |token: &str| token.rsplit('@').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(place.show("x", &[])["fence"], fence(&first));
    place.run(&["release", "x", "--token", &first]).assert_ended(0, &[]);
    let ran = place.run(&["acquire", "x", "--lease", "1h", "--json"]);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    let second = json["token"].as_str().unwrap();
    assert_eq!((&json["name"], &json["kind"], &json["lease_ms"]), (&"x".into(), &"mutex".into(), &3_600_000.into()));
    assert!(json["fence"] == fence(second) && fence(second) > fence(&first), "{json}");
    assert!(json["store"].as_str().unwrap().ends_with("locks.db"));
    let released = place.run(&["release", "x", "--token", second, "--json"]);
    assert!(released.code == 0 && released.stdout.contains("\"freed\":true,\"name\":\"x\""), "{released:?}");
    let late = place.run(&["release", "x", "--token", second, "--json"]);
    assert!(late.stdout.contains("\"freed\":false"), "{late:?}");
    late.assert_ended(75, &["this token does not hold \"x\""]);
}

#[test]
fn a_busy_lock_is_not_acquired_and_a_waiter_leaves_at_a_signal() {
    let place = Place::new();
    let held = token::acquire(&place, "x", &["--shared"]);
    let busy = place.run(&["acquire", "x", "--lease", "1h", "--wait", "0s", "--exclusive"]);
    busy.assert_ended(75, &["another client holds \"x\"", "bandog show"]);
    assert_eq!(busy.stdout, "");
    place.run(&["lock", "x", "--exclusive", "--wait", "0s", "--", "true"]).assert_ended(75, &[]);
    let mut waiter = place.start(&["acquire", "x", "--lease", "1h", "--exclusive", "-v"]);
    waiter.stderr_line("waiting for \"x\"", SOON);
    waiter.signal(Signal::TERM);
    ends(&mut waiter, 143);
    eventually(SOON, || place.show("x", &[])["waiters"].as_array().unwrap().is_empty());
    place.run(&["release", "x", "--token", &held]).assert_ended(0, &[]);
    assert_eq!(place.show("x", &[])["held"], false);
}

#[test]
fn a_lease_ends_by_itself() {
    let place = Place::new();
    let token = token::acquire(&place, "x", &["--lease", "300ms"]);
    place.run(&["lock", "x", "--wait", "20s", "--", "true"]).assert_ended(0, &[]);
    place.run(&["extend", "x", "--token", &token, "--lease", "1h"]).assert_ended(75, &["does not hold \"x\""]);
    assert_eq!(place.show("x", &[])["held"], false);
}

/// Nothing could release a lock whose token was not printed.
#[test]
fn a_token_that_cannot_be_printed_releases_the_lock() {
    let place = Place::new();
    for json in [&[][..], &["--json"]] {
        let mut command = place.bandog(&[&["acquire", "x", "--lease", "1h"], json].concat());
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = command.stdout(Stdio::from(full)).output().unwrap();
        let message = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.code() == Some(71) && message.contains("cannot print the token"), "{message}");
        assert!(message.contains("the lock is released"), "{message}");
        assert_eq!(place.show("x", &[])["held"], false);
    }
}

#[test]
fn wrong_uses_are_refused_before_any_change() {
    let place = Place::new();
    for (args, words) in [
        (&["acquire", "x"][..], "--lease <DUR>"),
        (&["acquire", "x", "--lease", "1ms"], "between 100ms and 365d"),
        (&["acquire", "", "--lease", "1h"], "1 to 1024 bytes"),
        (&["acquire", "x", "--lease", "1h", "--url", "memory:"], "exists in one process only"),
        (
            &["acquire", "x", "--lease", "1h", "--url", "zookeeper://127.0.0.1:1/x"],
            "only while its client is connected",
        ),
        (
            &["acquire", "x", "--lease", "1h", "--url", "redis+quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"],
            "use `bandog lock`",
        ),
        (&["acquire", "x", "--lease", "1h", "--url", "postgres://u@h/d?mode=advisory"], "use `bandog lock`"),
        (&["release", "x", "--token", "abc"], "is not the token of a lock"),
        (&["release", "x", "--token", "mutex@0198b3a2-6f0c-8a44-9d5e-0123456789ab:7.4b5555c2@43"], "was changed"),
        (&["release", "x"], "--token releases what `bandog acquire` has taken"),
        (&["extend", "x", "--lease", "1h"], "--token <TOKEN>"),
    ] {
        place.run(args).assert_ended(64, &[words]);
    }
    let token = "mutex@0198b3a2-6f0c-8a44-9d5e-0123456789ab:7.4b5555c2@42";
    place.run(&["release", "x", "--token", token, "--force"]).assert_ended(64, &["cannot be used with"]);
    assert!(!place.path("state").exists(), "a wrong command line created a store");
    // The default store does not exist yet.
    place.run(&["release", "x", "--token", token]).assert_ended(75, &["does not hold"]);
    place.run(&["extend", "x", "--token", token, "--lease", "1h"]).assert_ended(75, &["does not hold"]);
    assert!(!place.path("state").exists());
}

/// Without a standard output, the token would be lost, and nothing could release the lock.
#[test]
fn a_closed_standard_output_is_refused_before_the_lock_is_taken() {
    let place = Place::new();
    let command = format!("{} acquire x --lease 1h >&-", env!("CARGO_BIN_EXE_bandog"));
    place.run(&Place::lock("outer", &[], &command)).assert_ended(64, &["standard output is closed"]);
    place.run(&["acquire", "x", "--lease", "1h", "--wait", "0s"]).assert_ended(0, &[]);
    let command = format!("{} acquire y --lease 1h > /dev/null", env!("CARGO_BIN_EXE_bandog"));
    place.run(&Place::lock("outer", &[], &command)).assert_ended(0, &[]);
}

/// A command under a lock would wait for itself.
#[test]
fn a_lock_of_an_ancestor_is_not_acquired() {
    let place = Place::new();
    let inner = format!("{} acquire x --lease 1h; exit $?", env!("CARGO_BIN_EXE_bandog"));
    place.run(&Place::lock("x", &[], &inner)).assert_ended(64, &["wait for itself"]);
}
