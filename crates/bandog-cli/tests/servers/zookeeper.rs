//! The command over ZooKeeper.

use std::time::Duration;

use bandog_testkit::ZooKeeperServer;

use crate::help::{Place, ends};

/// Timeout for expected events. A test reaches it only if it fails.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn locks_are_taken_shown_and_released_by_force_on_zookeeper() {
    let (server, place) = (ZooKeeperServer::start(), Place::new());
    let url = format!("zookeeper://{}/locks", server.addr());
    let ended = place.run(&["lock", "orders", "-v", "--url", &url, "--", "sh", "-c", "echo fence $BANDOG_FENCE"]);
    ended.assert_ended(0, &["fence"]);
    assert!(!ended.stderr.contains("establish"), "the log of ZooKeeper's client: {ended:?}");
    let fence: u64 = ended.stdout.trim().strip_prefix("fence ").unwrap().parse().unwrap();
    assert!(fence > 0);

    let mut holder = place.start(&["lock", "orders", "--url", &url, "--", "sh", "-c", "echo held; exec sleep 60"]);
    holder.stdout_line("held", SOON);
    place.run(&["lock", "orders", "--wait", "0s", "--url", &url, "--", "true"]).assert_ended(75, &["orders"]);
    let listed = place.run(&["ls", "--url", &url]);
    assert!(listed.stdout.contains("orders") && listed.stdout.contains("mutex"), "{listed:?}");
    place.run(&["release", "orders", "--force", "--url", &url]).assert_ended(0, &[]);
    place.run(&["lock", "orders", "--wait", "20s", "--url", &url, "--", "true"]).assert_ended(0, &[]);
    // The holder notices it at its next renewal, and terminates the program.
    ends(&mut holder, 76);
}

/// The store grants the lock for less than the watchdog's ttl, and less than the default of `--kill-after`.
#[test]
fn a_command_runs_for_longer_than_a_session_of_zookeeper() {
    let (server, place) = (ZooKeeperServer::start(), Place::new());
    let url = format!("zookeeper://{}/locks?session=5s", server.addr());
    for options in [&[][..], &["--kill-after", "10s"], &["--lease", "1h"]] {
        let args =
            [&["lock", "orders", "--url", &url][..], options, &["--", "sh", "-c", "sleep 4; echo done"]].concat();
        let ended = place.run(&args);
        assert!(ended.code == 0 && ended.stdout.contains("done"), "{options:?}: {ended:?}");
    }
}

#[test]
fn permits_are_taken_shown_and_released_by_force_on_zookeeper() {
    let (server, place) = (ZooKeeperServer::start(), Place::new());
    let url = format!("zookeeper://{}/locks", server.addr());
    let lock = |args: &[&'static str]| {
        let common = ["lock", "gpus", "--url", &url, "--of", "3"].map(str::to_owned);
        common.into_iter().chain(args.iter().map(ToString::to_string)).collect::<Vec<_>>()
    };
    let two = lock(&["--permits", "2", "--", "sh", "-c", "echo held; exec sleep 60"]);
    let mut holder = place.start(&two.iter().map(String::as_str).collect::<Vec<_>>());
    holder.stdout_line("held", SOON);
    let run = |args: &[&'static str]| place.run(&lock(args).iter().map(String::as_str).collect::<Vec<_>>());
    run(&["--permits", "1", "--wait", "0s", "--", "true"]).assert_ended(0, &[]);
    run(&["--permits", "2", "--wait", "0s", "--", "true"]).assert_ended(75, &["gpus"]);
    place.run(&["limit", "gpus", "4", "--url", &url]).assert_ended(0, &[]);
    run(&["--permits", "2", "--wait", "0s", "--", "true"]).assert_ended(0, &[]);
    let listed = place.run(&["ls", "--url", &url]);
    assert!(listed.stdout.contains("gpus") && listed.stdout.contains("semaphore"), "{listed:?}");
    let shown = place.run(&["show", "gpus", "--url", &url]);
    assert!(shown.stdout.contains("2 of 4"), "{shown:?}");
    place.run(&["release", "gpus", "--force", "--url", &url]).assert_ended(0, &[]);
    // The holder notices it at its next renewal, and terminates the program.
    ends(&mut holder, 76);
}

/// The lock of a scheduler's node is granted for less than the lease of the job, and renewed more often.
#[test]
fn a_run_lasts_for_longer_than_a_session_of_zookeeper() {
    let (server, place) = (ZooKeeperServer::start(), Place::new());
    let url = format!("zookeeper://{}/jobs?session=5s", server.addr());
    let jobs = "[[job]]\nname = \"slow\"\nfixed_rate = \"7s\"\ncommand = \"sleep 6; echo completed\"\n";
    std::fs::write(place.path("jobs.toml"), jobs).unwrap();
    let file = place.path("jobs.toml");
    let mut daemon = place.start(&["schedule", file.to_str().unwrap(), "--url", &url]);
    daemon.stdout_line("completed", SOON);
    daemon.term();
    assert!(daemon.wait(SOON).success());
}

#[test]
fn jobs_run_on_zookeeper() {
    let (server, place) = (ZooKeeperServer::start(), Place::new());
    let url = format!("zookeeper://{}/jobs", server.addr());
    let jobs = "[[job]]\nname = \"hello\"\nfixed_rate = \"1s\"\ncommand = \"echo hello from $BANDOG_JOB\"\n";
    std::fs::write(place.path("jobs.toml"), jobs).unwrap();
    let file = place.path("jobs.toml");
    let mut daemon = place.start(&["schedule", file.to_str().unwrap(), "--url", &url]);
    daemon.stdout_line("hello from", SOON);
    let listed = place.run(&["jobs", "ls", "--url", &url]);
    assert!(listed.code == 0 && listed.stdout.contains("hello"), "{listed:?}");
    daemon.term();
    assert!(daemon.wait(SOON).success());
}

#[test]
fn doctor_reports_the_servers_of_zookeeper() {
    let (server, place) = (ZooKeeperServer::start(), Place::new());
    let url = format!("zookeeper://{}/locks", server.addr());
    let ran = place.run(&["doctor", "--url", &url]);
    ran.assert_ended(0, &[]);
    assert!(ran.stdout.contains("standalone") && ran.stdout.contains("ensemble"), "{ran:?}");

    let two = format!("zookeeper://{},127.0.0.1:1/locks", server.addr());
    let ran = place.run(&["doctor", "--url", &two]);
    assert!(ran.code == 1 && ran.stdout.contains("127.0.0.1:1 cannot be reached"), "{ran:?}");
}
