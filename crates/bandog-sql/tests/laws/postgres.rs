//! The laws with PostgreSQL.

use std::sync::{Arc, LazyLock};

use bandog_testkit::{Postgres, PostgresServer};

use crate::suite::{
    Laws, OnSql, ShedLock,
    held::{ADVISORY, Mode, ROWLOCK},
    laws,
};

laws!(bandog_testkit::Postgres, rowlock: crate::postgres::RowLock, advisory: crate::postgres::Advisory);

static SHARED: LazyLock<Arc<PostgresServer>> = LazyLock::new(|| Arc::new(PostgresServer::start()));

/// The server of the laws of both modes: each hold is a connection.
static OF_MODES: LazyLock<Arc<PostgresServer>> =
    LazyLock::new(|| Arc::new(PostgresServer::start_with(&["max_connections=600"])));

impl Laws for Postgres {
    const NAME: &'static str = "postgres";
    const USE_TABLES: &'static str = "set search_path to bandog, public";
    const NOW: &'static str = "clock_timestamp()";
    const HOUR: &'static str = "interval '1 hour'";
    const GARBLED: &'static str = "'\\xff'";
    const FALSE_AND_TRUE: [&'static str; 2] = ["f", "t"];
    const CLAIMS_AT_ONCE: bool = true;

    fn shared() -> Arc<PostgresServer> {
        SHARED.clone()
    }

    fn seconds(from: &str, to: &str) -> String {
        format!("extract(epoch from {to} - {from})")
    }
}

impl ShedLock for Postgres {
    const NAME: &'static str = "postgres with layout=shedlock";
    const TABLE: &'static str = "create table public.shedlock (name text primary key, lock_until timestamp not null,
        locked_at timestamp not null, locked_by varchar(255) not null);
        grant select, insert, update on public.shedlock to locks";
    const NOW: &'static str = "timezone('utc', clock_timestamp())";
}

/// A row of a table is locked.
pub(crate) struct RowLock;

impl Mode for RowLock {
    const NAME: &'static str = "postgres with mode=rowlock";
    const QUERY: &'static str = ROWLOCK;
    type Database = Postgres;

    fn start() -> OnSql<Postgres> {
        let world = OnSql::on(OF_MODES.clone());
        let table = "create table public.tb_lock (lockname text primary key)";
        world.sql(&format!("{table}; grant select, insert, update on public.tb_lock to locks"));
        world
    }
}

/// An advisory lock is taken.
pub(crate) struct Advisory;

impl Mode for Advisory {
    const NAME: &'static str = "postgres with mode=advisory";
    const QUERY: &'static str = ADVISORY;
    type Database = Postgres;

    fn start() -> OnSql<Postgres> {
        OnSql::on(OF_MODES.clone())
    }
}
