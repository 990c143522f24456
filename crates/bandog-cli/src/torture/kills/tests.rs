use std::time::Duration;

use rustix::process::Signal;

use super::{Kill, parse};

#[test]
fn a_kill_has_a_process_a_signal_and_a_time() {
    let kill = |signal, seconds| Ok(Kill { pid: 4711, signal, at: Duration::from_secs(seconds) });
    assert_eq!(parse("4711@20s"), kill(Signal::KILL, 20));
    assert_eq!(parse("4711:STOP@0s"), kill(Signal::STOP, 0));
    assert_eq!(parse("4711:sigcont@2m"), kill(Signal::CONT, 120));
}

#[test]
fn mistakes_are_named() {
    for (text, part) in [
        ("4711", "4711:STOP@20s"),
        ("redis@20s", "\"redis\" is no process id"),
        ("1@20s", "\"1\" is no process id"),
        ("-4711@20s", "is no process id"),
        ("4711:DIE@20s", "\"DIE\" is none of the signals KILL"),
        ("4711@soon", "write it like 500ms"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}
