//! `?replicas=1` while the replica does not acknowledge anything.

use bandog_testkit::{RedisServer, eventually};
use rustix::process::Signal;

use crate::help::{Place, SOON, ends};

#[test]
fn a_lock_that_no_replica_has_acknowledged_does_not_stay_behind() {
    let master = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]);
    let (replica, place) = (RedisServer::replica_of(&master), Place::new());
    replica.pause();
    let url = format!("{}?replicas=1", master.url());
    let options = ["--url", &url, "--lease", "1h", "--wait", "0s"];
    for name in ["a", "b"] {
        place.run(&Place::lock(name, &options, "echo granted")).assert_ended(69, &["replicas have acknowledged"]);
        assert_eq!(master.cmd(&["EXISTS", name]).int(), 0, "{name} stayed behind");
    }
    // A command that is interrupted while the server waits for its replica.
    let mut bandog = place.start(&Place::lock("d", &["--url", &url, "--lease", "1h"], "echo granted"));
    eventually(SOON, || master.cmd(&["EXISTS", "d"]).int() == 1);
    bandog.signal(Signal::TERM);
    ends(&mut bandog, 128 + 15);
    assert_eq!(master.cmd(&["EXISTS", "d"]).int(), 0, "d stayed behind");
    replica.resume();
}

#[test]
fn a_wait_lasts_as_long_as_the_user_asked_for_while_the_replica_is_away() {
    let master = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]);
    let (replica, place) = (RedisServer::replica_of(&master), Place::new());
    replica.pause();
    let url = format!("{}?replicas=1", master.url());
    let mut bandog = place.start(&Place::lock("a", &["-v", "--url", &url, "--wait", "10m"], "echo granted"));
    // Its own claim is no other holder.
    bandog.stderr_line("its grant is not acknowledged yet", SOON);
    assert!(!bandog.stderr().iter().any(|line| line.contains("held by")), "{:?}", bandog.stderr());
    // Without --wait, the command ends after 5 s. In twice this time, the server waits for its replica fewer times than this:
    // twice for each claim, of which each lasts for a second or longer.
    eventually(6 * SOON, || master.calls("wait") >= 25);
    assert!(bandog_testkit::is_alive(bandog.pid()), "{:?}", bandog.stderr());
    replica.resume();
    ends(&mut bandog, 0);
}

/// The server answers a claim after 3 s, and the client releases it twice. A second signal does not wait for this.
#[test]
fn a_second_signal_ends_a_command_that_waits_for_its_last_requests() {
    let master = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]);
    let (replica, place) = (RedisServer::replica_of(&master), Place::new());
    replica.pause();
    let url = format!("{}?replicas=1&timeout=10m", master.url());
    let mut bandog = place.start(&Place::lock("a", &["--url", &url], "echo granted"));
    eventually(SOON, || master.cmd(&["EXISTS", "a"]).int() == 1);
    // The first signal ends the wait for the lock. The next ones end the wait for the server, which would last for minutes.
    eventually(SOON, || {
        bandog.signal(Signal::TERM);
        !bandog_testkit::is_alive(bandog.pid())
    });
    ends(&mut bandog, 128 + 15);
    replica.resume();
}
