//! `bandog work` over SQLite: whole processes, and real signals.

use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

use bandog_testkit::{Process, eventually, is_alive};
use serde_json::{Value, json};

use crate::{
    help::{Ran, SOON, dead, ends},
    queues::Queues,
};

/// The words of a worker of the queue `q` that runs a script.
fn words<'a>(options: &'a str, script: &'a str) -> Vec<&'a str> {
    let options: Vec<_> = options.split_whitespace().collect();
    [&["work", "q"], options.as_slice(), &["--", "sh", "-c", script]].concat()
}

impl Queues {
    fn work(&self, options: &str, script: &str) -> Ran {
        self.run(&words(options, script))
    }

    /// Works until the queue is empty, and returns the objects of --json.
    #[track_caller]
    fn ends_of(&self, code: i32, options: &str, script: &str) -> Vec<Value> {
        let ran = self.work(&format!("--until-empty --json {options}"), script);
        ran.assert_ended(code, &[]);
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn worker(&self, options: &str, script: &str) -> Process {
        self.place.start(&words(options, script))
    }
}

/// A script that writes a line with the time into `ticks-FENCE`, again and again, whatever signal it gets.
const TICKS: &str = "trap '' TERM INT HUP; echo $$ > pid-$BANDOG_FENCE; \
                     while :; do date +%s%N >> ticks-$BANDOG_FENCE; sleep 0.01; done";

impl Queues {
    /// The fence of the running command, once it is greater than this and the command has written a time.
    fn fence_after(&self, earlier: u64) -> u64 {
        let fence = |name: String| name.strip_prefix("ticks-")?.parse().ok().filter(|fence| *fence > earlier);
        let names = || fs::read_dir(self.place.path("")).unwrap().map(|entry| entry.unwrap().file_name());
        let later = || names().find_map(|name| fence(name.into_string().ok()?));
        eventually(SOON, || later().filter(|fence| !self.ticks(*fence).is_empty()))
    }

    /// The times that the command of this delivery has written.
    fn ticks(&self, fence: u64) -> Vec<u128> {
        let lines = self.place.lines(&format!("ticks-{fence}"));
        lines.iter().filter_map(|line| line.parse().ok()).collect()
    }

