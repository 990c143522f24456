//! The keeper of one command: its report, and that no process outlives it.

use std::{
    fs,
    io::{Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use bandog::backend::Clock;
use bandog_testkit::{Signal, eventually, is_alive, process::send};
use serde_json::{Value, json};

use crate::help::{Place, SOON};

/// A running keeper, and bandog's end of its socket.
struct Keeper {
    process: Child,
    socket: UnixStream,
}

impl Keeper {
    fn of(place: &Place, grace_ms: &str, script: &str) -> Self {
        Self::with(place, &[grace_ms], script)
    }

    fn with(place: &Place, options: &[&str], script: &str) -> Self {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let mut command: Command = place.bandog(&[&["__keep"], options, &["--", "sh", "-c", script]].concat());
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped());
        Self { process: command.spawn().unwrap(), socket }
    }

    fn send_order(&mut self, order: u8) {
        self.socket.write_all(&[order]).unwrap();
    }

    /// Waits until the socket closes, and returns the report.
    fn reports(&mut self) -> Value {
        self.socket.set_read_timeout(Some(SOON)).unwrap();
        let mut text = String::new();
        self.socket.read_to_string(&mut text).unwrap();
        self.process.wait().unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.process.wait();
    }
}

fn exit(code: u8) -> Value {
    json!({ "ended": { "Exit": code }, "survivors": [] })
}

/// A command that writes its pid into the file `name`, and then ignores all signals for a long time.
fn deaf(name: &str) -> String {
    format!(
        "sh -c 'trap \"\" TERM INT HUP; echo $$ > {name}; n=0; while [ $n -lt 4000 ]; do n=$((n+1)); sleep 0.02; done'"
    )
}

#[test]
fn the_commands_end_is_reported() {
    let place = Place::new();
    assert_eq!(Keeper::of(&place, "1000", "exit 3").reports(), exit(3));
    assert_eq!(Keeper::of(&place, "1000", "true").reports(), exit(0));
    let killed = Keeper::of(&place, "1000", "kill -9 $$").reports();
    assert_eq!(killed, json!({ "ended": { "Signal": 9 }, "survivors": [] }));
}

// Promise: S5
#[test]
fn background_processes_are_dead_before_the_end_is_reported() {
    let place = Place::new();
    let script = format!(
        "sleep 1000 & echo $! > polite; env -i PATH=$PATH setsid {} & {} & while ! [ -s deaf -a -s lone ]; do sleep 0.01; done; exit 4",
        deaf("lone"),
        deaf("deaf")
    );
    let mut keeper = Keeper::of(&place, "100", &script);
    assert_eq!(keeper.reports(), exit(4));
    for name in ["polite", "lone", "deaf"] {
        assert!(!is_alive(place.pid(name)), "{name}");
    }
}

#[test]
fn a_command_may_exit_after_term() {
    let place = Place::new();
    let script = "trap 'echo notified > notified; exit 5' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let mut keeper = Keeper::of(&place, "20000", script);
    place.pid("pid");
    keeper.send_order(b'e');
    assert_eq!(keeper.reports(), exit(5));
    assert_eq!(place.written("notified"), "notified");
}

#[test]
fn a_command_that_outlives_the_grace_is_killed() {
    let place = Place::new();
    let mut keeper = Keeper::of(&place, "100", &format!("exec {}", deaf("pid")));
    let pid = place.pid("pid");
    keeper.send_order(b'e');
    assert_eq!(keeper.reports()["ended"], json!({ "Signal": 9 }));
    assert!(!is_alive(pid));
}

#[test]
fn a_second_order_kills_immediately() {
    let place = Place::new();
    let mut keeper = Keeper::of(&place, "3600000", &format!("exec {}", deaf("pid")));
    place.pid("pid");
    keeper.send_order(b'e');
    keeper.send_order(b'k');
    assert_eq!(keeper.reports()["ended"], json!({ "Signal": 9 }));
}

// Promise: S3
#[test]
fn no_process_outlives_a_bandog_that_has_ended() {
    let place = Place::new();
    // The process `lone` has left its group, its session and its parent, and has an empty environment.
    let script = format!("(env -i PATH=$PATH setsid {} &); {} & exec {}", deaf("lone"), deaf("below"), deaf("pid"));
    let mut keeper = Keeper::of(&place, "3600000", &script);
    let pids = ["pid", "below", "lone"].map(|name| place.pid(name));
    keeper.socket.shutdown(std::net::Shutdown::Both).unwrap();
    eventually(SOON, || keeper.process.try_wait().unwrap().is_some());
    assert_eq!(pids.map(is_alive), [false; 3]);
}

#[test]
fn the_keeper_ignores_signals() {
    let place = Place::new();
    let mut keeper = Keeper::of(&place, "1000", "echo $$ > pid; while ! [ -e go ]; do sleep 0.01; done; exit 6");
    place.pid("pid");
    // The pid is that of the keeper, because `setsid` and `env` have replaced themselves by it.
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::TSTP] {
        send(keeper.process.id(), signal);
    }
    fs::write(place.path("go"), "").unwrap();
    assert_eq!(keeper.reports(), exit(6));
}

