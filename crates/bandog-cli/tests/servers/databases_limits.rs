//! Users of PostgreSQL and MariaDB that may have one connection, or lack rights.

use std::time::{Duration, Instant};

use bandog_testkit::eventually;

use crate::{
    help::{Place, Ran, SOON, ends},
    mysql, postgres,
    schedules::{file, node},
};

/// A job that runs often.
const OFTEN: &str = "[[job]]\nname = 'x'\nfixed_rate = '100ms'\ncommand = 'echo $BANDOG_TICK >> ticks'\n";

/// A user of a new database, and a function that counts its sessions.
struct User {
    url: String,
    sessions: Box<dyn Fn() -> String>,
}

impl User {
    /// A user on each server that may create the tables, and may have one connection.
    fn with_one_connection() -> [Self; 2] {
        let (server, database) = (&*postgres::SERVER, postgres::SERVER.new_database());
        let role = format!("one_{database}");
        server.sql(
            &database,
            &format!(
                "create role {role} login password 'PASSWORD' connection limit 1;
                 grant create on database {database} to {role}"
            ),
        );
        let postgres = Self {
            url: format!("postgres://{role}:PASSWORD@127.0.0.1:{}/{database}", server.port()),
            // A session counts for the limit until its process has ended, and is listed for a shorter time.
            sessions: Box::new(move || processes_titled(&role).to_string()),
        };
        let (server, database) = (&*mysql::SERVER, mysql::SERVER.new_database());
        let user = format!("one_{database}");
        server.sql(
            "mysql",
            &format!(
                "create user {user}@'%' identified by 'PASSWORD' with max_user_connections 1;
                 grant select, insert, update, delete, create on {database}.* to {user}@'%'"
            ),
        );
        let mysql = Self {
            url: format!("mysql://{user}:PASSWORD@127.0.0.1:{}/{database}", server.port()),
            sessions: Box::new(move || {
                let count = format!("select count(*) from information_schema.processlist where user = '{user}'");
                server.sql("mysql", &count)
            }),
        };
        [postgres, mysql]
    }

    /// Waits until the sessions of the last command have ended.
    fn is_idle(&self) {
        eventually(SOON, || (self.sessions)() == "0");
    }
}

/// The number of processes whose title or command contains this text.
fn processes_titled(text: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|process| process.path().join("cmdline"));
    processes.filter(|title| std::fs::read_to_string(title).is_ok_and(|title| title.contains(text))).count()
}

/// Runs a command that has the only connection.
fn run_alone(place: &Place, user: &User, args: &[&str]) -> Ran {
    user.is_idle();
    let (options, command) = args.split_at(args.iter().position(|arg| *arg == "--").unwrap_or(args.len()));
    let ran = place.run(&[options, &["--url", &user.url], command].concat());
    // The servers of tests write nothing to the disk, which `doctor` reports as a danger.
    let code = i32::from(args == ["doctor"] && ran.stdout.contains("danger  fsync"));
    assert!(
        ran.code == code && !ran.stderr.contains("connection") && !ran.stderr.contains("registry"),
        "{args:?}: {ran:?}"
    );
    ran
}

