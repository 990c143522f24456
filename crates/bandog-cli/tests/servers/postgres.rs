//! The command over PostgreSQL.

use std::sync::LazyLock;

use bandog_testkit::{PostgresServer, eventually};

use crate::{
    help::{Place, SOON, ends},
    schedules::{file, node},
};

/// The server of these tests. At the end of the process, its janitor stops it.
pub(crate) static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

/// The URL of a new database.
pub(crate) fn url() -> String {
    format!("postgres://{}@127.0.0.1:{}/{}", PostgresServer::LOCKS, SERVER.port(), SERVER.new_database())
}

#[test]
fn a_held_lock_is_refused_shown_and_taken_away() {
    let (place, url) = (Place::new(), url());
    let mut holder = place.start(&["lock", "x", "--url", &url, "--", "sh", "-c", "echo held; exec sleep 600"]);
    holder.stdout_line("held", SOON);
    place.run(&["lock", "x", "--wait", "0s", "--url", &url, "--", "true"]).assert_ended(75, &["holds \"x\""]);
    let shown = place.run(&["show", "x", "--json", "--url", &url]);
    assert!(shown.stdout.contains("\"kind\":\"mutex\",\"held\":true"), "{shown:?}");
    assert!(!shown.stdout.contains("PASSWORD"), "{shown:?}");
    place.run(&["release", "--force", "x", "--url", &url]).assert_ended(0, &[]);
    holder.stderr_line("was taken away", SOON);
    holder.wait(SOON);
    place.run(&["lock", "x", "--wait", "0s", "--url", &url, "--", "true"]).assert_ended(0, &[]);
    let doctor = place.run(&["doctor", "--json", "--url", &url]);
    assert!(doctor.stdout.contains("\"subject\":\"synchronous_commit\""), "{doctor:?}");
}

#[test]
fn the_printed_schema_creates_the_tables() {
    let place = Place::new();
    let database = SERVER.new_database();
    let url = format!("postgres://{}@127.0.0.1:{}/{database}?create=false", PostgresServer::LOCKS, SERVER.port());
    place
        .run(&["lock", "x", "--url", &url, "--", "true"])
        .assert_ended(64, &[": the schema \"bandog\" ", "tables of bandog", "create=false"]);
    let printed = place.run(&["schema", "--print", "--url", &url]);
    assert_eq!((printed.code, printed.stderr.as_str()), (0, ""));
    assert!(!printed.stdout.contains("PASSWORD"), "{printed:?}");
    SERVER.sql(&database, &printed.stdout);
    place.run(&["lock", "x", "--url", &url, "--", "true"]).assert_ended(0, &[]);
    place
        .run(&["schema", "--print", "--url", "redis://127.0.0.1:1"])
        .assert_ended(64, &["only PostgreSQL and MySQL have"]);
    place.run(&["schema", "--url", &url]).assert_ended(64, &["--print"]);
}

// Promise: PG23
#[test]
fn a_lock_is_also_a_lock_of_the_database() {
    let (place, database) = (Place::new(), SERVER.new_database());
    let usual = format!("postgres://{}@127.0.0.1:{}/{database}", PostgresServer::LOCKS, SERVER.port());
    let options = "mode=rowlock&table=tb_lock&column=lockname";
    let rowlock = format!("{usual}?{options}");
    place.run(&["doctor", "--url", &format!("{}?{options}", url())]).assert_ended(64, &["\"tb_lock\" does not exist"]);
    SERVER.sql(&database, "create table tb_lock (lockname varchar(64) primary key)");
    let printed = place.run(&["schema", "--print", "--url", &rowlock]);
    SERVER.sql(&database, &printed.stdout); // It also grants the rights on the table.
    let row = "select lockname from tb_lock where lockname = 'x' for update nowait";
    let number = "select true from (select pg_try_advisory_lock(hashtextextended('x', 0)) as taken) t where taken";
    for (url, by_hand, taken) in [(rowlock, row, "x"), (format!("{usual}?mode=advisory"), number, "t")] {
        let mut holder = place.start(&["lock", "x", "--url", &url, "--", "sh", "-c", "echo held; exec sleep 600"]);
        holder.stdout_line("held", SOON);
        assert_ne!(SERVER.try_sql(&database, by_hand).unwrap_or_default(), taken);
        place.run(&["lock", "x", "--wait", "0s", "--url", &url, "--", "true"]).assert_ended(75, &["holds \"x\""]);
        place.run(&["lock", "x", "--wait", "0s", "--url", &usual, "--", "true"]).assert_ended(75, &["holds \"x\""]);
        let doctor = place.run(&["doctor", "--json", "--url", &url]);
        assert!(doctor.stdout.contains("each session that holds a lock"), "{doctor:?}");
        holder.term();
        holder.wait(SOON);
        assert_eq!(SERVER.sql(&database, by_hand), taken);
    }
}

#[test]
fn each_tick_runs_on_one_of_two_nodes() {
    let (place, url) = (Place::new(), url());
    file(&place, "[[job]]\nname = 'x'\nfixed_rate = '100ms'\ncommand = 'echo $BANDOG_TICK >> ticks'\n");
    let mut nodes = [node(&place, &url, &[]), node(&place, &url, &[])];
    eventually(SOON, || place.lines("ticks").len() >= 20);
    for node in &mut nodes {
        node.term();
        ends(node, 0);
    }
    let mut ticks = place.lines("ticks");
    let count = ticks.len();
    ticks.sort();
    ticks.dedup();
    assert_eq!(ticks.len(), count, "a tick ran twice");
    place.run(&["jobs", "ls", "--url", &url]).assert_ended(0, &[]);
}

#[test]
fn a_command_inside_a_command_says_why_it_has_no_password() {
    let nested = format!("{} lock y -- true; exit $?", env!("CARGO_BIN_EXE_bandog"));
    let ran = Place::new().run(&Place::lock("x", &["--url", &url()], &nested));
    ran.assert_ended(77, &["bandog passes BANDOG_URL to its commands without the password"]);
}
