//! Locks under locks.

use std::os::unix::fs::symlink;

use crate::help::{Place, Ran, SOON, ends};

const BANDOG: &str = env!("CARGO_BIN_EXE_bandog");

/// Runs a script under the lock `a` of the default store.
fn under_a(place: &Place, script: &str) -> Ran {
    place.run(&Place::lock("a", &[], script))
}

#[test]
fn a_lock_that_would_wait_for_itself_is_refused() {
    let place = Place::new();
    place
        .run(&["lock", "a", "--", BANDOG, "lock", "a", "--", "true"])
        .assert_ended(64, &["bandog: \"a\" in sqlite:", "wait for itself", "--wait"]);
    under_a(&place, &format!("{BANDOG} lock a -- true; exit $?")).assert_ended(64, &["wait for itself"]);
    let deep = format!("{BANDOG} lock b -- sh -c '{BANDOG} lock c -- {BANDOG} lock a -- true; exit $?'; exit $?");
    under_a(&place, &deep).assert_ended(64, &["\"a\""]);
}

#[test]
fn a_wait_of_limited_time_reports_busy() {
    let place = Place::new();
    under_a(&place, &format!("{BANDOG} lock a --wait 100ms -- true; exit $?")).assert_ended(75, &["\"a\""]);
}

#[test]
fn a_store_is_the_same_if_the_path_of_its_file_is_written_differently() {
    let place = Place::new();
    symlink(".", place.path("link")).unwrap();
    let script = format!(
        "cd link; {BANDOG} lock a --url sqlite://{}?timeout=2s -- true; exit $?",
        place.path("link/x.db").display()
    );
    place.run(&Place::lock("a", &["--url", "sqlite:x.db"], &script)).assert_ended(64, &["wait for itself"]);
}

/// The command lines differ, but the holder is the same.
#[test]
fn a_lock_is_the_same_if_name_and_prefix_are_written_differently() {
    let place = Place::new();
    for (outer, inner) in [("x.db?prefix=a:", "a:b --url sqlite:x.db"), ("x.db", "b --url sqlite:x.db?prefix=a%3A")] {
        let name = if outer.ends_with(':') { "b" } else { "a:b" };
        let script = format!("{BANDOG} lock {inner} -- true; exit $?");
        place
            .run(&Place::lock(name, &["--url", &format!("sqlite:{outer}")], &script))
            .assert_ended(64, &["wait for itself"]);
    }
}

#[test]
fn another_name_store_or_prefix_is_another_lock() {
    let place = Place::new();
    for inner in ["b", "a --url sqlite:other.db", "a --url sqlite:state/bandog/locks.db?prefix=b:"] {
        under_a(&place, &format!("{BANDOG} lock {inner} -- echo ran; exit $?")).assert_ended(0, &[]);
    }
    under_a(&place, &format!("BANDOG_HELD=nonsense {BANDOG} lock b -- true")).assert_ended(0, &[]);
}

#[test]
fn a_process_that_outlives_the_command_may_take_the_lock_again() {
    let place = Place::new();
    let later = format!("while [ -e /proc/$0 ]; do sleep 0.01; done; exec {BANDOG} lock a -- sh -c 'echo ran > later'");
    let ran = under_a(&place, &format!("sh -c \"{later}\" $$ > /dev/null 2>&1 &"));
    ran.assert_ended(0, &[]);
    assert_eq!(place.written("later"), "ran");
}

#[test]
fn a_background_process_may_wait_for_the_command() {
    let place = Place::new();
    // When its parent has ended, the waiter is not a descendant of the command that holds the lock.
    let later =
        format!("while [ -e /proc/$$ ]; do sleep 0.01; done; exec {BANDOG} lock a -v -- sh -c \"echo ran > later\"");
    let script = format!("sh -c '({later}) &'; echo in; read word; exit 0");
    let mut holder = place.start(&Place::lock("a", &[], &script));
    holder.stdout_line("in", SOON);
    holder.stderr_line("waiting for \"a\"", SOON);
    holder.close_stdin();
    ends(&mut holder, 0);
    assert_eq!(place.written("later"), "ran");
}

/// A wait with --wait, and a hold with --lease, end by themselves.
#[test]
fn commands_that_end_by_themselves_are_no_deadlock() {
    let place = Place::new();
    let under = |name: &str, inner: &str| {
        let other = if name == "a" { "b" } else { "a" };
        let waits = format!("touch {name}.held; while [ ! -e {other}.held ]; do sleep 0.01; done");
        format!("{waits}; {BANDOG} lock {inner} -- true; exit $?")
    };
    let (first, second) = (under("a", "b --wait 3s"), under("b", "a"));
    let mut one = place.start(&Place::lock("a", &[], &first));
    let mut other = place.start(&Place::lock("b", &[], &second));
    ends(&mut one, 75);
    assert!(!one.stderr().join("\n").contains("deadlock"), "{:?}", one.stderr());
    ends(&mut other, 0);
    for name in ["a.held", "b.held"] {
        std::fs::remove_file(place.path(name)).unwrap();
    }
    let (first, second) = (under("a", "b"), under("b", "a"));
    let mut leased = place.start(&Place::lock("a", &["--lease", "3s"], &first));
    let mut other = place.start(&Place::lock("b", &[], &second));
    ends(&mut leased, 76);
    ends(&mut other, 0);
}
