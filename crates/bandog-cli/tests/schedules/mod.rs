//! The promises of `bandog schedule` over any store.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use bandog_testkit::{Process, Signal, eventually, is_alive};

use crate::{
    help::{Place, SOON, dead, ends},
    store::Store,
};

/// Writes a file of jobs.
pub(crate) fn file(place: &Place, text: &str) {
    fs::write(place.path("jobs.toml"), text).unwrap();
}

/// A running `bandog schedule jobs.toml`.
pub(crate) fn node(place: &Place, url: &str, options: &[&str]) -> Process {
    let node = place.start(&[&["schedule", "jobs.toml", "--url", url], options].concat());
    node.stderr_line("bandog: started", SOON);
    node
}

/// A command that writes its pid, attempt, fence and tick as one line, and then runs until it is killed.
const IGNORES_TERM: &str = r#"
[[job]]
name = "long"
fixed_delay = "1h"
on_crash = "retry"
lease = "LEASE"
command = '''
trap "" TERM
echo $$ $BANDOG_ATTEMPT $BANDOG_FENCE $BANDOG_TICK >> runs
setsid sh -c 'trap "" TERM; echo $$ >> below; while :; do sleep 0.02; done' &
while :; do sleep 0.02; done'''
"#;

/// A run as its command recorded it.
#[derive(Debug)]
struct Written {
    pid: u32,
    attempt: u32,
    fence: u64,
    tick: String,
}

/// Waits for this number of runs.
#[track_caller]
fn runs(place: &Place, count: usize) -> Vec<Written> {
    let lines = eventually(SOON, || Some(place.lines("runs")).filter(|lines| lines.len() >= count));
    let read = |line: &String| {
        let words: Vec<_> = line.split(' ').collect();
        let [pid, attempt, fence, tick] = words[..] else { panic!("{line}") };
        let [pid, attempt] = [pid, attempt].map(|word| word.parse().unwrap());
        Written { pid, attempt, fence: fence.parse().unwrap(), tick: tick.to_owned() }
    };
    lines.iter().map(read).collect()
}

/// The node of the first run, the other node, the first run, and the pid of its descendant.
fn two_nodes(place: &Place, url: &str, lease: &str, options: &[&str]) -> (Process, Process, Written, u32) {
    file(place, &IGNORES_TERM.replace("LEASE", lease));
    let [a, b] = [node(place, url, options), node(place, url, options)];
    let first = runs(place, 1).remove(0);
    let below = place.pid("below");
    let runs_it = |node: &Process| node.stderr().iter().any(|line| line.starts_with("bandog: long: runs for"));
    eventually(SOON, || runs_it(&a) || runs_it(&b));
    let (runner, other) = if runs_it(&a) { (a, b) } else { (b, a) };
    (runner, other, first, below)
}

/// Asserts that the second run has the tick of the first run and the next attempt. Returns the pid of the second run.
#[track_caller]
fn is_taken_over(place: &Place, first: &Written) -> u32 {
    let second = runs(place, 2).remove(1);
    assert_eq!((second.attempt, &second.tick), (first.attempt + 1, &first.tick), "{second:?}");
    assert!(second.fence > first.fence, "{first:?} {second:?}");
    second.pid
}

// Promise: S1
#[test]
fn two_nodes_run_each_tick_once() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let job =
        "[pool]\nsize = 4\n[[job]]\nname = 'tick'\nfixed_rate = '100ms'\ncommand = 'echo $BANDOG_TICK >> ticks'\n";
    file(place, job);
    let mut nodes = [node(place, url, &[]), node(place, url, &[])];
    eventually(SOON, || place.lines("ticks").len() >= 40);
    for node in &mut nodes {
        node.term();
        ends(node, 0);
    }
    let ticks = place.lines("ticks");
    let different: BTreeSet<_> = ticks.iter().collect();
    assert_eq!(different.len(), ticks.len(), "a tick ran twice: {ticks:?}");
    let times = different.iter().map(|tick| tick.parse::<bandog_cron::Time>().unwrap().millisecond());
    let times: Vec<_> = times.collect::<BTreeSet<_>>().into_iter().collect();
    let gaps: Vec<_> = times.windows(2).filter(|pair| pair[1] - pair[0] != 100).collect();
    assert!(gaps.is_empty(), "a tick was left out: {gaps:?} of {times:?}");
}

