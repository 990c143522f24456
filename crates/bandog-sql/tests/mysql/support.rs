//! The server of the tests.

use std::sync::{LazyLock, Mutex, PoisonError};

use bandog_testkit::MariaDbServer;

pub(crate) use crate::claims::{SOON, TTL, claim, open, release, renew, take, try_take};

/// The server of most tests. At the end of the process, its janitor stops it.
pub(crate) static SERVER: LazyLock<MariaDbServer> = LazyLock::new(MariaDbServer::start);

/// A server without a binary log and without TLS, both of which MySQL has by default. MariaDB has another option for TLS.
pub(crate) static BARE_SERVER: LazyLock<MariaDbServer> =
    LazyLock::new(|| MariaDbServer::start_with(&["skip-log-bin", "loose-skip-ssl", "tls-version="]));

/// Held by the test that reads the list of transactions.
static READING: Mutex<()> = Mutex::new(());

/// The transactions in a database that wait for a locked row: their numbers, one a line.
///
/// The server renews its list of transactions only if the list has not been read for 0.1 s. So all tests together read it
/// less often.
pub(crate) fn lock_waits(database: &str) -> String {
    let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
    let sessions =
        "information_schema.innodb_trx t join information_schema.processlist p on p.id = t.trx_mysql_thread_id";
    let waits =
        format!("do sleep(0.12); select trx_id from {sessions} where p.db = '{database}' and trx_state = 'LOCK WAIT'");
    SERVER.sql("mysql", &waits)
}

/// The URL of a database for a user without further rights.
pub(crate) fn url(server: &MariaDbServer, database: &str) -> String {
    format!("mysql://{}@127.0.0.1:{}/{database}", MariaDbServer::LOCKS, server.port())
}

/// A session by hand of the same user.
pub(crate) async fn hand(server: &MariaDbServer, database: &str) -> mysql_async::Conn {
    mysql_async::Conn::from_url(url(server, database)).await.unwrap()
}

/// The number of deadlocks that the server has found.
pub(crate) fn deadlocks(server: &MariaDbServer) -> u64 {
    let count = "select count from information_schema.innodb_metrics where name = 'lock_deadlocks'";
    server.sql("mysql", count).parse().unwrap()
}
