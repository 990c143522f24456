//! The command over PostgreSQL.

use std::sync::LazyLock;

use bandog_testkit::{Postgres, PostgresServer};

use crate::{
    help::Place,
    sql::{self, Database},
};

sql::tests!(bandog_testkit::Postgres);

pub(crate) static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

impl Database for Postgres {
    const USE_TABLES: &'static str = "set search_path to bandog, public";
    const SETTING: &'static str = "synchronous_commit";
    const NO_ROWS: &'static str = "\"tb_lock\" does not exist";
    const ROWS: &'static str = "create table tb_lock (lockname varchar(64) primary key);
        grant select, insert, update on tb_lock to locks";
    const ADVISORY: [&'static str; 2] =
        ["select true from (select pg_try_advisory_lock(hashtextextended('x', 0)) as taken) t where taken", "t"];

    fn shared() -> &'static PostgresServer {
        &SERVER
    }
}

/// The URL of a new database.
pub(crate) fn url() -> String {
    Postgres::url()
}

#[test]
fn the_printed_schema_creates_the_tables() {
    let place = Place::new();
    let database = SERVER.new_database();
    let url = format!("{}?create=false", SERVER.url(&database));
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

/// The printed tables include the rights on a table of rows.
// Promise: PG23
#[test]
fn the_printed_schema_grants_the_rights_on_the_rows_of_locks() {
    let (place, database) = (Place::new(), SERVER.new_database());
    SERVER.sql(&database, "create table tb_lock (lockname varchar(64) primary key)");
    let url = format!("{}?mode=rowlock&table=tb_lock&column=lockname", SERVER.url(&database));
    let printed = place.run(&["schema", "--print", "--url", &url]);
    SERVER.sql(&database, &printed.stdout);
    place.run(&["lock", "x", "--url", &url, "--", "true"]).assert_ended(0, &[]);
}
