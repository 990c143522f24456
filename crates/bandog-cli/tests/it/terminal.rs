//! Tests on a terminal, which the program `script` provides.

use std::fs;

use bandog_testkit::{Process, Signal, eventually, process::send};

use crate::help::{Place, SOON};

/// Runs a shell command on a new terminal. Lines that the test writes to the process are its keys.
fn on_terminal(place: &Place, line: &str) -> Process {
    let script = ["script", "--quiet", "--return", "--flush", "--command", line, "/dev/null"];
    Process::spawn(&place.command(&script))
}

fn bandog(rest: &str) -> String {
    format!("exec {} lock x {rest}", env!("CARGO_BIN_EXE_bandog"))
}

#[test]
fn a_key_reaches_the_child_once() {
    let place = Place::new();
    let script = "trap \"echo key >> keys\" INT; trap \"echo quit >> keys; exit 6\" QUIT
        echo ready; while :; do sleep 0.02; done";
    let mut screen = on_terminal(&place, &bandog(&format!("-- sh -c '{script}'")));
    screen.stdout_line("ready", SOON);
    for keys in 1..=3 {
        screen.write_line("\u{3}");
        eventually(SOON, || place.lines("keys").len() >= keys);
    }
    screen.write_line("\u{1c}");
    assert_eq!(screen.wait(SOON).code(), Some(6));
    assert_eq!(place.lines("keys"), ["key", "key", "key", "quit"]);
}

#[test]
fn a_signal_from_a_process_is_forwarded_to_the_child_only() {
    let place = Place::new();
    let script = "trap \"echo term >> got\" TERM; trap \"echo int >> got; exit 6\" INT
        echo $PPID > bandog; while :; do sleep 0.02; done";
    // Another process of the pipeline is in the same group, and a signal to the group would kill it.
    let line = pipeline(&format!("lock x -- sh -c '{script}'"));
    let mut screen = on_terminal(&place, &line);
    let pid = place.pid("bandog");
    send(pid, Signal::TERM);
    eventually(SOON, || place.lines("got") == ["term"]);
    send(pid, Signal::INT);
    eventually(SOON, || place.lines("got") == ["term", "int"]);
    screen.wait(SOON);
    assert_eq!(place.written("survived"), "neighbour");
}

#[test]
fn the_child_stays_in_the_foreground_and_may_read_the_keys() {
    let place = Place::new();
    let mut screen = on_terminal(&place, &bandog("-- sh -c 'echo in; read word < /dev/tty; echo got $word; exit 4'"));
    let store = screen.stdout_line("bandog: locking", SOON);
    assert!(store.contains("\"x\"") && store.contains("locks.db"), "{store}");
    screen.stdout_line("in", SOON);
    screen.write_line("bone");
    screen.stdout_line("got bone", SOON);
    assert_eq!(screen.wait(SOON).code(), Some(4));
}

#[test]
fn a_termination_for_the_lock_spares_other_processes_of_the_pipeline() {
    let place = Place::new();
    let script = "trap \"\" TERM; echo $$ > child; while :; do sleep 0.02; done";
    let line = pipeline(&format!("lock x --lease 2s -- sh -c '{script}'"));
    let mut screen = on_terminal(&place, &line);
    screen.wait(SOON);
    assert_eq!(place.written("survived"), "neighbour");
    crate::help::dead(&[place.pid("child")]);
}

#[test]
fn a_waiter_shows_the_holder_in_one_line() {
    let place = Place::new();
    let mut holder = place.start(&Place::lock("x", &[], "echo in; read word; exit 0"));
    holder.stdout_line("in", SOON);
    let line = format!("stty cols 40; {}", bandog("-- sh -c 'echo child'"));
    let script = ["script", "--quiet", "--return", "--flush", "--command", &line, "screen"];
    let mut screen = Process::spawn(place.command(&script).env("TERM", "xterm"));
    let screen_text = || String::from_utf8(fs::read(place.path("screen")).unwrap_or_default()).unwrap_or_default();
    eventually(SOON, || screen_text().matches("for \"x\", held").count() >= 2);
    holder.close_stdin();
    assert_eq!(screen.wait(SOON).code(), Some(0));
    let text = screen_text();
    let lines = text.lines().filter(|line| line.contains("held")).collect::<Vec<_>>();
    assert_eq!(lines.len(), 1, "the holder is not shown in one line: {text:?}");
    assert!(lines[0].ends_with("\r\u{1b}[Kchild"), "the line is not cleared before the child begins: {text:?}");
    for drawn in lines[0].split("\r\u{1b}[K").filter(|drawn| drawn.contains("waiting")) {
        assert_eq!(drawn.len(), 39, "the line does not fit: {drawn:?}");
    }
}

#[test]
fn a_terminal_that_cannot_redraw_gets_a_line_for_each_holder() {
    let place = Place::new();
    let mut holder = place.start(&Place::lock("x", &[], "echo in; read word; exit 0"));
    holder.stdout_line("in", SOON);
    let mut screen = on_terminal(&place, &format!("TERM=dumb; export TERM; {}", bandog("-- echo child")));
    screen.stdout_line("for \"x\", held by", SOON);
    holder.close_stdin();
    assert_eq!(screen.wait(SOON).code(), Some(0));
    let said = screen.stdout().join("\n");
    assert!(!said.contains("\u{1b}[K") && said.contains("child"), "{said:?}");
}

#[test]
fn a_key_while_waiting_leaves_the_queue() {
    let place = Place::new();
    let holder = place.start(&Place::lock("x", &[], "echo in; read word"));
    holder.stdout_line("in", SOON);
    let mut screen = on_terminal(&place, &bandog("-- true"));
    screen.stdout_line("locking", SOON);
    screen.write_line("\u{3}");
    assert_eq!(screen.wait(SOON).code(), Some(130));
}

fn pipeline(bandog: &str) -> String {
    format!("{} {bandog} | {{ cat; echo neighbour > survived; }}", env!("CARGO_BIN_EXE_bandog"))
}
