//! The servers of PostgreSQL and MariaDB.

use bandog_testkit::{MariaDb, Postgres, SqlEngine, SqlServer};

#[test]
fn a_server_of_postgres_keeps_its_data_and_leaves_no_files() {
    keeps_its_data_and_leaves_no_files::<Postgres>();
}

#[test]
fn a_server_of_mariadb_keeps_its_data_and_leaves_no_files() {
    keeps_its_data_and_leaves_no_files::<MariaDb>();
}

fn keeps_its_data_and_leaves_no_files<E: SqlEngine>() {
    let server = SqlServer::<E>::start();
    let database = server.new_database();
    server.sql(&database, "create table t (n int); insert into t values (1), (2)");
    server.kill();
    assert!(server.try_sql(&database, "select 1").is_err(), "a killed server has answered");
    server.restart();
    assert_eq!(server.sql(&database, "select n from t order by n"), "1\n2");
    server.create_database(&database);
    assert!(server.try_sql(&database, "select n from t").is_err(), "the new database has the old data");
    let dir = server.directory().to_owned();
    drop(server);
    assert!(!dir.exists());
}
