//! Unit tests that need a server.

mod ends;
mod granted;
mod reads;
#[cfg(feature = "mysql")]
mod row_locks;
mod same_rules;

use std::{sync::LazyLock, time::Duration};

use bandog_testkit::{PostgresServer, SqlEngine, SqlServer};

use crate::options::SqlOptions;

/// The server of these tests. At the end of the process, its janitor stops it.
static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

#[cfg(feature = "mysql")]
static MARIADB: LazyLock<bandog_testkit::MariaDbServer> =
    LazyLock::new(|| SqlServer::start_with(&["max-allowed-packet=2M"]));

/// Options for a new database of PostgreSQL.
fn options() -> SqlOptions {
    options_of(&SERVER)
}

/// Options for a new database of MariaDB.
#[cfg(feature = "mysql")]
fn options_of_mysql() -> SqlOptions {
    options_of(&MARIADB)
}

fn options_of(server: &SqlServer<impl SqlEngine>) -> SqlOptions {
    let url = server.url(&server.new_database());
    SqlOptions::from_url(&url).expect("the URL is right").timeout(Duration::from_secs(20))
}
