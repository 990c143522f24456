//! The server of the tests.

use std::sync::LazyLock;

use bandog_testkit::MariaDbServer;

pub(crate) use crate::claims::{SOON, TTL, claim, open, release, renew, take, try_take};

/// The server of most tests. At the end of the process, its janitor stops it.
pub(crate) static SERVER: LazyLock<MariaDbServer> = LazyLock::new(MariaDbServer::start);

/// The URL of a database for a user without further rights.
pub(crate) fn url(server: &MariaDbServer, database: &str) -> String {
    format!("mysql://{}@127.0.0.1:{}/{database}", MariaDbServer::LOCKS, server.port())
}
