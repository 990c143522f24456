//! All laws, with mutexes that also need a lock of the database.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use async_trait::async_trait;
use bandog_sql::Sql;
use bandog_testkit::{MariaDbServer, eventually};

use crate::{
    OnMariaDb, at, url,
    worlds::{Mode, OnHeld, TIMEOUT},
};

mod rowlock {
    bandog_conformance::conformance!(super::OnHeld<super::RowLock>);
}

mod advisory {
    bandog_conformance::conformance!(super::OnHeld<super::Advisory>);
}

/// Each hold is a connection.
const MANY: &[&str] = &["max-connections=600"];

/// The server of the laws of rows.
static SHARED: LazyLock<Arc<MariaDbServer>> = LazyLock::new(|| Arc::new(MariaDbServer::start_with(MANY)));

/// The servers of `GET_LOCK`. Its names are those of the whole server, and the laws use the same names. So each law that
/// runs has a server of its own, which a later law uses again. There are at most as many as threads of the test harness.
static OF_NAMES: Mutex<Vec<Arc<MariaDbServer>>> = Mutex::new(Vec::new());

fn world(server: Arc<MariaDbServer>) -> OnMariaDb {
    OnMariaDb { wire: server.wire(), database: server.new_database(), server, is_own: false }
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

/// A row of a table is locked.
pub(crate) struct RowLock;

#[async_trait]
impl Mode for RowLock {
    const NAME: &'static str = "mysql with mode=rowlock";
    const QUERY: &'static str = "mode=rowlock&table=tb_lock&column=lockname&connections=300";
    type Usual = OnMariaDb;

    async fn start() -> OnMariaDb {
        let world = world(SHARED.clone());
        world.sql("create table tb_lock (lockname varbinary(1024) primary key)");
        world
    }

    fn backend(world: &OnMariaDb, query: &str) -> Sql {
        Advisory::backend(world, query)
    }
}

/// A lock of `GET_LOCK` is taken.
pub(crate) struct Advisory;

#[async_trait]
impl Mode for Advisory {
    const NAME: &'static str = "mysql with mode=advisory";
    const QUERY: &'static str = "mode=advisory&connections=300";
    type Usual = OnMariaDb;

    async fn start() -> OnMariaDb {
        let server = server_of_names();
        // The sessions of the earlier law end after its backends.
        let sessions = "select count(*) from information_schema.processlist where user = 'locks'";
        eventually(2 * TIMEOUT, || server.sql("mysql", sessions) == "0");
        world(server)
    }

    fn backend(world: &OnMariaDb, query: &str) -> Sql {
        at(&format!("{}?{query}", url(world.wire.port(), &world.database)))
    }
}