// Promise: S3
#[test]
fn the_command_dies_with_a_keeper_that_is_killed() {
    let place = Place::new();
    let mut keeper = Keeper::of(&place, "1000", &format!("exec {}", deaf("pid")));
    let pid = place.pid("pid");
    keeper.process.kill().unwrap();
    eventually(SOON, || !is_alive(pid));
}

#[test]
fn the_command_has_no_input_and_no_file_of_bandog() {
    let place = Place::new();
    let mut keeper = Keeper::of(&place, "1000", "cat; readlink /proc/self/fd/0; ls /proc/self/fd; env");
    assert_eq!(keeper.reports(), exit(0));
    let mut out = String::new();
    keeper.process.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    let plain = Command::new("sh").args(["-c", "ls /proc/self/fd"]).output().unwrap();
    let expected = format!("/dev/null\n{}", String::from_utf8(plain.stdout).unwrap());
    assert!(out.starts_with(&expected), "{out}");
    assert!(!out.contains("BANDOG_HELD"), "the command runs under no lock, but has BANDOG_HELD: {out}");
}

#[test]
fn a_command_that_cannot_be_run_is_reported() {
    let place = Place::new();
    let (mut socket, theirs) = UnixStream::pair().unwrap();
    let mut command = place.bandog(&["__keep", "1000", "--", "./nowhere"]);
    let output = command.stdin(Stdio::from(OwnedFd::from(theirs))).output().unwrap();
    drop(command);
    let mut text = String::new();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.read_to_string(&mut text).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), exit(127));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot run \"./nowhere\""), "{output:?}");
}

/// The deadline that is this time away, in nanoseconds of the keeper's clock.
fn after(time: Duration) -> u64 {
    (Clock::system().now() + time).as_nanos()
}

fn expired(signal: i32) -> Value {
    json!({ "ended": { "Signal": signal }, "survivors": [], "is_expired": true })
}

// Promise: C13
#[test]
fn the_command_is_killed_at_the_deadline() {
    let place = Place::new();
    let until = format!("--until={}", after(Duration::from_secs(2)));
    let mut keeper = Keeper::with(&place, &["100", &until], &format!("exec {}", deaf("pid")));
    let pid = place.pid("pid");
    assert_eq!(keeper.reports(), expired(9));
    assert!(!is_alive(pid));
    let until = format!("--until={}", after(Duration::from_secs(2)));
    assert_eq!(Keeper::with(&place, &["1000", &until], "exec sleep 1000").reports(), expired(15));
    let past = format!("--until={}", after(Duration::ZERO));
    let report = Keeper::with(&place, &["100", &past], "echo started > started").reports();
    assert!(report["ended"]["Failed"].as_str().unwrap().contains("the lease was over"), "{report}");
    assert!(!place.path("started").exists());
}

// Promise: C13
#[test]
fn an_extended_deadline_counts() {
    let place = Place::new();
    let until = format!("--until={}", after(Duration::from_secs(2)));
    let mut keeper = Keeper::with(&place, &["100", &until], "sleep 4; exit 7");
    let order = [&b"u"[..], &after(Duration::from_secs(3600)).to_le_bytes()].concat();
    let (first, second) = order.split_at(4);
    keeper.socket.write_all(first).unwrap();
    keeper.socket.write_all(second).unwrap();
    assert_eq!(keeper.reports(), exit(7));
}

#[test]
fn the_first_bytes_are_the_input_of_the_command() {
    let place = Place::new();
    let mut keeper = Keeper::with(&place, &["100", "--input=3"], "cat");
    keeper.socket.write_all(b"xyz").unwrap();
    assert_eq!(keeper.reports(), exit(0));
    let mut out = String::new();
    keeper.process.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(out, "xyz");
}