    /// Asserts that the commands of these deliveries did not run at the same time.
    #[track_caller]
    fn assert_one_after_another(&self, first: u64, second: u64) {
        let (last, next) = (*self.ticks(first).last().unwrap(), self.ticks(second)[0]);
        assert!(last < next, "{last} is not before {next}");
    }
}

#[test]
fn a_command_gets_the_element_and_its_environment() {
    let queues = Queues::new();
    let id = queues.push(&["q", "to: ann"]);
    let script =
        "cat > payload; env | grep -E '^BANDOG_(QUEUE|ELEMENT|FENCE|ATTEMPT)=' | sort > env; echo out; echo err >&2";
    let ran = queues.work("--until-empty", script);
    ran.assert_ended(0, &["[q] err", "1 done, 0 failed"]);
    assert_eq!(ran.stdout, "[q] out\n");
    assert_eq!(fs::read(queues.place.path("payload")).unwrap(), b"to: ann");
    let env = queues.place.lines("env");
    let fence = env.iter().find_map(|line| line.strip_prefix("BANDOG_FENCE=")).unwrap();
    let expected =
        ["BANDOG_ATTEMPT=1", &format!("BANDOG_ELEMENT={id}"), &format!("BANDOG_FENCE={fence}"), "BANDOG_QUEUE=q"];
    assert_eq!(env, expected);
    assert_eq!(queues.work("--until-empty --plain", "echo never").stdout, "");
}

#[test]
fn payloads_are_bytes() {
    let queues = Queues::new();
    let large: Vec<u8> = (0..1u32 << 20).map(|number| number.to_le_bytes()[1]).collect();
    for payload in [&b""[..], b"\xff\0\n \n", &large] {
        queues.run_with(&["push", "q"], payload).assert_ended(0, &[]);
        queues.work("--until-empty", "cat > got").assert_ended(0, &[]);
        assert!(fs::read(queues.place.path("got")).unwrap() == payload);
    }
    // A command that does not read its input.
    queues.run_with(&["push", "q"], &large).assert_ended(0, &[]);
    queues.work("--until-empty", "exit 0").assert_ended(0, &["1 done"]);
}

// Promise: C14
#[test]
fn a_failed_element_comes_again_and_is_dead_at_the_end() {
    let queues = Queues::new();
    let id = queues.push(&["q", "poison"]);
    queues.push(&["q", "good"]);
    let script = "[ \"$(cat)\" = good ] || { echo \"reason $BANDOG_ATTEMPT\" >&2; exit 3; }";
    let ends = queues.ends_of(1, "--deliveries 3 --backoff 10ms", script);
    let of_poison: Vec<_> = ends.iter().filter(|end| end["id"] == json!(id)).collect();
    let seen: Vec<_> = of_poison.iter().map(|end| (&end["end"], &end["attempt"], &end["exit_code"])).collect();
    let row = |end, attempt| (json!(end), json!(attempt), json!(3));
    let expected = [row("retry", 1), row("retry", 2), row("dead", 3)];
    assert_eq!(seen, expected.iter().map(|(end, attempt, code)| (end, attempt, code)).collect::<Vec<_>>());
    assert_eq!(of_poison[2]["error"], json!("exit code 3\nreason 3"));
    assert_eq!(ends.iter().filter(|end| end["end"] == json!("done")).count(), 1);
    let dead = queues.json(&["queue", "q", "dead"]);
    assert_eq!((&dead[0]["id"], &dead[0]["error"]), (&json!(id), &json!("exit code 3\nreason 3")));
    assert_eq!(queues.run(&["queue", "q", "retry", &id]).stdout, "1 of 1 elements of q are ready again\n");
    queues.work("--until-empty", "exit 0").assert_ended(0, &["1 done, 0 failed"]);
}

#[test]
fn the_error_is_the_end_of_standard_error() {
    let queues = Queues::new();
    queues.push(&["q", "x"]);
    let script = "i=0; while [ $i -lt 2000 ]; do echo \"line $i\" >&2; i=$((i+1)); done; echo only out; kill -9 $$";
    queues.work("--until-empty --deliveries 1", script).assert_ended(1, &["killed by SIGKILL", "1 failed, 1 dead"]);
    let error = queues.json(&["queue", "q", "dead"])[0]["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("killed by SIGKILL\n") && error.ends_with("line 1999"), "{error}");
    assert!((3500..=4096).contains(&error.len()) && !error.contains("only out"), "{}", error.len());
}

/// The last delivery of an element ends with its worker. The next worker makes it dead, without a command of its own.
#[test]
fn a_worker_that_finds_an_exhausted_element_does_not_end_well() {
    let queues = Queues::new();
    queues.push(&["q", "x"]);
    let mut worker = queues.worker("--deliveries 1 --lease 1s", "echo began; exec sleep 600");
    worker.stdout_line("began", SOON);
    worker.kill();
    worker.wait(SOON);
    let ran = queues.work("--until-empty --deliveries 1", "exit 0");
    ran.assert_ended(1, &["0 done, 0 failed"]);
    assert_eq!(queues.json(&["queue", "q", "dead"]).len(), 1);
    // It was dead before.
    queues.work("--until-empty", "exit 0").assert_ended(0, &["0 done, 0 failed"]);
}

#[test]
fn an_unused_name_that_is_paused_is_reported() {
    let queues = Queues::new();
    queues.push(&["q", "x"]);
    let ran = queues.run(&["queue", "other", "pause"]);
    ran.assert_ended(0, &["\"other\" has no elements and no workers yet"]);
    assert!(!queues.run(&["queue", "q", "pause"]).stderr.contains("no elements"));
    queues.run(&["queue", "q", "dead", "--limit", "0"]).assert_ended(64, &["--limit"]);
}

#[test]
fn code_75_asks_for_a_retry() {
    let queues = Queues::new();
    queues.push(&["q", "x"]);
    let ends = queues.ends_of(0, "--backoff 10ms", "[ $BANDOG_ATTEMPT = 3 ] || exit 75");
    assert_eq!(ends.iter().map(|end| &end["end"]).collect::<Vec<_>>(), ["retry", "retry", "done"]);
    queues.push(&["q", "x"]);
    let ran = queues.work("--until-empty --backoff 10ms --deliveries 2", "exit 75");
    ran.assert_ended(1, &["1 asked for a retry", "1 dead"]);
}

#[test]
fn a_command_that_takes_too_long_is_ended() {
    let queues = Queues::new();
    queues.push(&["q", "x"]);
    let begun = Instant::now();
    let ends = queues.ends_of(1, "--deliveries 1 --timeout 200ms", "sleep 1000 & echo $! > pid; wait");
    assert!(begun.elapsed() < SOON);
    assert_eq!(ends[0]["error"], json!("the command took longer than 200ms"));
    dead(&[queues.place.pid("pid")]);
}

#[test]
fn two_workers_share_200_elements() {
    let queues = Queues::new();
    let lines: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    queues.run_with(&["push", "q", "--lines"], lines.join("\n").as_bytes()).assert_ended(0, &[]);
    let workers: Vec<_> = ["one", "two"]
        .map(|name| queues.worker("--until-empty --workers 4", &format!("echo \"$(cat)\" >> {name}")))
        .into();
    for mut worker in workers {
        let status = worker.wait(Duration::from_secs(240));
        assert_eq!(status.code(), Some(0), "{:?}", worker.stderr());
    }
    let mut times: HashMap<String, u32> = HashMap::new();
    for name in ["one", "two"] {
        assert!(!queues.place.lines(name).is_empty(), "{name} had no element");
        for line in queues.place.lines(name) {
            *times.entry(line).or_default() += 1;
        }
    }
    assert!(times.values().all(|times| *times == 1) && times.len() == 200, "{times:?}");
}

// Promise: C13
#[test]
fn the_command_of_a_killed_worker_is_dead_before_its_element_comes_again() {
    let queues = Queues::new();
    queues.push(&["q", "x"]);
    let worker = queues.worker("--lease 2s", TICKS);
    let first = queues.fence_after(0);
    let command = queues.place.pid(&format!("pid-{first}"));
    worker.kill();
    eventually(SOON, || !is_alive(command));
    let other = queues.worker("--lease 2s", TICKS);
    let second = queues.fence_after(first);
    queues.assert_one_after_another(first, second);
    other.kill();
}

// Promise: C13
#[test]
fn the_command_of_a_stopped_worker_is_dead_before_its_element_comes_again() {
    let queues = Queues::new();
    queues.push(&["q", "x"]);
    let mut worker = queues.worker("--lease 2s", TICKS);
    let first = queues.fence_after(0);
    let other = queues.worker("--lease 2s", TICKS);
    worker.stop();
    let second = queues.fence_after(first);
    queues.assert_one_after_another(first, second);
    // It was killed, and does nothing more; on a busy machine, the kernel needs a while to remove it.
    eventually(SOON, || !is_alive(queues.place.pid(&format!("pid-{first}"))));
    // It has lost the element, and works on.
    worker.cont();
    queues.push(&["q", "y"]);
    queues.fence_after(second);
    assert!(is_alive(queues.place.pid(&format!("pid-{second}"))), "the other worker has its element still");
    other.kill();
    worker.term();
    worker.stderr_line("another signal kills them", SOON);
    worker.int();
    ends(&mut worker, 130);
}

#[test]
fn a_long_command_keeps_its_element() {
    let queues = Queues::new();
    queues.push(&["q", "x"]);
    // The disk of a busy machine can stand still for a second or two.
    let ends = queues.ends_of(0, "--lease 8s", "sleep 12");
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert!(ends[0]["took_ms"].as_u64().unwrap() >= 12_000);
}

#[test]
fn a_stopped_worker_waits_for_its_command() {
    let queues = Queues::new();
    queues.push(&["q", "x"]);
    queues.push(&["q", "y"]);
    let script = "echo $$ > pid; while ! [ -e go ]; do sleep 0.02; done";
    let mut worker = queues.worker("--json", script);
    queues.place.pid("pid");
    worker.term();
    eventually(SOON, || worker.stderr().iter().any(|line| line.contains("SIGTERM: stopping")));
    fs::write(queues.place.path("go"), "").unwrap();
    ends(&mut worker, 0);
    let status = queues.status("q");
    assert_eq!((&status["ready"], &status["taken"], &status["workers"]), (&json!(1), &json!(0), &json!([])));
}

// Promise: C14
#[test]
fn after_the_drain_the_command_is_ended_and_its_element_handed_back() {
    let queues = Queues::new();
    let id = queues.push(&["q", "x"]);
    let script = "trap 'echo term > term; exit 0' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let mut worker = queues.worker("--drain 0s", script);
    let command = queues.place.pid("pid");
    worker.int();
    ends(&mut worker, 0);
    assert!(
        worker.stderr().iter().any(|line| line.contains("0 done, 0 failed, 1 handed back")),
        "{:?}",
        worker.stderr()
    );
    assert_eq!(queues.place.written("term"), "term");
    dead(&[command]);
    let rows = queues.json(&["queue", "q", "ls", "--phase", "ready"]);
    assert_eq!((&rows[0]["id"], &rows[0]["attempt"]), (&json!(id), &json!(0)));
}

// Promise: C14
#[test]
fn a_second_signal_kills_the_command() {
    let queues = Queues::new();
    queues.push(&["q", "x"]);
    let mut worker = queues.worker("--drain 1h --lease 1h", TICKS);
    let command = queues.place.pid(&format!("pid-{}", queues.fence_after(0)));
    worker.term();
    eventually(SOON, || worker.stderr().iter().any(|line| line.contains("another signal kills them")));
    worker.int();
    ends(&mut worker, 130);
    dead(&[command]);
    assert_eq!(queues.count("q", "ready"), 1);
}

#[test]
fn the_command_of_a_removed_element_is_ended() {
    let queues = Queues::new();
    let id = queues.push(&["q", "x"]);
    let mut worker = queues.worker("--lease 1s", "echo $$ > pid; sleep 1000");
    let command = queues.place.pid("pid");
    queues.run(&["queue", "q", "remove", &id]).assert_ended(0, &[]);
    eventually(SOON, || !is_alive(command));
    eventually(SOON, || queues.json(&["queue", "q", "ls"]).is_empty());
    worker.term();
    ends(&mut worker, 0);
}

// Promise: C14
#[test]
fn a_program_that_is_missing_takes_nothing() {
    let queues = Queues::new();
    queues.push(&["q", "x"]);
    queues.run(&["work", "q", "--", "./nowhere"]).assert_ended(127, &["no such command: \"./nowhere\""]);
    queues.run(&["work", "q", "--", "/"]).assert_ended(126, &["not executable"]);
    // It is deleted by its first run.
    let program = queues.place.path("once");
    fs::write(&program, "#!/bin/sh\nrm once\n").unwrap();
    Ran::from(queues.place.command(&["chmod", "+x", "once"])).assert_ended(0, &[]);
    queues.push(&["q", "y"]);
    queues
        .run(&["work", "q", "--", "./once"])
        .assert_ended(127, &["no such command", "1 done, 0 failed, 1 handed back"]);
    let rows = queues.json(&["queue", "q", "ls"]);
    assert_eq!((rows.len(), &rows[0]["phase"], &rows[0]["attempt"]), (1, &json!("ready"), &json!(0)));
}

#[test]
fn a_worker_creates_the_store_and_waits_for_elements() {
    let queues = Queues::new();
    queues.work("--until-empty", "exit 1").assert_ended(0, &["0 done, 0 failed"]);
    let mut worker = queues.worker("", "cat > got; echo >> got");
    queues.push(&["q", "later", "--after", "300ms"]);
    assert_eq!(queues.place.written("got"), "later");
    eventually(SOON, || queues.status("q")["workers"].as_array().unwrap().len() == 1);
    worker.term();
    ends(&mut worker, 0);
}

#[test]
fn wrong_options_are_refused() {
    let queues = Queues::new();
    let wrong: [(&[&str], &str); 8] = [
        (&["--lease", "500ms"], "between 1s and 1d"),
        (&["--workers", "0"], "--workers"),
        (&["--deliveries", "0"], "--deliveries"),
        (&["--backoff", "2s..1s"], "must rise"),
        (&["--backoff", "soon"], "--backoff"),
        (&["--drain", "x"], "--drain"),
        (&["--timeout", "0s"], "--timeout"),
        (&["--url", "memory:"], "memory:"),
    ];
    for (options, text) in wrong {
        queues.run(&[&["work", "q"], options, &["--", "true"]].concat()).assert_ended(64, &[text]);
    }
    queues.run(&["work", "q"]).assert_ended(64, &["<CMD>"]);
    queues.run(&["work", "", "--", "true"]).assert_ended(64, &["name"]);
    queues.run(&["work", "q", "--url", "zookeeper://localhost:1", "--", "true"]).assert_ended(64, &["no work queues"]);
}