#[test]
fn one_connection_is_enough_for_each_command() {
    for user in User::with_one_connection() {
        let place = Place::new();
        for args in [
            &["doctor"][..],
            &["ls"],
            &["jobs", "ls"],
            &["latch", "q", "set", "2"],
            &["latch", "q", "count"],
            &["forget", "x", "--dry-run"],
            &["lock", "x", "--", "true"],
            &["show", "x"],
        ] {
            run_alone(&place, &user, args);
        }
        let doctor = run_alone(&place, &user, &["doctor"]);
        assert!(doctor.stdout.contains("may have 1, and each client of bandog uses up to 4"), "{doctor:?}");
        assert!(!doctor.stdout.contains("connections="), "{doctor:?}");
        user.is_idle();
        file(&place, OFTEN);
        let mut running = node(&place, &user.url, &[]);
        eventually(SOON, || place.lines("ticks").len() >= 5);
        // Another client gets no connection now. A busy server may answer later than a command waits.
        let answered = |args: &[&str]| {
            let mut ran = place.run(args);
            eventually(SOON, || {
                let is_late = ran.stderr.contains("did not answer ");
                if is_late {
                    ran = place.run(args);
                }
                !is_late
            });
            ran
        };
        let doctor = answered(&["doctor", "--url", &user.url]);
        doctor.assert_ended(1, &[]);
        assert!(doctor.stdout.contains("danger  connections of the user"), "{doctor:?}");
        let refused = answered(&["ls", "--url", &user.url]);
        refused.assert_ended(69, &["a client needs at least one and uses up to 4", "raise the limit"]);
        assert!(!refused.stderr.contains("check that the store runs"), "{refused:?}");
        running.term();
        ends(&mut running, 0);
    }
}

/// The advice after an error leads to the missing rights, and not in a circle.
#[test]
fn the_doctor_lists_the_rights_that_a_user_lacks() {
    let place = Place::new();
    let (server, owner) = (&*postgres::SERVER, postgres::url());
    let database = owner.rsplit_once('/').unwrap().1;
    let role = format!("few_{database}");
    server.sql(database, &format!("create role {role} login password 'PASSWORD'"));
    let few_on_postgres = format!("postgres://{role}:PASSWORD@127.0.0.1:{}/{database}", server.port());
    place.run(&["lock", "x", "--url", &owner, "--", "true"]).assert_ended(0, &[]);

    let (server, owner) = (&*mysql::SERVER, mysql::url());
    let database = owner.rsplit_once('/').unwrap().1;
    let user = format!("few_{database}");
    place.run(&["lock", "x", "--url", &owner, "--", "true"]).assert_ended(0, &[]);
    server.sql(
        "mysql",
        &format!(
            "create user {user}@'%' identified by 'PASSWORD'; grant select on {database}.bandog_lease to {user}@'%'"
        ),
    );
    let few_on_mysql = format!("mysql://{user}:PASSWORD@127.0.0.1:{}/{database}", server.port());
    for (url, right, grant) in [
        (few_on_postgres, "usage on schema bandog", format!("grant usage on schema bandog to \"{role}\"")),
        (few_on_mysql.clone(), ".bandog_meta", format!("`{database}`.bandog_meta to '{user}'@'%'")),
    ] {
        place.run(&["lock", "x", "--url", &url, "--", "true"]).assert_ended(77, &["run `bandog doctor`"]);
        let doctor = place.run(&["doctor", "--url", &url]);
        assert_eq!((doctor.code, doctor.stderr.as_str()), (1, ""), "{doctor:?}");
        let worst = doctor.stdout.lines().rev().take(2).collect::<Vec<_>>();
        assert!(worst[1].starts_with("danger  rights") && worst[1].contains(right), "{doctor:?}");
        assert!(worst[0].contains(&grant), "{doctor:?}");
    }
    // The server refuses the login of a user without any right on the database.
    server.sql("mysql", &format!("revoke select on {database}.bandog_lease from {user}@'%'"));
    let doctor = place.run(&["doctor", "--url", &few_on_mysql]);
    let grant = format!("grant select, insert, update, delete, create on `{database}`.* to '{user}'@'%'");
    doctor.assert_ended(77, &[&grant]);
    assert!(!doctor.stderr.contains("bandog doctor"), "{doctor:?}");
}

#[test]
fn settings_of_the_url_that_the_server_refuses_end_a_command_at_once() {
    let (place, url) = (Place::new(), postgres::url());
    for settings in ["garbage", "-c%20nonsense%3D1"] {
        let (url, start) = (format!("{url}?options={settings}"), Instant::now());
        let ran = place.run(&["lock", "x", "--url", &url, "--", "true"]);
        ran.assert_ended(64, &["correct options= in the URL"]);
        assert!(!ran.stderr.contains("check that the store runs"), "{ran:?}");
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    }
}
