//! The kinds of locks.

use std::{fs, thread};

use bandog_testkit::{Signal, eventually};
use serde_json::Value;

use crate::help::{Place, SOON, dead, ends};

const BANDOG: &str = env!("CARGO_BIN_EXE_bandog");

/// A script that holds its lock until its standard input ends.
const HOLD: &str = "echo $BANDOG_FENCE; read word; exit 0";

/// Runs a script under the lock `x` with these options, and in it `bandog lock x INNER`.
fn nested(place: &Place, outer: &[&str], inner: &str) -> crate::help::Ran {
    place.run(&Place::lock("x", outer, &format!("{BANDOG} lock x {inner} -- echo ran; exit $?")))
}

#[test]
fn wrong_options_are_refused_before_the_lock_is_taken() {
    let place = Place::new();
    for (options, word) in [
        (&["--fair", "--shared"][..], "cannot be used with"),
        (&["--shared", "--exclusive"], "cannot be used with"),
        (&["--fair", "--permits", "1", "--of", "2"], "cannot be used with"),
        (&["--permits", "1"], "--of <N>"),
        (&["--of", "3"], "--permits <K>"),
        (&["--shared", "--of", "3"], "cannot be used with"),
        (&["--permits", "0", "--of", "3"], "--permits <K>"),
        (&["--permits", "4", "--of", "3"], "--permits 4 is greater than --of 3"),
    ] {
        place.run(&Place::lock("x", options, "exit 0")).assert_ended(64, &["bandog: ", word]);
    }
    assert!(!place.path("state").exists(), "a wrong command line created a store");
}

#[test]
fn readers_run_together_and_exclude_a_writer() {
    let place = Place::new();
    let [mut ann, mut ben] = [(); 2].map(|()| place.start(&Place::lock("x", &["--shared"], HOLD)));
    let fences = [&ann, &ben].map(|reader| reader.stdout_line("", SOON));
    assert_ne!(fences[0], fences[1]);
    let writer = &["--exclusive", "--wait", "0s"];
    place.run(&Place::lock("x", writer, "exit 0")).assert_ended(75, &["another client holds \"x\""]);
    let row = place.show("x", &[]);
    assert_eq!((&row["kind"], row["holders"].as_array().unwrap().len()), (&"read-write".into(), 2), "{row}");
    for holder in row["holders"].as_array().unwrap() {
        let fence = holder["fence"].as_u64().unwrap().to_string();
        assert!(fences.contains(&fence), "{fence} is not one of {fences:?}");
        assert!(holder["mode"] == "read" && holder["ttl_ms"].as_u64().unwrap() > 0, "{row}");
    }
    let text = place.run(&["show", "x"]).stdout;
    assert!(text.contains("read-write") && text.contains("holders:") && text.contains(", as a reader"), "{text}");
    for reader in [&mut ann, &mut ben] {
        reader.close_stdin();
        ends(reader, 0);
    }
    let mut writer = place.start(&Place::lock("x", &["--exclusive"], HOLD));
    writer.stdout_line("", SOON);
    let reader = &["--shared", "--wait", "0s"];
    place.run(&Place::lock("x", reader, "exit 0")).assert_ended(75, &["a writer holds \"x\""]);
    assert_eq!(place.show("x", &[])["holders"][0]["mode"], "write");
    writer.close_stdin();
    ends(&mut writer, 0);
}

#[test]
fn a_semaphore_grants_its_permits_and_no_more() {
    let place = Place::new();
    let take = |permits| ["--permits", permits, "--of", "5", "--wait", "0s"];
    let [two, three] = ["2", "3"].map(|permits| {
        let holder = place.start(&Place::lock("gpu", &take(permits)[..4], HOLD));
        holder.stdout_line("", SOON);
        holder
    });
    place
        .run(&Place::lock("gpu", &take("1"), "exit 0"))
        .assert_ended(75, &["\"gpu\"", "fewer than 1 of the 5 permits"]);
    let row = place.show("gpu", &[]);
    assert_eq!((&row["kind"], &row["limit"]), (&"semaphore".into(), &5.into()));
    let mut permits: Vec<_> = row["holders"].as_array().unwrap().iter().map(|holder| &holder["permits"]).collect();
    permits.sort_by_key(|number| number.as_u64());
    assert_eq!(permits, [&Value::from(2), &Value::from(3)]);
    let text = place.run(&["ls"]).stdout;
    assert!(text.contains("semaphore, 5 of 5") && text.contains(" of 5 permits"), "{text}");
    drop(three);
    drop(two);
}

#[test]
fn another_limit_than_the_stores_is_an_error_with_both_numbers() {
    let place = Place::new();
    place.run(&Place::lock("gpu", &["--permits", "1", "--of", "5"], "exit 0")).assert_ended(0, &[]);
    let other = place.run(&Place::lock("gpu", &["--permits", "1", "--of", "7"], "exit 0"));
    other.assert_ended(64, &["has 5 permits", "has 7", "bandog limit NAME N"]);
}

