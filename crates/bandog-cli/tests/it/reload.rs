//! `bandog schedule`: HUP reads the file again, and `on_failure` runs a command for a failed run.

use std::fs;

use bandog_testkit::{Process, Signal, eventually, is_alive};

use crate::{
    help::{Place, SOON, dead, ends},
    schedules::{file, node},
};

const URL: &str = "sqlite:a.db?watchdog=2s";

/// A job that runs each 100 ms and writes a line, and a job that runs until the file `go` exists.
const FIRST: &str = "\
[pool]
size = 4
[[job]]
name = 'often'
fixed_rate = '100ms'
command = 'echo old >> often'
[[job]]
name = 'long'
fixed_rate = '1h'
command = 'echo $$ > pid; while ! [ -e go ]; do sleep 0.02; done; echo out >> long'
";

#[track_caller]
fn stops(mut node: Process) {
    node.term();
    node.stderr_line("bandog: stopped", SOON);
    ends(&mut node, 0);
}

fn reload(node: &Process, says: &str) {
    node.signal(Signal::HUP);
    node.stderr_line(&format!("bandog: HUP: {says}"), SOON);
}

#[test]
fn a_reload_adds_changes_and_removes_jobs_and_present_runs_go_on() {
    let place = Place::new();
    file(&place, FIRST);
    let node = node(&place, URL, &[]);
    let pid = place.pid("pid");
    eventually(SOON, || !place.lines("often").is_empty());
    reload(&node, "no job has changed");

    // A file with a mistake changes nothing.
    file(&place, &FIRST.replace("100ms", "often"));
    reload(&node, "the jobs stay as they are: jobs.toml has 1 mistake");
    // The same lines as at a start.
    let at_start = place.run(&["schedule", "jobs.toml"]).stderr;
    let picture: Vec<_> = at_start.lines().skip(1).collect();
    assert_eq!((picture.len(), picture[2].trim()), (3, "^^^^^^^"), "{at_start}");
    eventually(SOON, || node.stderr().windows(3).any(|lines| lines == picture));
    let before = place.lines("often").len();
    eventually(SOON, || place.lines("often").len() > before + 2);

    let added = "[[job]]\nname = 'added'\nfixed_rate = '100ms'\ncommand = 'echo >> added'\n";
    let (others, _) = FIRST.split_once("[[job]]\nname = 'long'").unwrap();
    file(&place, &format!("{}{added}", others.replace("echo old", "echo new")));
    reload(&node, "added: added, changed: often, removed: long");
    node.stderr_line("2 jobs of jobs.toml, 4 at a time, from now on", SOON);
    eventually(SOON, || place.lines("added").len() > 2 && place.lines("often").iter().any(|line| line == "new"));
    let lines = place.lines("often");
    let first_new = lines.iter().position(|line| line == "new").unwrap();
    assert!(lines[first_new..].iter().all(|line| line == "new"), "{lines:?}");
    assert!(is_alive(pid), "the run of the removed job goes on");
    fs::write(place.path("go"), "").unwrap();
    node.stderr_line("bandog: long: done in", SOON);
    assert_eq!(place.lines("long"), ["out"]);
    // The end of a run is reported before it is written.
    let history = || place.run(&["jobs", "history", "long", "--json", "--url", URL]);
    eventually(SOON, || history().stdout.contains("\"state\":\"ok\""));
    stops(node);
}

#[test]
fn a_stop_after_a_reload_ends_the_commands_of_the_earlier_file_too() {
    let place = Place::new();
    file(&place, FIRST);
    let mut node = node(&place, URL, &["--drain", "0s"]);
    let pid = place.pid("pid");
    file(&place, &FIRST.replace("100ms", "200ms"));
    reload(&node, "changed: often");
    node.stderr_line("a greater `revision` of the job prevents that", SOON);
    node.stderr_line("from now on", SOON);
    assert!(!node.stderr().iter().any(|line| line.contains("Job::")), "{:?}", node.stderr());
    assert!(is_alive(pid));
    node.term();
    ends(&mut node, 0);
    dead(&[pid]);
    assert_eq!(place.lines("long"), [""; 0]);
}

