//! The store stops answering while a job's command runs.

use bandog_testkit::{RedisServer, Signal, eventually, is_alive};

use crate::{
    help::{Place, SOON, dead, ends},
    schedules::{file, node},
};

/// A run that ignores signals, with a descendant that left its group, and an orphan without its environment. First it
/// checks whether a process of the earlier run still exists.
const STUBBORN: &str = r#"
[[job]]
name = "x"
fixed_delay = "1h"
on_crash = "retry"
command = '''
for pid in $(cat pids 2>/dev/null); do kill -0 $pid 2>/dev/null && echo $pid >> overlaps; done
work='echo $$ >> pids; echo $$ > $0; trap "" TERM; while :; do sleep 0.02; done'
setsid sh -c "$work" left$BANDOG_ATTEMPT &
(env -i PATH="$PATH" setsid sh -c "$work" orphan$BANDOG_ATTEMPT &)
exec sh -c "$work" child$BANDOG_ATTEMPT'''
"#;

fn run_pids(place: &Place, attempt: u32) -> [u32; 3] {
    ["child", "left", "orphan"].map(|name| place.pid(&format!("{name}{attempt}")))
}

// Promise: S2
#[test]
fn all_processes_of_a_run_are_dead_before_it_continues_elsewhere() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let wire = redis.wire();
    file(&place, STUBBORN);
    let options = ["--drain", "0s"];
    let mut cut_off = node(&place, &format!("{}?watchdog=3s", wire.url()), &options);
    let first = run_pids(&place, 1);
    assert_eq!(first.map(is_alive), [true; 3]);
    let mut other = node(&place, &format!("{}?watchdog=3s", redis.url()), &options);
    wire.stall(true);
    let second = run_pids(&place, 2);
    dead(&first);
    assert_eq!(place.lines("overlaps"), [""; 0]);
    cut_off.term();
    ends(&mut cut_off, 0);
    other.term();
    ends(&mut other, 0);
    dead(&second);
}

#[test]
fn an_outage_is_reported_once_and_jobs_continue_after_it() {
    let (redis, place) = (RedisServer::start(), Place::new());
    file(&place, "[[job]]\nname = 'x'\nfixed_rate = '100ms'\ncommand = 'echo $BANDOG_TICK >> ticks'\n");
    let mut node = node(&place, &format!("{}?watchdog=2s&timeout=500ms", redis.url()), &[]);
    eventually(SOON, || place.lines("ticks").len() >= 3);
    redis.pause();
    node.stderr_line("the store does not answer: no shared job starts until it does", SOON);
    redis.resume();
    let before = place.lines("ticks").len();
    eventually(SOON, || place.lines("ticks").len() >= before + 10);
    node.term();
    ends(&mut node, 0);
    let reports = node.stderr().iter().filter(|line| line.contains("no shared job starts")).count();
    assert_eq!(reports, 1, "{:?}", node.stderr());
    let mut ticks = place.lines("ticks");
    let all = ticks.len();
    ticks.sort_unstable();
    ticks.dedup();
    assert_eq!(ticks.len(), all, "a tick ran twice");
}

#[test]
fn the_messages_about_an_outage_name_jobs_and_nodes_and_no_internal_key() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let job = |rate: &str| format!("[[job]]\nname = 'x'\nfixed_rate = '{rate}'\ncommand = 'echo >> ticks'\n");
    file(&place, &job("100ms"));
    let url = format!("{}?watchdog=2s&timeout=500ms&prefix=shop:", redis.url());
    let [mut stopped, mut reloaded] = [(); 2].map(|()| node(&place, &url, &["--drain", "0s"]));
    eventually(SOON, || !place.lines("ticks").is_empty());
    redis.kill();
    for node in [&stopped, &reloaded] {
        node.stderr_line("the store does not answer", SOON);
    }
    stopped.term();
    stopped.stderr_line("release the session of this node: cannot reach", SOON);
    file(&place, &job("200ms"));
    reloaded.signal(Signal::HUP);
    reloaded.stderr_line("the changed jobs cannot start, next attempt in 1s", SOON);
    reloaded.term();
    for node in [&mut stopped, &mut reloaded] {
        ends(node, 0);
        let internal = |line: &String| line.contains("job/x") || line.contains("schedule/");
        assert!(!node.stderr().iter().any(internal), "{:?}", node.stderr());
    }
}

#[test]
fn a_store_without_an_answer_ends_the_command_at_the_start() {
    let (redis, place) = (RedisServer::start(), Place::new());
    file(&place, "[[job]]\nname = 'x'\nfixed_rate = '1s'\ncommand = 'touch ran'\n");
    redis.kill();
    let ran = place.run(&["schedule", "jobs.toml", "--url", &redis.url()]);
    ran.assert_ended(69, &["check that the store runs and can be reached from here", &redis.url()]);
    assert!(!place.path("ran").exists());
}

// Promise: S8
#[test]
fn a_password_is_not_passed_to_the_command() {
    let (redis, place) = (RedisServer::start(), Place::new());
    redis.cmd(&["CONFIG", "SET", "requirepass", "for-jobs-only"]);
    file(
        &place,
        "[[job]]\nname = 'x'\nfixed_rate = '1h'\ncommand = 'env > env.tmp; mv env.tmp env; cat /proc/*/cmdline | tr \"\\\\0\" \" \" > lines; echo done > done'\n",
    );
    let mut command = place.bandog(&["schedule", "jobs.toml"]);
    command.env("BANDOG_URL", redis.url().replace("redis://", "redis://:for-jobs-only@"));
    let mut node = bandog_testkit::Process::spawn(&command);
    place.written("done");
    node.term();
    ends(&mut node, 0);
    let env = place.lines("env").join("\n");
    assert!(env.contains(&format!("BANDOG_URL={}", redis.url())) && !env.contains("for-jobs-only"), "{env}");
    assert!(!place.lines("lines").join("\n").contains("for-jobs-only"), "a password is on a command line");
    assert!(!node.stderr().join("\n").contains("for-jobs-only"), "{:?}", node.stderr());
}
