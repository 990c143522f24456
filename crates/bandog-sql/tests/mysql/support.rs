//! The server of the tests.

use std::sync::LazyLock;

use bandog_testkit::MariaDbServer;

pub(crate) use crate::claims::{SOON, TTL, claim, open, release, renew, take, try_take};

/// The server of most tests. At the end of the process, its janitor stops it.
pub(crate) static SERVER: LazyLock<MariaDbServer> = LazyLock::new(MariaDbServer::start);

/// The transactions in a database that wait for a locked row: their numbers, one a line.
pub(crate) fn lock_waits(database: &str) -> String {
    let sessions =
        "information_schema.innodb_trx t join information_schema.processlist p on p.id = t.trx_mysql_thread_id";
    let waits = format!("select trx_id from {sessions} where p.db = '{database}' and trx_state = 'LOCK WAIT'");
    SERVER.sql("mysql", &waits)
}

/// The URL of a database for a user without further rights.
pub(crate) fn url(server: &MariaDbServer, database: &str) -> String {
    format!("mysql://{}@127.0.0.1:{}/{database}", MariaDbServer::LOCKS, server.port())
}
