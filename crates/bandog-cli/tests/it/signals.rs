use bandog_testkit::{Process, Signal, eventually, process::state};

use crate::help::{Place, SOON, ends};

#[test]
fn a_signal_while_waiting_leaves_the_queue() {
    let place = Place::new();
    let mut holder = place.start(&Place::lock("x", &[], "echo in; read word; exit 0"));
    holder.stdout_line("in", SOON);
    let before = place.show("x", &[]);
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let mut waiter = place.start(&["lock", "x", "--", "touch", "ran"]);
        // Bandog installs the handler of this signal last. The programs that start bandog have no handler of it.
        eventually(SOON, || is_catching(waiter.pid(), Signal::TTOU));
        waiter.signal(Signal::USR1); // A waiter without a child ignores this signal.
        waiter.signal(signal);
        ends(&mut waiter, code);
    }
    let after = place.show("x", &[]);
    assert_eq!((&before["owner"], &before["fence"]), (&after["owner"], &after["fence"]));
    holder.close_stdin();
    ends(&mut holder, 0);
    assert!(!place.path("ran").exists());
    assert_eq!(place.show("x", &[])["held"], false);
}

#[test]
fn signals_are_forwarded_and_the_child_decides() {
    let place = Place::new();
    let script = "for s in TERM INT HUP QUIT USR1 USR2 WINCH; do trap \"echo got $s\" $s; done
        echo ready; while :; do read word && exit 5; done";
    let mut bandog = place.start(&Place::lock("x", &[], script));
    bandog.stdout_line("ready", SOON);
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
    ] {
        bandog.signal(signal);
        bandog.stdout_line(&format!("got {name}"), SOON);
    }
    bandog.write_line("enough");
    ends(&mut bandog, 5);
}

#[test]
fn the_whole_group_is_signalled() {
    let place = Place::new();
    let script = "trap 'echo outer; wait; exit 4' TERM
        sh -c 'trap \"echo inner; exit 0\" TERM; echo ready; while :; do sleep 0.02; done' &
        wait; wait; exit 4";
    let mut bandog = place.start(&Place::lock("x", &[], script));
    bandog.stdout_line("ready", SOON);
    bandog.term();
    ends(&mut bandog, 4);
    let mut said = bandog.stdout();
    said.sort();
    assert_eq!(said, ["inner", "outer", "ready"]);
}

#[test]
fn a_child_that_a_signal_ends_releases_the_lock() {
    let place = Place::new();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut bandog = place.start(&Place::lock("x", &[], "echo in; exec sleep 1000"));
        bandog.stdout_line("in", SOON);
        bandog.signal(signal);
        ends(&mut bandog, code);
        assert_eq!(place.show("x", &[])["held"], false);
    }
}

#[test]
fn the_lock_is_kept_while_the_child_is_stopped() {
    let place = Place::new();
    let url = "sqlite:a.db?watchdog=3s";
    let mut bandog = place.start(&Place::lock("x", &["--url", url], "echo $$; read word; exit 0"));
    let child: u32 = bandog.stdout_line("", SOON).parse().unwrap();
    bandog.signal(Signal::TSTP);
    eventually(SOON, || state(child) == Some('T'));
    assert_ne!(state(bandog.pid()), Some('T'), "bandog is stopped, so it cannot renew the lock");
    bandog.signal(Signal::CONT);
    eventually(SOON, || state(child) != Some('T'));
    bandog.close_stdin();
    ends(&mut bandog, 0);
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let place = Place::new();
    let bandog = env!("CARGO_BIN_EXE_bandog");
    let script = format!("trap '' HUP; exec {bandog} lock x -- sh -c 'echo ready; read word; exit 0'");
    let mut bandog = Process::spawn(&place.command(&["setsid", "sh", "-c", &script]));
    bandog.stdout_line("ready", SOON);
    assert!(!is_catching(bandog.pid(), Signal::HUP) && is_catching(bandog.pid(), Signal::TERM));
    bandog.signal(Signal::HUP);
    bandog.write_line("go");
    ends(&mut bandog, 0);
}

/// Whether the process has a handler for the signal.
pub(crate) fn is_catching(pid: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal.as_raw() - 1)) != 0
}
