//! The command over PostgreSQL and MariaDB.

use bandog_testkit::{SqlEngine, SqlServer, eventually};

use crate::{
    help::{Place, SOON, ends},
    schedules::{file, node},
};

/// Declares each test over a database.
macro_rules! tests {
    ($database:ty) => {
        $crate::sql::tests! { $database, sql:
            #[test]
            fn a_held_lock_is_refused_shown_and_taken_away();
            // Promise: PG23, MY18
            #[test]
            fn a_lock_is_also_a_lock_of_the_database();
            #[test]
            fn each_tick_runs_on_one_of_two_nodes();
            #[test]
            fn a_command_inside_a_command_says_why_it_has_no_password();
        }
        $crate::sql::tests! { $database, databases:
            #[test]
            fn held_locks_are_listed_as_a_table_and_as_json();
            #[test]
            fn the_page_shows_locks_and_jobs_and_runs_a_job();
        }
        $crate::sql::tests! { $database, databases_away:
            #[test]
            fn a_command_survives_a_crash_of_the_server();
            #[test]
            fn a_server_that_stays_away_ends_the_command_before_its_ttl();
            #[test]
            fn a_command_that_ends_while_the_server_is_away_keeps_its_code();
            #[test]
            fn a_waiter_gets_the_lock_when_the_server_is_back();
        }
    };
    ($database:ty, $file:ident: $($(#[$test:meta])+ fn $name:ident();)+) => {$(
        $(#[$test])+
        fn $name() {
            $crate::$file::$name::<$database>();
        }
    )+};
}
pub(crate) use tests;

/// A database of these tests.
pub(crate) trait Database: SqlEngine {
    /// A statement with which a session finds the tables of bandog without their schema.
    const USE_TABLES: &'static str;
    /// A setting that the check for operators reports.
    const SETTING: &'static str;
    /// What a client says without the table of the rows of locks.
    const NO_ROWS: &'static str;
    /// Creates this table, for the user of the clients.
    const ROWS: &'static str;
    /// The statement that takes the lock `x` of the mode `advisory`, and its row if it succeeds.
    const ADVISORY: [&'static str; 2];

    /// The server of most tests. At the end of the process, its janitor stops it.
    fn shared() -> &'static SqlServer<Self>;

    /// The URL of a new database.
    fn url() -> String {
        Self::shared().url(&Self::shared().new_database())
    }
}

pub(crate) fn a_held_lock_is_refused_shown_and_taken_away<D: Database>() {
    let (place, url) = (Place::new(), D::url());
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
    assert!(doctor.stdout.contains(&format!("\"subject\":\"{}\"", D::SETTING)), "{doctor:?}");
}

pub(crate) fn a_lock_is_also_a_lock_of_the_database<D: Database>() {
    let (place, server) = (Place::new(), D::shared());
    let database = server.new_database();
    let usual = server.url(&database);
    let rowlock = format!("{usual}?mode=rowlock&table=tb_lock&column=lockname");
    place.run(&["doctor", "--url", &rowlock]).assert_ended(64, &[D::NO_ROWS]);
    server.sql(&database, D::ROWS);
    let row = ["select lockname from tb_lock where lockname = 'x' for update nowait", "x"];
    for (url, [by_hand, taken]) in [(rowlock, row), (format!("{usual}?mode=advisory"), D::ADVISORY)] {
        let mut holder = place.start(&["lock", "x", "--url", &url, "--", "sh", "-c", "echo held; exec sleep 600"]);
        holder.stdout_line("held", SOON);
        assert_ne!(server.try_sql(&database, by_hand).unwrap_or_default(), taken);
        place.run(&["lock", "x", "--wait", "0s", "--url", &url, "--", "true"]).assert_ended(75, &["holds \"x\""]);
        place.run(&["lock", "x", "--wait", "0s", "--url", &usual, "--", "true"]).assert_ended(75, &["holds \"x\""]);
        let doctor = place.run(&["doctor", "--json", "--url", &url]);
        assert!(doctor.stdout.contains("each session that holds a lock"), "{doctor:?}");
        holder.term();
        holder.wait(SOON);
        assert_eq!(server.sql(&database, by_hand), taken);
    }
}

pub(crate) fn each_tick_runs_on_one_of_two_nodes<D: Database>() {
    let (place, url) = (Place::new(), D::url());
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

pub(crate) fn a_command_inside_a_command_says_why_it_has_no_password<D: Database>() {
    let nested = format!("{} lock y -- true; exit $?", env!("CARGO_BIN_EXE_bandog"));
    let ran = Place::new().run(&Place::lock("x", &["--url", &D::url()], &nested));
    ran.assert_ended(77, &["bandog passes BANDOG_URL to its commands without the password"]);
}