#[test]
fn limit_changes_the_number_of_permits() {
    let place = Place::new();
    place.run(&["limit", "gpu", "7"]).assert_ended(69, &["was never used"]);
    let mut holder = place.start(&Place::lock("gpu", &["--permits", "3", "--of", "5"], HOLD));
    holder.stdout_line("", SOON);
    place.run(&["limit", "gpu", "7"]).assert_ended(0, &["\"gpu\"", "has 7 permits now (before: 5)"]);
    assert_eq!(place.show("gpu", &[])["limit"], 7, "the limit of a held semaphore is the present one");
    let of = |number| place.run(&Place::lock("gpu", &["--permits", "1", "--of", number], "exit 0"));
    of("7").assert_ended(0, &[]);
    of("5").assert_ended(0, &[]);
    of("6").assert_ended(64, &["has 7 permits", "has 6"]);
    let json = place.run(&["limit", "gpu", "2", "--json"]).stdout;
    assert!(json.contains(r#""limit":2,"before":7"#), "{json}");
    place.run(&["limit", "typo", "2"]).assert_ended(0, &["the semaphore is new"]);
    place.run(&["limit", "gpu", "-1"]).assert_ended(64, &["invalid value '-1'"]);
    holder.close_stdin();
    ends(&mut holder, 0);
    let busy = place.start(&Place::lock("x", &[], HOLD));
    busy.stdout_line("", SOON);
    place.run(&["limit", "x", "3"]).assert_ended(77, &["mutex"]);
}

/// A number below 0 is a wrong number, and no word that needs `--` before it.
#[test]
fn a_negative_number_of_permits_is_a_wrong_number() {
    let place = Place::new();
    for options in [["--permits", "-1", "--of", "2"], ["--permits", "1", "--of", "-2"]] {
        let ran = place.run(&Place::lock("gpu", &options, "exit 0"));
        ran.assert_ended(64, &["invalid value '-"]);
        assert!(!ran.stderr.contains("tip"), "{ran:?}");
    }
}

/// The time limit of a wait also holds if the store does not answer.
#[test]
fn a_wait_for_a_latch_ends_at_its_limit_without_a_store() {
    let place = Place::new();
    let url = "redis://127.0.0.1:1";
    let ran = place.run(&["latch", "parts", "wait", "--timeout", "300ms", "--url", url]);
    ran.assert_ended(69, &["did not answer within 300ms", url]);
}

#[test]
fn a_name_of_another_kind_is_refused() {
    let place = Place::new();
    let holder = place.start(&Place::lock("x", &[], HOLD));
    holder.stdout_line("", SOON);
    place.run(&Place::lock("x", &["--shared"], "exit 0")).assert_ended(77, &["a mutex", "a read-write lock"]);
}

#[test]
fn waiters_of_a_fair_mutex_are_served_in_their_order() {
    let place = Place::new();
    let mut holder = place.start(&Place::lock("x", &["--fair"], HOLD));
    holder.stdout_line("", SOON);
    let mut waiters = Vec::new();
    for number in 1..=3 {
        let script = format!("echo {number} >> order");
        waiters.push(place.start(&Place::lock("x", &["--fair"], &script)));
        eventually(SOON, || place.show("x", &[])["waiters"].as_array().unwrap().len() == number);
    }
    // The clients register a moment after they got their places.
    let row = eventually(SOON, || {
        let row = place.show("x", &[]);
        let hosts = row["waiters"].as_array().unwrap().iter().filter(|waiter| waiter["host"].is_string()).count();
        if hosts == 3 { Ok(row) } else { Err(row) }
    });
    let pids: Vec<_> =
        row["waiters"].as_array().unwrap().iter().map(|waiter| waiter["pid"].as_u64().unwrap()).collect();
    assert_eq!(pids, waiters.iter().map(|waiter| u64::from(waiter.pid())).collect::<Vec<_>>(), "{row}");
    assert_eq!(row["kind"], "fair");
    let text = place.run(&["show", "x"]).stdout;
    assert!(text.contains("fair") && text.contains("waiting:\n"), "{text}");
    let before = format!("before it in the queue is bandog lock -- sh (process {} on ", waiters[1].pid());
    assert!(text.contains("holds the lock; before it") && text.contains(&before), "{text}");
    let last = &row["waiters"][2];
    assert!(last["ahead"] == 2 && last["reason"].as_str().unwrap().contains(&before), "{last}");
    assert!(last["reason"].as_str().unwrap().ends_with(", after 1 other"), "{last}");
    place.run(&Place::lock("x", &["--fair", "--wait", "0s"], "exit 0")).assert_ended(75, &["another client"]);
    holder.close_stdin();
    ends(&mut holder, 0);
    for waiter in &mut waiters {
        ends(waiter, 0);
    }
    assert_eq!(place.lines("order"), ["1", "2", "3"]);
}

#[test]
fn release_frees_a_lock_of_any_kind_and_its_commands_are_terminated() {
    let place = Place::new();
    let url = format!("sqlite:{}?watchdog=3s", place.path("a.db").display());
    let kinds = [&["--fair"][..], &["--shared"], &["--exclusive"], &["--permits", "2", "--of", "5"]];
    for (name, kind) in ["a", "b", "c", "d"].into_iter().zip(kinds) {
        let store = ["--url", &url];
        let mut holder = place.start(&Place::lock(name, &[kind, &store].concat(), "echo in; exec sleep 1000"));
        holder.stdout_line("in", SOON);
        let ran = place.run(&[&["release", name, "--force", "--json"][..], &store].concat());
        assert!(ran.code == 0 && ran.stdout.contains("\"freed\":true"), "{ran:?}");
        ends(&mut holder, 76);
        assert_eq!(place.show(name, &store)["held"], false);
    }
}

#[test]
fn a_command_is_killed_before_its_permits_or_its_read_lock_expire() {
    let place = Place::new();
    for (name, kind) in [("a", &["--shared"][..]), ("b", &["--permits", "1", "--of", "1"])] {
        let script = format!("trap '' TERM; echo $$ > {name}.pid; while :; do sleep 0.05; done");
        let lease = [kind, &["--lease", "1s"]].concat();
        let mut holder = place.start(&Place::lock(name, &lease, &script));
        let pid = place.pid(&format!("{name}.pid"));
        ends(&mut holder, 76);
        dead(&[pid]);
        assert!(holder.stderr().iter().any(|line| line.contains("was about to expire")), "{:?}", holder.stderr());
    }
}

#[test]
fn a_waiter_of_any_kind_leaves_at_a_signal() {
    let place = Place::new();
    for (name, kind) in [("a", &["--fair"][..]), ("b", &["--exclusive"]), ("c", &["--permits", "3", "--of", "3"])] {
        let mut holder = place.start(&Place::lock(name, kind, HOLD));
        holder.stdout_line("", SOON);
        let mut waiter = place.start(&Place::lock(name, &[kind, &["-v"]].concat(), "exit 0"));
        waiter.stderr_line("waiting for", SOON);
        waiter.signal(Signal::TERM);
        ends(&mut waiter, 143);
        eventually(SOON, || place.show(name, &[])["waiters"].as_array().unwrap().is_empty());
        holder.close_stdin();
        ends(&mut holder, 0);
    }
}

#[test]
fn a_nested_lock_that_would_wait_for_itself_is_refused() {
    let place = Place::new();
    for (outer, inner) in [
        (&["--exclusive"][..], "--shared"),
        (&["--exclusive"], "--exclusive"),
        (&["--shared"], "--exclusive"),
        (&["--fair"], ""),
        (&[], "--fair"),
        (&["--permits", "3", "--of", "5"], "--permits 3 --of 5"),
    ] {
        nested(&place, outer, inner).assert_ended(64, &["wait for itself"]);
    }
}

/// The holder is found in the store, because the outer command spells the name with a prefix.
#[test]
fn a_nested_reader_is_found_if_the_name_is_written_differently() {
    let place = Place::new();
    let script = |inner: &str| format!("{BANDOG} lock b --url sqlite:x.db?prefix=a: {inner} -- echo ran; exit $?");
    let outer = ["--shared", "--url", "sqlite:x.db"];
    place.run(&Place::lock("a:b", &outer, &script("--exclusive"))).assert_ended(64, &["wait for itself"]);
    place.run(&Place::lock("a:b", &outer, &script("--shared"))).assert_ended(0, &[]);
}

#[test]
fn a_nested_lock_that_does_not_wait_is_taken() {
    let place = Place::new();
    for (outer, inner) in [(&["--shared"][..], "--shared"), (&["--permits", "3", "--of", "5"], "--permits 2 --of 5")] {
        let ran = nested(&place, outer, inner);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "ran\n"), "{ran:?}");
        // The name is free again, so the next kind can use it.
        fs::remove_dir_all(place.path("state")).unwrap();
    }
    nested(&place, &["--shared"], "--permits 1 --of 2").assert_ended(77, &["a read-write lock", "a semaphore"]);
}

#[test]
fn permits_are_never_more_than_the_limit() {
    let place = Place::new();
    let turn = "echo + >> log; sleep 0.02; echo - >> log";
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                for _ in 0..3 {
                    place.run(&Place::lock("x", &["--permits", "1", "--of", "2"], turn)).assert_ended(0, &[]);
                }
            });
        }
    });
    let mut within = 0;
    for line in place.lines("log") {
        within += if line == "+" { 1 } else { -1 };
        assert!((0..=2).contains(&within), "{within} commands ran at the same time");
    }
    assert_eq!(place.lines("log").len(), 30);
}
