//! `bandog push`, `bandog queues` and `bandog queue` over SQLite.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::help::{Place, Ran};

/// A directory with a store, and the words of commands in it.
pub(crate) struct Queues {
    pub(crate) place: Place,
}

impl Queues {
    pub(crate) fn new() -> Self {
        Self { place: Place::new() }
    }

    /// Runs `bandog` with these words.
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        self.place.run(words)
    }

    /// Pushes an element, and returns its id.
    #[track_caller]
    pub(crate) fn push(&self, words: &[&str]) -> String {
        let ran = self.run(&[&["push"], words].concat());
        ran.assert_ended(0, &[]);
        ran.stdout.trim().to_owned()
    }

    /// Runs `bandog` with this standard input.
    pub(crate) fn run_with(&self, words: &[&str], input: &[u8]) -> Ran {
        let mut command: Command = self.place.bandog(words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The command may end before it has read all.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        Ran { code: output.status.code().unwrap(), stdout, stderr }
    }

    /// The objects that a command prints.
    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Vec<Value> {
        let ran = self.run(&[words, &["--json"]].concat());
        ran.assert_ended(0, &[]);
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The state of a queue.
    #[track_caller]
    pub(crate) fn status(&self, name: &str) -> Value {
        self.json(&["queue", name, "show"]).pop().unwrap()
    }

    /// One count of a queue.
    pub(crate) fn count(&self, name: &str, phase: &str) -> u64 {
        self.status(name)[phase].as_u64().unwrap()
    }
}

#[test]
fn a_pushed_element_is_listed() {
    let queues = Queues::new();
    let first = queues.push(&["mails", "to: ann"]);
    let second = queues.push(&["mails", "later", "--after", "1h", "--priority", "3", "--key", "k"]);
    let rows = queues.json(&["queue", "mails", "ls"]);
    let shown: Vec<_> = rows.iter().map(|row| (row["id"].as_str().unwrap(), &row["payload"], &row["phase"])).collect();
    assert_eq!(shown, [(&*first, &json!("to: ann"), &json!("ready")), (&*second, &json!("later"), &json!("delayed"))]);
    assert_eq!((&rows[1]["priority"], &rows[1]["key"], &rows[1]["attempt"]), (&json!(3), &json!("k"), &json!(0)));
    assert!(rows[1]["left_ms"].as_u64().unwrap() > 3_500_000);
    assert_eq!(queues.json(&["queue", "mails", "ls", "--phase", "delayed"]).len(), 1);
    assert_eq!(queues.json(&["queue", "mails", "ls", "--limit", "1"]).len(), 1);
    let text = queues.run(&["queue", "mails", "ls"]);
    for word in ["in sqlite:", "ready:", "delayed:", "to: ann", &first, "READY IN"] {
        assert!(text.stdout.contains(word), "{word}: {}", text.stdout);
    }
    let table = queues.run(&["queues"]).stdout;
    assert!(table.contains("NAME") && table.contains("mails"), "{table}");
    assert_eq!(queues.run(&["queue", "mails", "dead"]).stdout.lines().nth(1), Some("no elements in mails"));
}

#[test]
fn json_of_a_push_says_whether_the_element_is_new() {
    let queues = Queues::new();
    let push = || queues.run(&["push", "mails", "x", "--once", "order 7", "--json"]);
    let first: Value = serde_json::from_str(&push().stdout).unwrap();
    assert_eq!(first["new"], json!(true));
    let again = push();
    again.assert_ended(0, &["pushed before"]);
    assert_eq!(serde_json::from_str::<Value>(&again.stdout).unwrap(), json!({ "id": first["id"], "new": false }));
    assert_eq!(queues.count("mails", "ready"), 1);
}

#[test]
fn standard_input_is_the_element() {
    let queues = Queues::new();
    queues.run_with(&["push", "bytes"], b"a\xff\0b\n").assert_ended(0, &[]);
    queues.run_with(&["push", "bytes", "-"], b"").assert_ended(0, &[]);
    let rows = queues.json(&["queue", "bytes", "ls"]);
    assert_eq!((&rows[0]["payload"], &rows[0]["payload_hex"]), (&Value::Null, &json!("61ff00620a")));
    assert_eq!((&rows[1]["payload"], &rows[1]["payload_hex"]), (&json!(""), &Value::Null));
    assert!(queues.run(&["queue", "bytes", "ls"]).stdout.contains("0x61ff00620a"));
    let most = vec![b'x'; 1 << 20];
    queues.run_with(&["push", "large"], &most).assert_ended(0, &[]);
    let more = [most, vec![b'x']].concat();
    queues.run_with(&["push", "large"], &more).assert_ended(64, &["more than 1 MiB"]);
    assert_eq!(queues.count("large", "ready"), 1);
}

#[test]
fn each_line_is_an_element() {
    let queues = Queues::new();
    let lines: Vec<String> = (0..2500).map(|number| format!("line {number}")).collect();
    let ran = queues.run_with(&["push", "lines", "--lines"], lines.join("\n").as_bytes());
    ran.assert_ended(0, &[]);
    assert_eq!(ran.stdout.lines().count(), 2500);
    let rows = queues.json(&["queue", "lines", "ls", "--limit", "3000"]);
    let payloads: Vec<_> = rows.iter().map(|row| row["payload"].as_str().unwrap()).collect();
    assert_eq!(payloads, lines);
    assert_eq!(ran.stdout.lines().next(), rows[0]["id"].as_str());
    queues.run_with(&["push", "none", "--lines"], b"").assert_ended(0, &[]);
    let long = [b"first\n", vec![b'x'; (1 << 20) + 1].as_slice()].concat();
    queues.run_with(&["push", "long", "--lines"], &long).assert_ended(64, &["line 2 has more than 1 MiB", "1 lines"]);
    assert_eq!(queues.count("long", "ready"), 1);
}

#[test]
fn all_lines_are_pushed_although_the_ids_are_not_read() {
    let queues = Queues::new();
    let script = format!("seq 1 3000 | '{}' push q --lines | head -1", env!("CARGO_BIN_EXE_bandog"));
    let ran = Ran::from(queues.place.command(&["bash", "-o", "pipefail", "-c", &script]));
    ran.assert_ended(0, &[]);
    assert_eq!(queues.count("q", "ready"), 3000);
}

#[test]
fn elements_are_removed_and_purged() {
    let queues = Queues::new();
    let id = queues.push(&["mails", "a"]);
    queues.push(&["mails", "b"]);
    queues.push(&["mails", "c", "--after", "1h"]);
    let queue = |words: &[&str]| queues.run(&[&["queue", "mails"], words].concat());
    assert_eq!(queue(&["remove", &id]).stdout, "1 of 1 elements of mails are removed\n");
    queue(&["remove", &id]).assert_ended(75, &["no element with these ids is in the queue"]);
    queue(&["retry", &id]).assert_ended(75, &["no element with these ids is dead"]);
    queue(&["retry", "--all"]).assert_ended(0, &[]);
    queue(&["purge", "ready"]).assert_ended(64, &["--yes"]);
    queue(&["purge", "taken", "--yes"]).assert_ended(64, &["remove them by their ids"]);
    let purged = queue(&["purge", "ready", "--yes", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&purged.stdout).unwrap()["removed"], json!(1));
    let status = queues.status("mails");
    assert_eq!((&status["ready"], &status["delayed"]), (&json!(0), &json!(1)));
}

#[test]
fn limits_and_pauses_are_shown() {
    let queues = Queues::new();
    queues.push(&["mails", "a"]);
    let queue = |words: &[&str]| queues.json(&[&["queue", "mails"], words].concat()).pop().unwrap();
    assert_eq!(queue(&["pause"])["paused"], json!(true));
    let limited = queue(&["limit", "--concurrency", "4", "--rate", "100/1m"]);
    assert_eq!(limited["concurrency"], json!(4));
    assert_eq!(limited["rate"], json!({ "deliveries": 100, "per_ms": 60_000 }));
    let table = queues.run(&["queues", "mail*"]).stdout;
    assert!(table.contains("paused, at most 4 at a time, 100/1m"), "{table}");
    assert_eq!(queue(&["resume"])["paused"], json!(false));
    let free = queue(&["limit", "--concurrency", "none", "--rate", "none"]);
    assert_eq!((&free["concurrency"], &free["rate"]), (&Value::Null, &Value::Null));
    queues.run(&["queue", "mails", "limit"]).assert_ended(64, &["--concurrency", "--rate"]);
    for wrong in ["0", "4/0s", "x"] {
        queues.run(&["queue", "mails", "limit", "--rate", wrong]).assert_ended(64, &["100/1m"]);
    }
}

#[test]
fn names_are_listed_without_the_prefix() {
    let queues = Queues::new();
    let url = format!("sqlite:{}?prefix=shop:", queues.place.path("a.db").display());
    for name in ["b", "a*", "a blank"] {
        queues.push(&[name, "x", "--url", &url]);
    }
    let names = |pattern: &str| -> Vec<String> {
        let rows = queues.json(&["queues", pattern, "--url", &url]);
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("*"), ["a blank", "a*", "b"]);
    assert_eq!(names("a\\*"), ["a*"]);
    assert_eq!(names("nothing"), [""; 0]);
    let all = format!("sqlite:{}", queues.place.path("a.db").display());
    let rows = queues.json(&["queues", "--url", &all]);
    assert_eq!(rows[2]["name"], json!("shop:b"));
}

#[test]
fn a_store_that_does_not_exist_has_no_queue() {
    let queues = Queues::new();
    assert!(queues.run(&["queues"]).stdout.contains("there is no queue"));
    assert_eq!(queues.json(&["queues"]).len(), 0);
    assert_eq!(queues.json(&["queue", "mails", "ls"]).len(), 0);
    queues.run(&["queue", "mails", "show"]).assert_ended(69, &["was never used"]);
    queues.run(&["queue", "mails", "pause"]).assert_ended(69, &["was never used"]);
    let url = format!("sqlite:{}", queues.place.path("none.db").display());
    queues.run(&["queues", "--url", &url]).assert_ended(69, &["does not exist", "`bandog push`"]);
    queues.run(&["queue", "mails", "ls", "--url", &url]).assert_ended(69, &["does not exist"]);
}

#[test]
fn wrong_words_are_refused_before_any_request() {
    let queues = Queues::new();
    let wrong: [(&[&str], &[&str]); 13] = [
        (&["push"], &["<QUEUE>"]),
        (&["push", ""], &["name"]),
        (&["push", "q", "x", "--priority", "10"], &["--priority", "0..=9"]),
        (&["push", "q", "x", "--after", "soon"], &["--after"]),
        (&["push", "q", "x", "--after", "1s", "--at", "2030-01-01T00:00:00Z"], &["cannot be used with"]),
        (&["push", "q", "x", "--at", "tomorrow"], &["--at"]),
        (&["push", "q", "x", "--window", "1h"], &["--once"]),
        (&["push", "q", "x", "--once", ""], &["the id of once has 0 bytes"]),
        (&["push", "q", "x", "--key", ""], &["the key has 0 bytes"]),
        (&["push", "q", "x", "--lines"], &["cannot be used with"]),
        (&["push", "q", "x", "--url", "zookeeper://localhost:1"], &["has no work queues"]),
        (&["queue", "q", "remove", "x"], &["not the id of an element"]),
        (&["queue", "q", "retry"], &["<ID>"]),
    ];
    for (words, texts) in wrong {
        queues.run(words).assert_ended(64, texts);
    }
    assert!(!queues.place.path("state").join("bandog/locks.db").exists());
}

#[test]
fn tasks_are_listed_with_those_that_no_program_knows() {
    let queues = Queues::new();
    assert!(queues.json(&["tasks"]).is_empty());
    queues.push(&["mails", "x"]);
    let id = queues.push(&["billing/charge", "1250"]);
    queues.push(&["billing/charge", "7", "--after", "1h"]);
    queues.push(&["shop/export", "null"]);
    let tasks = queues.json(&["tasks"]);
    let names: Vec<_> = tasks.iter().map(|task| task["queue"].as_str().unwrap()).collect();
    assert_eq!(names, ["billing/charge", "shop/export"]);
    let charge = &tasks[0];
    assert_eq!((&charge["task"], &charge["executor"]), (&json!("charge"), &json!("billing")), "{charge}");
    let counts =
        ["ready", "waiting", "running", "dead", "unknown", "workers"].map(|count| charge[count].as_u64().unwrap());
    assert_eq!(counts, [1, 1, 0, 0, 1, 0]);
    assert_eq!(queues.json(&["tasks", "shop/*"]).len(), 1);
    let table = queues.run(&["tasks"]).stdout;
    assert!(table.contains("UNKNOWN") && table.contains("charge") && !table.contains("mails"), "{table}");
    assert!(queues.run(&["tasks", "none*"]).stdout.contains("there is no task"));

    let call = queues.json(&["tasks", "show", &id]).remove(0);
    let fields = ["task", "id", "phase", "payload"].map(|field| call[field].as_str().unwrap());
    assert_eq!(fields, ["charge", &id, "ready", "1250"]);
    let shown = queues.run(&["tasks", "show", &id]).stdout;
    assert!(shown.contains("billing/charge is ready") && shown.contains("1250"), "{shown}");
    queues.run(&["tasks", "show", "a3f09b1c2d4e5f60-2a"]).assert_ended(75, &["no task has a call"]);
    queues.run(&["tasks", "show", "x"]).assert_ended(64, &["not the id"]);
}
