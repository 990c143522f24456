//! The PostgreSQL or MariaDB server is killed while a command runs.

use std::time::{Duration, Instant};

use bandog_testkit::{MariaDbServer, PostgresServer, Process, eventually};

use crate::help::{Place, SOON, ends};

/// The user and the password, which no output contains.
const LOCKS: &str = PostgresServer::LOCKS;

/// Maximum time until the end of a command whose ttl is three seconds.
const IN_TIME: Duration = Duration::from_secs(10);

/// A server of its own for one test.
enum Server {
    Postgres(PostgresServer, String),
    MariaDb(MariaDbServer, String),
}

impl Server {
    /// One of each kind.
    fn each() -> [fn() -> Self; 2] {
        [
            || {
                let server = PostgresServer::start();
                let database = server.new_database();
                Self::Postgres(server, database)
            },
            || {
                let server = MariaDbServer::start();
                let database = server.new_database();
                Self::MariaDb(server, database)
            },
        ]
    }

    fn url(&self) -> String {
        match self {
            Self::Postgres(server, database) => format!("postgres://{LOCKS}@127.0.0.1:{}/{database}", server.port()),
            Self::MariaDb(server, database) => format!("mysql://{LOCKS}@127.0.0.1:{}/{database}", server.port()),
        }
    }

    fn kill(&self) {
        match self {
            Self::Postgres(server, _) => server.kill(),
            Self::MariaDb(server, _) => server.kill(),
        }
    }

    fn restart(&self) {
        match self {
            Self::Postgres(server, _) => server.restart(),
            Self::MariaDb(server, _) => server.restart(),
        }
    }

    /// The time at which the lease of `x` expires.
    fn expires(&self) -> String {
        match self {
            Self::Postgres(server, database) => {
                server.sql(database, "select expires from bandog.bandog_lease where name = 'x'")
            }
            Self::MariaDb(server, database) => {
                server.sql(database, "select expires from bandog_lease where name = 'x'")
            }
        }
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

#[test]
fn a_command_survives_a_crash_of_the_server() {
    for start in Server::each() {
        let (server, place) = (start(), Place::new());
        let url = format!("{}?timeout=2s", server.url());
        let mut bandog = place.start(&Place::lock("x", &["--url", &url], "echo ready; read word; exit 5"));
        bandog.stdout_line("ready", SOON);
        let before = server.expires();
        server.kill();
        server.restart();
        eventually(SOON, || server.expires() > before);
        place.run(&["lock", "x", "--wait", "0s", "--url", &url, "--", "true"]).assert_ended(75, &["holds \"x\""]);
        bandog.close_stdin();
        ends_saying(&mut bandog, 5, &[]);
        place.run(&["lock", "x", "--wait", "0s", "--url", &url, "--", "true"]).assert_ended(0, &[]);
    }
}

#[test]
fn a_server_that_stays_away_ends_the_command_before_its_ttl() {
    for start in Server::each() {
        let (server, place) = (start(), Place::new());
        let url = format!("{}?watchdog=3s", server.url());
        let script = "trap 'echo notified; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
        let mut bandog = place.start(&Place::lock("x", &["--url", &url, "--kill-after", "1s"], script));
        bandog.stdout_line("ready", SOON);
        let killed = Instant::now();
        server.kill();
        bandog.stdout_line("notified", SOON);
        ends_saying(&mut bandog, 76, &["could not be renewed", "\"x\"", &format!("127.0.0.1:{}", port(&url))]);
        assert!(killed.elapsed() < IN_TIME, "{:?}", killed.elapsed());

        // A new command does not hang either.
        let asked = Instant::now();
        for args in
            [&["lock", "x", "--url", &url, "--", "true"][..], &["ls", "--url", &url], &["show", "x", "--url", &url]]
        {
            ends_saying(&mut place.start(args), 69, &[&format!("127.0.0.1:{}", port(&url))]);
        }
        assert!(asked.elapsed() < 3 * IN_TIME, "{:?}", asked.elapsed());
    }
}

#[test]
fn a_command_that_ends_while_the_server_is_away_keeps_its_code() {
    for start in Server::each() {
        let (server, place) = (start(), Place::new());
        let url = format!("{}?timeout=1s", server.url());
        let mut bandog = place.start(&Place::lock("x", &["--url", &url], "echo ready; read word; exit 3"));
        bandog.stdout_line("ready", SOON);
        server.kill();
        let killed = Instant::now();
        bandog.close_stdin();
        ends_saying(&mut bandog, 3, &["after its ttl", "\"x\""]);
        assert!(killed.elapsed() < IN_TIME, "{:?}", killed.elapsed());
    }
}

#[test]
fn a_waiter_gets_the_lock_when_the_server_is_back() {
    for start in Server::each() {
        let (server, place) = (start(), Place::new());
        let url = format!("{}?watchdog=3s", server.url());
        let holder = place.start(&Place::lock("x", &["--url", &url], "echo in; exec sleep 1000"));
        holder.stdout_line("in", SOON);
        let mut waiter = place.start(&["lock", "x", "-v", "--url", &url, "--", "sh", "-c", "exit 4"]);
        waiter.stderr_line("\"x\"", SOON);
        server.kill();
        drop(holder);
        server.restart();
        ends_saying(&mut waiter, 4, &["got \"x\""]);
    }
}

fn port(url: &str) -> &str {
    url.rsplit_once(':').unwrap().1.split_once('/').unwrap().0
}
