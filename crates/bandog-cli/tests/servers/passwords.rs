//! No output over PostgreSQL and MariaDB contains the password of the URL, and each error says what to do.

use std::fs;

use bandog_testkit::{MariaDbServer, PostgresServer};

use crate::help::{Place, Ran};

/// A password as it is, and in a URL.
const PLAIN: &str = "hunter@2/x:y%";
const ENCODED: &str = "hunter%402%2Fx%3Ay%25";

/// The scheme, the port and the database of a server that has the user `odd`.
struct Reached {
    scheme: &'static str,
    port: u16,
    database: String,
}

impl Reached {
    fn url(&self, password: &str, more: &str) -> String {
        format!("{}://odd:{password}@127.0.0.1:{}/{}{more}", self.scheme, self.port, self.database)
    }
}

/// Runs a command with this URL. No output has the password, also that of a command under the lock.
#[track_caller]
fn run(place: &Place, args: &[&str], url: &str) -> Ran {
    let options = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
    let ran = place.run(&[&args[..options], &["--url", url], &args[options..]].concat());
    println!("{args:?} {url}: {}\n{}", ran.code, ran.stderr);
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains("hunter"), "{args:?}: {ran:?}");
    }
    ran
}

fn check(reached: &Reached) {
    let place = Place::new();
    fs::write(place.path("jobs.toml"), "[[job]]\nname = 'x'\ncron = '0 0 0 1 1 ?'\ncommand = 'true'\n").unwrap();
    let right = reached.url(ENCODED, "");
    run(&place, &["lock", "x", "-vvv", "--", "env"], &right).assert_ended(0, &["got \"x\""]);
    for args in [
        &["ls", "-vvv"][..],
        &["show", "x"],
        &["show", "x", "--json"],
        &["jobs", "ls"],
        &["latch", "l", "set", "1"],
        &["limit", "s", "3"],
        &["schema", "--print"],
        &["schedule", "jobs.toml", "--check"],
    ] {
        run(&place, args, &right).assert_ended(0, &[]);
    }
    let doctor = run(&place, &["doctor"], &right);
    assert!(doctor.stdout.contains("odd:***@127.0.0.1"), "{doctor:?}");

    let lock = ["lock", "x", "-vvv", "--wait", "1s", "--", "true"];
    let wrong = reached.url("hunter%403", "");
    run(&place, &lock, &wrong).assert_ended(77, &["check the user and the password in the URL"]);
    run(&place, &["ls"], &wrong).assert_ended(77, &["check the user and the password in the URL"]);
    let nowhere = Reached { database: "nowhere".to_owned(), ..*reached };
    run(&place, &lock, &nowhere.url(ENCODED, "")).assert_ended(77, &["nowhere"]);
    run(&place, &lock, &reached.url(ENCODED, "?watchdogs=3s")).assert_ended(64, &["watchdogs"]);
    run(&place, &lock, &reached.url(ENCODED, "?watchdog=3")).assert_ended(64, &["watchdog"]);
    run(&place, &lock, &reached.url(PLAIN, "")).assert_ended(64, &["%2F for /"]);
    let away = Reached { port: 1, database: reached.database.clone(), ..*reached };
    run(&place, &lock, &away.url(ENCODED, "?timeout=1s")).assert_ended(69, &["127.0.0.1:1"]);
}

#[test]
fn no_output_over_postgresql_contains_the_password() {
    let server = PostgresServer::start();
    let database = server.new_database();
    server.sql(
        &database,
        &format!("create role odd login password '{PLAIN}'; grant create on database {database} to odd"),
    );
    check(&Reached { scheme: "postgres", port: server.port(), database });
}

#[test]
fn no_output_over_mariadb_contains_the_password() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    server
        .sql(&database, &format!("create user odd@'%' identified by '{PLAIN}'; grant all on {database}.* to odd@'%'"));
    check(&Reached { scheme: "mysql", port: server.port(), database });
}
