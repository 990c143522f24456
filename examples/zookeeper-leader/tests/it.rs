//! Two candidates on a real ZooKeeper. The leader is killed, stopped, or ended.

use std::process::Command;
use std::time::Duration;

use bandog_testkit::{Process, ZooKeeperServer, eventually};

/// Timeout for expected events. A test reaches it only if it fails.
const SOON: Duration = Duration::from_secs(90);

fn candidate(server: &ZooKeeperServer, name: &str) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bandog-example-zookeeper-leader"));
    let url = format!("zookeeper://{}/example?session=5s", server.addr());
    Process::spawn(command.arg(name).env("ZOOKEEPER_URL", url))
}

/// Waits until this process works again, and returns its fence.
fn fence(process: &Process) -> u64 {
    let line = process.stdout_line("works under fence", SOON);
    line.rsplit(' ').next().and_then(|fence| fence.parse().ok()).expect("a fence")
}

#[test]
fn the_other_candidate_leads_after_the_leader_was_killed() {
    let server = ZooKeeperServer::start();
    let first = candidate(&server, "first");
    let before = fence(&first);
    let second = candidate(&server, "second");
    second.stdout_line("second is a candidate", SOON);
    first.stdout_line("works", SOON); // it still leads

    first.kill();
    assert!(fence(&second) > before);
}

#[test]
fn a_stopped_leader_has_lost_the_leadership_when_it_continues() {
    let server = ZooKeeperServer::start();
    let mut first = candidate(&server, "first");
    let before = fence(&first);
    let second = candidate(&server, "second");
    second.stdout_line("second is a candidate", SOON);

    first.stop();
    let after = fence(&second);
    assert!(after > before);
    let lines = first.stdout().len();
    first.cont();
    eventually(SOON, || first.stdout().iter().any(|line| line.contains("has lost the leadership")));
    let next = first.stdout()[lines].clone();
    assert_eq!(next, "first has lost the leadership", "it has worked although another process leads");

    second.term(); // the leader ends, and the other one leads at once
    eventually(SOON, || first.stdout().last().is_some_and(|line| line.contains("works under fence")));
    let line = first.stdout().pop().unwrap_or_default();
    let last: u64 = line.rsplit(' ').next().and_then(|fence| fence.parse().ok()).expect("a fence");
    assert!(last > after, "{last} after {after}");
    first.term();
    assert!(first.wait(SOON).success());
}
