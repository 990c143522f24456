//! Unit tests that need a server.

mod ends;
mod granted;
mod reads;
#[cfg(feature = "mysql")]
mod row_locks;
mod same_rules;

use std::sync::LazyLock;

use bandog_testkit::PostgresServer;

use crate::options::SqlOptions;

/// The server of these tests. At the end of the process, its janitor stops it.
static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

#[cfg(feature = "mysql")]
static MARIADB: LazyLock<bandog_testkit::MariaDbServer> =
    LazyLock::new(|| bandog_testkit::MariaDbServer::start_with(&["max-allowed-packet=2M"]));

/// Options for a new database of MariaDB.
#[cfg(feature = "mysql")]
fn options_of_mysql() -> SqlOptions {
    let (port, database) = (MARIADB.port(), MARIADB.new_database());
    let url = format!("mysql://{}@127.0.0.1:{port}/{database}", bandog_testkit::MariaDbServer::LOCKS);
    SqlOptions::from_url(&url).expect("the URL is right").timeout(std::time::Duration::from_secs(20))
}

/// Options for a new database.
fn options() -> SqlOptions {
    let (port, database) = (SERVER.port(), SERVER.new_database());
    let url = format!("postgres://{}@127.0.0.1:{port}/{database}", PostgresServer::LOCKS);
    SqlOptions::from_url(&url).expect("the URL is right").timeout(std::time::Duration::from_secs(20))
}
