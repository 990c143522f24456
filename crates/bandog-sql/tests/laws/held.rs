//! All laws, with mutexes that also need a lock of the database.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use bandog_sql::Sql;
use bandog_testkit::PostgresServer;

use crate::{
    OnPostgres, at, url,
    worlds::{Mode, OnHeld},
};

mod rowlock {
    bandog_conformance::conformance!(super::OnHeld<super::RowLock>);
}

mod advisory {
    bandog_conformance::conformance!(super::OnHeld<super::Advisory>);
}

/// The server of these laws: each hold is a connection.
static SHARED: LazyLock<Arc<PostgresServer>> =
    LazyLock::new(|| Arc::new(PostgresServer::start_with(&["max_connections=600"])));

/// A row of a table is locked.
pub(crate) struct RowLock;

#[async_trait]
impl Mode for RowLock {
    const NAME: &'static str = "postgres with mode=rowlock";
    const QUERY: &'static str = "mode=rowlock&table=tb_lock&column=lockname&connections=300";
    type Usual = OnPostgres;

    async fn start() -> OnPostgres {
        let world = Advisory::start().await;
        let table = "create table public.tb_lock (lockname text primary key)";
        world.server.sql(&world.database, &format!("{table}; grant select, insert, update on public.tb_lock to locks"));
        world
    }

    fn backend(world: &OnPostgres, query: &str) -> Sql {
        Advisory::backend(world, query)
    }
}

/// An advisory lock is taken.
pub(crate) struct Advisory;

#[async_trait]
impl Mode for Advisory {
    const NAME: &'static str = "postgres with mode=advisory";
    const QUERY: &'static str = "mode=advisory&connections=300";
    type Usual = OnPostgres;

    async fn start() -> OnPostgres {
        let server = SHARED.clone();
        OnPostgres { wire: server.wire(), database: server.new_database(), server, is_own: false }
    }

    fn backend(world: &OnPostgres, query: &str) -> Sql {
        at(&format!("{}?{query}", url(world.wire.port(), &world.database)))
    }
}
