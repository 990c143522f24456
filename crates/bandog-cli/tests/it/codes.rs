use std::{fs, os::unix::fs::PermissionsExt, thread, time::Instant};

use bandog_testkit::eventually;

use crate::help::{Place, Ran, SOON, ends};

#[test]
fn bandog_exits_with_the_childs_code() {
    let place = Place::new();
    for code in [0, 1, 7, 75, 255] {
        let ran = place.run(&Place::lock("x", &[], &format!("exit {code}")));
        assert_eq!((ran.code, ran.stderr.as_str()), (code, ""));
    }
}

#[test]
fn a_signal_that_ends_the_child_has_the_exit_code_of_a_shell() {
    let place = Place::new();
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        assert_eq!(place.run(&Place::lock("x", &[], &format!("kill -{signal} $$"))).code, code);
    }
}

#[test]
fn a_command_that_cannot_be_run_has_the_exit_code_of_a_shell() {
    let place = Place::new();
    place.run(&["lock", "x", "--", "no-such-program"]).assert_ended(127, &["bandog: ", "no-such-program"]);
    place.run(&["lock", "x", "--", "./no-such-file"]).assert_ended(127, &["no-such-file"]);
    place.run(&["lock", "x", "--", ""]).assert_ended(127, &["cannot run \"\": No such file"]);
    place.run(&["lock", "x", "--", "/"]).assert_ended(126, &["bandog: ", "Permission denied"]);
    let plain = place.path("plain");
    fs::write(&plain, "exit 9").unwrap();
    place.run(&["lock", "x", "--", "./plain"]).assert_ended(126, &["./plain"]);
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(place.run(&["lock", "x", "--", "./plain"]).code, 9, "sh does not run a script without a `#!` line");
    assert_eq!(place.show("x", &[])["held"], false);
}

#[test]
fn an_error_of_the_operating_system_is_reported() {
    let place = Place::new();
    for files in [4, 8, 10, 16] {
        for rest in ["lock x -- true", "show x", "ls"] {
            let line = format!("ulimit -n {files}; exec {} {rest}", env!("CARGO_BIN_EXE_bandog"));
            Ran::from(place.command(&["sh", "-c", &line])).assert_ended(71, &["bandog: "]);
        }
    }
}

#[test]
fn a_single_try_reports_busy_immediately() {
    let place = Place::new();
    let holder = place.start(&Place::lock("x", &[], "echo in; read word"));
    holder.stdout_line("in", SOON);
    let start = Instant::now();
    place
        .run(&["lock", "x", "--wait", "0s", "--", "true"])
        .assert_ended(75, &["bandog: ", "\"x\"", "locks.db", "`bandog show`"]);
    assert!(start.elapsed().as_secs() < 1);
    place.run(&["lock", "y", "--wait", "0s", "--", "true"]).assert_ended(0, &[]);
}

#[test]
fn a_wait_reports_busy_when_the_time_is_over() {
    let place = Place::new();
    let mut holder = place.start(&Place::lock("x", &[], "echo in; read word"));
    holder.stdout_line("in", SOON);
    let start = Instant::now();
    place.run(&["lock", "x", "--wait", "300ms", "--", "true"]).assert_ended(75, &["\"x\""]);
    assert!(start.elapsed().as_millis() >= 300);
    let waiting = thread::scope(|scope| {
        let waiting = scope.spawn(|| place.run(&["lock", "x", "--wait", "20s", "--", "true"]));
        holder.close_stdin();
        waiting.join().unwrap()
    });
    assert_eq!(waiting.code, 0);
    ends(&mut holder, 1);
}

#[test]
fn a_lock_is_free_when_its_command_has_ended() {
    let place = Place::new();
    place.run(&["lock", "x", "--", "true"]).assert_ended(0, &[]);
    let row = place.show("x", &[]);
    assert_eq!((&row["held"], row["owner"].is_null()), (&false.into(), true));
}

#[test]
fn contenders_take_turns_and_lose_nothing() {
    let place = Place::new();
    fs::write(place.path("counter"), "0\n").unwrap();
    let turn = "n=$(cat counter); sleep 0.01; echo $((n + 1)) > counter; echo $BANDOG_FENCE >> fences";
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5).for_each(|_| place.run(&Place::lock("x", &[], turn)).assert_ended(0, &[])));
        }
    });
    assert_eq!(place.written("counter"), "20");
    let fences: Vec<u64> = place.lines("fences").iter().map(|line| line.parse().unwrap()).collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[test]
fn a_waiter_gets_the_lock_of_a_holder_that_was_killed() {
    let place = Place::new();
    let url = format!("sqlite:{}?watchdog=1s", place.path("a.db").display());
    let holder = place.start(&Place::lock("x", &["--url", &url], "echo in; exec sleep 1000"));
    holder.stdout_line("in", SOON);
    let mut waiter = place.start(&Place::lock("x", &["--url", &url], "echo in"));
    eventually(SOON, || place.show("x", &["--url", &url])["held"] == true);
    let start = Instant::now();
    holder.kill();
    ends(&mut waiter, 0);
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

/// A script can distinguish the codes of bandog from those of the command.
// Promise: C3
#[test]
fn the_codes_of_a_busy_and_of_a_lost_lock_can_be_chosen() {
    let place = Place::new();
    let url = format!("sqlite:{}?watchdog=3s", place.path("a.db").display());
    let store = ["--url", url.as_str()];
    let mut holder = place.start(&Place::lock(
        "x",
        &[&store[..], &["-E", "3", "--lost-exit", "4"]].concat(),
        "echo in; exec sleep 1000",
    ));
    holder.stdout_line("in", SOON);
    for (option, code) in [("-E", 3), ("--busy-exit", 0), ("--conflict-exit-code", 255)] {
        let number = code.to_string();
        let options = [&store[..], &["--wait", "0s", option, &number]].concat();
        place.run(&Place::lock("x", &options, "exit 0")).assert_ended(code, &["another client holds \"x\""]);
    }
    place.run(&[&["release", "x", "--force"][..], &store].concat()).assert_ended(0, &[]);
    ends(&mut holder, 4);
    for code in [75, 76, 3] {
        let ran = place.run(&Place::lock("x", &["-E", "1", "--lost-exit", "2"], &format!("exit {code}")));
        assert_eq!((ran.code, ran.stderr.as_str()), (code, ""), "the code of the command stays");
    }
    for (option, wrong, reason) in [
        ("-E", "256", "'--busy-exit <CODE>': 256 is not in 0..=255"),
        ("-E", "-1", "-1 is not in 0..=255"),
        ("-E", "busy", "invalid digit"),
        ("--lost-exit", "256", "'--lost-exit <CODE>': 256 is not in 0..=255"),
    ] {
        place.run(&Place::lock("x", &[option, wrong], "exit 0")).assert_ended(64, &[reason]);
    }
}
