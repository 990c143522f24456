//! The termination of the child when the lock is in danger.

use std::time::{Duration, Instant};

use bandog_testkit::{eventually, is_alive};

use crate::help::{Place, SOON, dead, ends};

/// A child that ignores signals, a descendant that left its group, and an orphan. Each writes its pid, and then
/// repeatedly `a` into the log.
const STUBBORN: &str = r#"
    work='echo $$ > $0; trap "" TERM INT HUP; n=0; while [ $n -lt 4000 ]; do n=$((n + 1)); echo a >> log; sleep 0.005; done'
    setsid sh -c "$work" left &
    (sh -c "$work" orphan &)
    exec sh -c "$work" child
"#;

#[test]
fn a_lease_ends_its_command_in_time() {
    let place = Place::new();
    let script = "trap 'echo notified; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let mut bandog = place.start(&Place::lock("x", &["--lease", "2s"], script));
    bandog.stdout_line("notified", SOON);
    ends(&mut bandog, 76);
    let said = bandog.stderr().join("\n");
    assert!(said.contains("bandog: the lease of \"x\"") && said.contains("locks.db"), "{said}");
    assert_eq!(place.show("x", &[])["held"], false, "the lock was not released");
}

// Promise: C1
#[test]
fn a_child_that_ignores_signals_is_killed_with_its_descendants() {
    let place = Place::new();
    // The time between KILL and the end of the lock in the store grows with the lease: 200 ms with this one. On a loaded
    // machine, the signal can be late by less than that.
    let mut bandog = place.start(&Place::lock("x", &["--lease", "10s", "--kill-after", "300ms"], STUBBORN));
    let pids = ["child", "left", "orphan"].map(|name| place.pid(name));
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    let mut next = place.start(&Place::lock("x", &[], "echo b >> log; sleep 0.3"));
    ends(&mut bandog, 76);
    dead(&pids);
    ends(&mut next, 0);
    let log = place.lines("log");
    let first = log.iter().position(|line| line == "b").unwrap();
    assert!(first > 0 && log[first..].iter().all(|line| line == "b"), "{:?}", &log[first..]);
}

#[test]
fn with_a_kill_after_of_zero_the_child_is_killed_immediately() {
    let place = Place::new();
    let mut bandog = place.start(&Place::lock("x", &["--lease", "2s", "--kill-after", "0s"], STUBBORN));
    let pids = ["child", "left", "orphan"].map(|name| place.pid(name));
    ends(&mut bandog, 76);
    dead(&pids);
}

#[test]
fn a_stopped_child_is_continued_so_that_it_can_exit() {
    let place = Place::new();
    let script = "trap 'echo notified; exit 0' TERM; kill -STOP $$; while :; do sleep 0.02; done";
    let mut bandog = place.start(&Place::lock("x", &["--lease", "8s", "--kill-after", "4s"], script));
    bandog.stdout_line("notified", SOON);
    ends(&mut bandog, 76);
}

// Promise: C12
#[test]
fn a_bandog_that_was_stopped_past_the_deadline_kills_its_child() {
    let place = Place::new();
    let url = "sqlite:a.db?watchdog=1s";
    let mut bandog = place.start(&Place::lock("x", &["--url", url, "--kill-after", "500ms"], STUBBORN));
    let pids = ["child", "left", "orphan"].map(|name| place.pid(name));
    bandog.stop();
    eventually(SOON, || place.show("x", &["--url", url])["held"] == false);
    bandog.cont();
    ends(&mut bandog, 76);
    dead(&pids);
    let said = bandog.stderr().join("\n");
    assert!(said.contains("while bandog was stopped"), "{said}");
    assert!(said.contains("bandog: a lock was lost, key: x, fence: "), "the library's warning is missing: {said}");
}

// Promise: C12
#[test]
fn a_child_is_dead_before_the_lock_is_free_while_bandog_is_stopped() {
    let place = Place::new();
    let url = "sqlite:a.db?watchdog=2s";
    let mut bandog = place.start(&Place::lock("x", &["--url", url], STUBBORN));
    let pids = ["child", "left", "orphan"].map(|name| place.pid(name));
    // The heir follows the renewals.
    let begun = Instant::now();
    eventually(SOON, || begun.elapsed() > Duration::from_secs(4));
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    bandog.stop();
    let mut next = place.start(&Place::lock("x", &["--url", url], "true"));
    ends(&mut next, 0);
    dead(&pids);
    bandog.cont();
    ends(&mut bandog, 76);
}

// Promise: C3
#[test]
fn a_child_that_exits_after_the_loss_is_reported_as_lost() {
    let place = Place::new();
    let url = "sqlite:a.db?watchdog=1s";
    let mut bandog = place.start(&Place::lock("x", &["--url", url], "echo in; read word; exit 3"));
    bandog.stdout_line("in", SOON);
    bandog.stop();
    bandog.close_stdin();
    eventually(SOON, || place.show("x", &["--url", url])["held"] == false);
    bandog.cont();
    ends(&mut bandog, 76);
    assert!(bandog.stderr().join("\n").contains("exited with 3"), "{:?}", bandog.stderr());
}

#[test]
fn the_time_between_term_and_kill_is_kill_after() {
    let place = Place::new();
    let script = "trap 'echo notified' TERM; echo ready; while :; do sleep 0.01; done";
    let mut bandog = place.start(&Place::lock("x", &["--lease", "10s", "--kill-after", "6s"], script));
    bandog.stdout_line("ready", SOON);
    bandog.stdout_line("notified", SOON);
    let terminated_at = Instant::now();
    bandog.wait(SOON);
    let grace = terminated_at.elapsed();
    assert!((Duration::from_secs(3)..Duration::from_secs(9)).contains(&grace), "{grace:?}");
}

// Promise: C1
#[test]
fn a_process_tree_that_grows_while_it_is_killed_is_killed_completely() {
    let place = Place::new();
    // Each generation leaves the group and starts the next.
    let script = r#"cat > grow <<'GROW'
trap '' TERM
echo $$ >> pids
sleep 0.01
setsid sh ./grow &
sleep 0.1
GROW
    sh ./grow & sleep 1000"#;
    let mut bandog = place.start(&Place::lock("x", &["--lease", "2s", "--kill-after", "50ms"], script));
    ends(&mut bandog, 76);
    let pids: Vec<u32> = place.lines("pids").iter().map(|line| line.parse().unwrap()).collect();
    assert!(pids.len() > 10, "{}", pids.len());
    dead(&pids);
    assert_eq!(place.lines("pids").len(), pids.len(), "a process that was not killed has written its pid");
}