/// The job fails twice, and its failure has a command of its own.
const FAILS: &str = "\
[[job]]
name = 'x'
fixed_rate = '1h'
retry = '1 from 10ms'
command = 'echo $BANDOG_ATTEMPT >> attempts; exit 3'
env = { WHO = 'me' }
on_failure = '''
env | grep -E '^(BANDOG_|WHO)' > part; mv part result; while ! [ -e go ]; do sleep 0.02; done; echo >> after'''
";

#[test]
fn the_command_of_a_failure_gets_the_result_and_a_stop_waits_for_it() {
    let place = Place::new();
    file(&place, FAILS);
    let mut node = node(&place, URL, &[]);
    let result = eventually(SOON, || Some(place.lines("result")).filter(|lines| !lines.is_empty()));
    assert_eq!(place.lines("attempts"), ["1", "2"]);
    for line in ["BANDOG_JOB=x", "BANDOG_STATE=failed", "BANDOG_ERROR=exit code 3", "BANDOG_ATTEMPT=2", "WHO=me"] {
        assert!(result.iter().any(|found| found == line), "{line}: {result:?}");
    }
    for name in ["BANDOG_TICK=", "BANDOG_NODE=", "BANDOG_RUN=1", "BANDOG_FENCE="] {
        assert!(result.iter().any(|line| line.starts_with(name) && line.len() > name.len() - 1), "{name}: {result:?}");
    }
    node.stderr_line("bandog: x: failed, runs its on_failure", SOON);
    node.term();
    node.stderr_line("SIGTERM: stopping; the running commands (1)", SOON);
    fs::write(place.path("go"), "").unwrap();
    ends(&mut node, 0);
    assert_eq!(place.lines("after").len(), 1);
}

#[test]
fn a_missing_command_of_a_failure_is_reported() {
    let place = Place::new();
    file(&place, "[[job]]\nname = 'x'\nfixed_rate = '1h'\ncommand = 'false'\non_failure = ['./absent']\n");
    let node = node(&place, URL, &[]);
    assert!(node.stderr().iter().any(|line| line.contains("on_failure has no effect until this is corrected")));
    node.stderr_line("x: its on_failure failed: no such command: \"./absent\"", SOON);
    stops(node);
}

/// A job that fails, and a command that runs until it gets TERM.
const STOPS: &str = "\
[[job]]
name = 'x'
fixed_rate = '1h'
grace = 'GRACE'
command = 'exit 1'
on_failure = '''
trap 'AT_TERM' TERM
echo start >> after
while :; do sleep 0.02; done'''
";

#[test]
fn at_the_end_of_the_drain_the_command_of_a_failure_gets_term_and_then_kill() {
    for (at_term, grace, after, end) in [
        ("echo TERM >> after; exit 0", "10s", &["start", "TERM"][..], "exit code 0 after TERM from bandog"),
        ("", "100ms", &["start"], "killed by SIGKILL"),
    ] {
        let place = Place::new();
        file(&place, &STOPS.replace("AT_TERM", at_term).replace("GRACE", grace));
        let mut node = node(&place, URL, &["--drain", "0s"]);
        eventually(SOON, || !place.lines("after").is_empty());
        node.term();
        ends(&mut node, 0);
        assert_eq!(place.lines("after"), after);
        let line = format!("bandog: x: its on_failure was cut off, because the drain is over: {end}");
        assert!(node.stderr().contains(&line), "{:?}", node.stderr());
    }
}

#[test]
fn a_missing_directory_is_named_and_the_command_of_the_failure_runs_elsewhere() {
    let place = Place::new();
    let defaults = "[defaults]\non_failure = 'echo $BANDOG_ERROR > part; mv part result'\ndirectory = 'nowhere'\n";
    file(&place, &format!("{defaults}[[job]]\nname = 'x'\nfixed_rate = '1h'\ncommand = 'true'\n"));
    let node = node(&place, URL, &[]);
    let fault = "no such directory: \"nowhere\"";
    let warnings: Vec<_> = node.stderr().into_iter().filter(|line| line.contains("until this is corrected")).collect();
    assert_eq!(warnings, [format!("bandog: x: {fault}; its runs will fail until this is corrected")]);
    assert_eq!(place.written("result"), fault);
    stops(node);
}
