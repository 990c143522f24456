//! The laws with MariaDB and MySQL.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bandog_testkit::{MariaDb, MariaDbServer, eventually};

use crate::suite::{
    Laws, OnSql, ShedLock, TIMEOUT,
    held::{ADVISORY, Mode, ROWLOCK},
    laws,
};

laws!(bandog_testkit::MariaDb, rowlock: crate::mysql::RowLock, advisory: crate::mysql::Advisory);

static SHARED: LazyLock<Arc<MariaDbServer>> = LazyLock::new(|| Arc::new(MariaDbServer::start()));

/// Each hold of a mode is a connection.
const MANY: &[&str] = &["max-connections=600"];

/// The server of the laws of rows.
static OF_ROWS: LazyLock<Arc<MariaDbServer>> = LazyLock::new(|| Arc::new(MariaDbServer::start_with(MANY)));

/// The servers of `GET_LOCK`. Its names are those of the whole server, and the laws use the same names. So each law that
/// runs has a server of its own, which a later law uses again. There are at most as many as threads of the test harness.
static OF_NAMES: Mutex<Vec<Arc<MariaDbServer>>> = Mutex::new(Vec::new());

impl Laws for MariaDb {
    const NAME: &'static str = "mysql";
    const USE_TABLES: &'static str = "do 0";
    const NOW: &'static str = "utc_timestamp(6)";
    const HOUR: &'static str = "interval 1 hour";
    const GARBLED: &'static str = "x'ff'";
    const FALSE_AND_TRUE: [&'static str; 2] = ["0", "1"];
    const CLAIMS_AT_ONCE: bool = false;

    fn shared() -> Arc<MariaDbServer> {
        SHARED.clone()
    }

    fn seconds(from: &str, to: &str) -> String {
        format!("timestampdiff(microsecond, {from}, {to}) / 1000000")
    }
}

impl ShedLock for MariaDb {
    const NAME: &'static str = "mysql with layout=shedlock";
    const TABLE: &'static str =
        "create table shedlock (name varbinary(1024) primary key, lock_until datetime(3) not null,
        locked_at datetime(3) not null default current_timestamp(3), locked_by varchar(255) not null)";
    const NOW: &'static str = "utc_timestamp(3)";
}

/// A row of a table is locked.
pub(crate) struct RowLock;

impl Mode for RowLock {
    const NAME: &'static str = "mysql with mode=rowlock";
    const QUERY: &'static str = ROWLOCK;
    type Database = MariaDb;

    fn start() -> OnSql<MariaDb> {
        let world = OnSql::on(OF_ROWS.clone());
        world.sql("create table tb_lock (lockname varbinary(1024) primary key)");
        world
    }
}

/// A lock of `GET_LOCK` is taken.
pub(crate) struct Advisory;

impl Mode for Advisory {
    const NAME: &'static str = "mysql with mode=advisory";
    const QUERY: &'static str = ADVISORY;
    type Database = MariaDb;

    fn start() -> OnSql<MariaDb> {
        let server = server_of_names();
        // The sessions of the earlier law end after its backends.
        let sessions = "select count(*) from information_schema.processlist where user = 'locks'";
        eventually(2 * TIMEOUT, || server.sql("mysql", sessions) == "0");
        OnSql::on(server)
    }
}

/// A server of `GET_LOCK` that no other law uses. Such a server has one owner: the list.
fn server_of_names() -> Arc<MariaDbServer> {
    let mut servers = OF_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let free = servers.iter().find(|server| Arc::strong_count(server) == 1).cloned();
    free.unwrap_or_else(|| {
        let server = Arc::new(MariaDbServer::start_with(MANY));
        servers.push(server.clone());
        server
    })
}
