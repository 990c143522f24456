//! The PostgreSQL or MariaDB server is killed while a command runs.

use std::time::{Duration, Instant};

use bandog_testkit::{Process, SqlServer, eventually};

use crate::{
    help::{Place, SOON, ends},
    sql::Database,
};

/// Maximum time until the end of a command whose ttl is three seconds.
const IN_TIME: Duration = Duration::from_secs(10);

/// A server of its own for one test, with a database.
struct Own<D: Database> {
    server: SqlServer<D>,
    database: String,
}

impl<D: Database> Own<D> {
    fn start() -> Self {
        let server = SqlServer::start();
        Self { database: server.new_database(), server }
    }

    fn url(&self) -> String {
        self.server.url(&self.database)
    }

    /// The time at which the lease of `x` expires.
    fn expires(&self) -> String {
        let expires = "select expires from bandog_lease where name = 'x'";
        self.server.sql(&self.database, &format!("{}; {expires}", D::USE_TABLES))
    }
}

/// Asserts that the command ends in time with this code, and that it says these words and no password.
#[track_caller]
fn ends_saying(process: &mut Process, code: i32, words: &[&str]) {
    ends(process, code);
    let said = process.stderr().join("\n");
    assert!(words.iter().all(|word| said.contains(word)), "no {words:?} in {said}");
    assert!(!said.contains("PASSWORD"), "{said}");
}

pub(crate) fn a_command_survives_a_crash_of_the_server<D: Database>() {
    let (own, place) = (Own::<D>::start(), Place::new());
    let url = format!("{}?timeout=2s", own.url());
    let mut bandog = place.start(&Place::lock("x", &["--url", &url], "echo ready; read word; exit 5"));
    bandog.stdout_line("ready", SOON);
    let before = own.expires();
    own.server.kill();
    own.server.restart();
    eventually(SOON, || own.expires() > before);
    place.run(&["lock", "x", "--wait", "0s", "--url", &url, "--", "true"]).assert_ended(75, &["holds \"x\""]);
    bandog.close_stdin();
    ends_saying(&mut bandog, 5, &[]);
    place.run(&["lock", "x", "--wait", "0s", "--url", &url, "--", "true"]).assert_ended(0, &[]);
}

pub(crate) fn a_server_that_stays_away_ends_the_command_before_its_ttl<D: Database>() {
    let (own, place) = (Own::<D>::start(), Place::new());
    let url = format!("{}?watchdog=3s", own.url());
    let script = "trap 'echo notified; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let mut bandog = place.start(&Place::lock("x", &["--url", &url, "--kill-after", "1s"], script));
    bandog.stdout_line("ready", SOON);
    let killed = Instant::now();
    own.server.kill();
    bandog.stdout_line("notified", SOON);
    ends_saying(&mut bandog, 76, &["could not be renewed", "\"x\"", &format!("127.0.0.1:{}", port(&url))]);
    assert!(killed.elapsed() < IN_TIME, "{:?}", killed.elapsed());

    // A new command does not hang either.
    let asked = Instant::now();
    for args in [&["lock", "x", "--url", &url, "--", "true"][..], &["ls", "--url", &url], &["show", "x", "--url", &url]]
    {
        ends_saying(&mut place.start(args), 69, &[&format!("127.0.0.1:{}", port(&url))]);
    }
    assert!(asked.elapsed() < 3 * IN_TIME, "{:?}", asked.elapsed());
}

pub(crate) fn a_command_that_ends_while_the_server_is_away_keeps_its_code<D: Database>() {
    let (own, place) = (Own::<D>::start(), Place::new());
    let url = format!("{}?timeout=1s", own.url());
    let mut bandog = place.start(&Place::lock("x", &["--url", &url], "echo ready; read word; exit 3"));
    bandog.stdout_line("ready", SOON);
    own.server.kill();
    let killed = Instant::now();
    bandog.close_stdin();
    ends_saying(&mut bandog, 3, &["after its ttl", "\"x\""]);
    assert!(killed.elapsed() < IN_TIME, "{:?}", killed.elapsed());
}

pub(crate) fn a_waiter_gets_the_lock_when_the_server_is_back<D: Database>() {
    let (own, place) = (Own::<D>::start(), Place::new());
    let url = format!("{}?watchdog=3s", own.url());
    let holder = place.start(&Place::lock("x", &["--url", &url], "echo in; exec sleep 1000"));
    holder.stdout_line("in", SOON);
    let mut waiter = place.start(&["lock", "x", "-v", "--url", &url, "--", "sh", "-c", "exit 4"]);
    waiter.stderr_line("\"x\"", SOON);
    own.server.kill();
    drop(holder);
    own.server.restart();
    ends_saying(&mut waiter, 4, &["got \"x\""]);
}

fn port(url: &str) -> &str {
    url.rsplit_once(':').unwrap().1.split_once('/').unwrap().0
}