/// Lease of the killed node, in seconds.
const LEASE: u64 = 2;
/// Maximum delay of the next run after the lease, in seconds: one second, and three seconds in which this machine
/// starts a process while other tests run.
const MAX_DELAY: u64 = 1 + 3;

// Promise: S3
#[test]
fn a_killed_nodes_run_continues_elsewhere() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let (runner, mut other, first, below) = two_nodes(place, url, &format!("{LEASE}s"), &["--drain", "0s"]);
    let killed = Instant::now();
    runner.kill();
    eventually(SOON, || !is_alive(first.pid) && !is_alive(below));
    let second = is_taken_over(place, &first);
    assert!(killed.elapsed() <= Duration::from_secs(LEASE + MAX_DELAY), "{:?}", killed.elapsed());
    assert_eq!(place.lines("runs").len(), 2);
    other.term();
    ends(&mut other, 0);
    dead(&[second]);
}

// Promise: S4
#[test]
fn a_stopped_node_hands_its_run_over_immediately() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let (mut runner, mut other, first, below) = two_nodes(place, url, "1h", &["--drain", "0s"]);
    runner.term();
    ends(&mut runner, 0);
    // The processes ignore TERM, so they have got KILL after the grace period.
    dead(&[first.pid, below]);
    let second = is_taken_over(place, &first);
    other.term();
    ends(&mut other, 0);
    dead(&[second]);
}

/// A command that exits with 0 after TERM, although it has done only the half of its work.
const EXITS_WELL: &str = r#"
[[job]]
name = "long"
fixed_delay = "1h"
on_crash = "retry"
lease = "1h"
command = '''
trap "exit 0" TERM
echo $$ $BANDOG_ATTEMPT $BANDOG_FENCE $BANDOG_TICK >> runs
if [ $BANDOG_ATTEMPT = 2 ]; then echo >> second_half; exit; fi
while :; do sleep 0.02; done'''
"#;

// Promise: S9
#[test]
fn a_run_that_exits_with_0_because_its_node_stops_is_handed_over() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    file(place, EXITS_WELL);
    let mut stopped = node(place, url, &["--drain", "0s"]);
    let first = runs(place, 1).remove(0);
    let mut other = node(place, url, &["--drain", "0s"]);
    stopped.term();
    ends(&mut stopped, 0);
    is_taken_over(place, &first);
    place.written("second_half");
    let states = || {
        let ran = place.run(&["jobs", "history", "long", "--json", "--url", url]);
        let rows: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap();
        rows.iter().map(|row| row["state"].clone()).collect::<Vec<_>>()
    };
    eventually(SOON, || states() == ["ok", "interrupted"]);
    other.term();
    ends(&mut other, 0);
}

// Promise: S4
#[test]
fn a_second_signal_kills_the_commands_and_hands_their_runs_over() {
    let store = Store::start();
    let (place, url) = store.place_and_url();
    let (mut runner, mut other, first, below) = two_nodes(place, url, "1h", &["--drain", "1h"]);
    runner.term();
    runner.stderr_line("SIGTERM: stopping; the running commands (1) may continue for 1h", SOON);
    assert!(is_alive(first.pid));
    runner.int();
    ends(&mut runner, 128 + Signal::INT.as_raw());
    dead(&[first.pid, below]);
    let second = is_taken_over(place, &first);
    other.int();
    other.stderr_line("SIGINT: stopping", SOON);
    other.term();
    ends(&mut other, 128 + Signal::TERM.as_raw());
    dead(&[second]);
}
