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

/// Two commands take two locks in opposite orders. Both inner commands report the deadlock within two seconds, and then
/// both outer commands end.
#[test]
fn commands_that_wait_for_each_other_report_a_deadlock() {
    let place = Place::new();
    let script = |inner: &str, other: &str| {
        format!("touch {inner}.held; while [ ! -e {other}.held ]; do sleep 0.01; done; {BANDOG} lock {inner} -- true")
    };
    let scripts = [script("b", "a"), script("a", "b")];
    let mut commands = [("a", &scripts[0]), ("b", &scripts[1])]
        .map(|(name, script)| place.start(&["lock", name, "--", "sh", "-c", &format!("{script}; exit $?")]));
    for (command, words) in commands.iter_mut().zip([["\"b\"", "\"a\""], ["\"a\"", "\"b\""]]) {
        ends(command, 75);
        let text = command.stderr().join("\n");
        assert!(text.contains("deadlock") && text.contains("bandog lock -- true (process "), "{text}");
        assert!(text.find(words[0]) < text.rfind(words[1]), "{text}");
    }
}

/// A command with a fixed lease ends by itself, and so does a wait with --wait.
#[test]
fn commands_that_end_by_themselves_are_no_deadlock() {
    let place = Place::new();
    let script = |inner: &str, other: &str| {
        format!("touch {inner}.held; while [ ! -e {other}.held ]; do sleep 0.01; done; {BANDOG} lock {inner} -- true")
    };
    let (first, second) = (script("b --wait 3s", "a"), script("a", "b --wait 3s"));
    let (first, second) = (first.replace("b --wait 3s.held", "b.held"), second.replace("b --wait 3s.held", "b.held"));
    let mut one = place.start(&["lock", "a", "--", "sh", "-c", &format!("{first}; exit $?")]);
    let mut other = place.start(&["lock", "b", "--", "sh", "-c", &format!("{second}; exit $?")]);
    ends(&mut one, 75);
    assert!(!one.stderr().join("\n").contains("deadlock"), "{:?}", one.stderr());
    ends(&mut other, 0);
}
