//! The server of the tests.

use std::{collections::BTreeSet, sync::LazyLock};

use bandog_testkit::{PostgresServer, eventually_async};

pub(crate) use crate::claims::{SOON, TTL, claim, open, release, renew, take, try_take};

/// The server of most tests. At the end of the process, its janitor stops it.
pub(crate) static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

/// The URL of a database for a user without further rights.
pub(crate) fn url(server: &PostgresServer, database: &str) -> String {
    format!("postgres://{}@127.0.0.1:{}/{database}", PostgresServer::LOCKS, server.port())
}

/// A connection of a superuser, for statements by hand.
pub(crate) async fn raw(server: &PostgresServer, database: &str) -> tokio_postgres::Client {
    let config =
        format!("host={} port={} user=postgres dbname={database}", server.directory().display(), server.port());
    let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The sessions of clients in a database, by the numbers of their processes.
pub(crate) fn sessions(server: &PostgresServer, database: &str) -> BTreeSet<String> {
    let sessions = format!("select pid from pg_stat_activity where datname = '{database}' and usename = 'locks'");
    server.sql("postgres", &sessions).lines().map(Into::into).collect()
}

/// Waits until this number of sessions of a database wait for a lock of another session.
pub(crate) async fn expect_waiting_sessions(server: &PostgresServer, database: &str, number: usize) {
    let waiting =
        format!("select count(*) from pg_stat_activity where datname = '{database}' and wait_event_type = 'Lock'");
    eventually_async(SOON, async || match server.sql("postgres", &waiting) {
        found if found == number.to_string() => Ok(()),
        found => Err(found),
    })
    .await;
}

/// Changes settings of the user of the clients, for new sessions in this database.
pub(crate) fn set_for_user(server: &PostgresServer, database: &str, settings: &[&str]) {
    for setting in settings {
        server.sql("postgres", &format!("alter role locks in database {database} set {setting}"));
    }
}
