use std::process::{Command, Stdio};

use super::*;

#[test]
fn a_child_is_found_until_it_is_dead_unless_it_is_excluded() {
    let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let found = descendants(&[]).into_iter().find(|process| process.pid == pid).unwrap();
    assert!(children().contains(&found));
    assert!(!descendants(&[found]).contains(&found));
    found.signal(Signal::KILL).unwrap();
    while descendants(&[]).contains(&found) {
        std::thread::yield_now();
    }
    assert!(Process::read(found.pid.as_raw_nonzero().get()).is_some_and(|process| process.dead));
    child.wait().unwrap();
    found.signal(Signal::KILL).unwrap();
}
