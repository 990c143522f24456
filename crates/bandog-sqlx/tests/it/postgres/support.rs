//! Helper functions of the tests.

use std::{sync::LazyLock, time::Duration};

use bandog::{Client, ErrorKind};
use bandog_core::SqlStatement;
use bandog_testkit::{PostgresServer, eventually_async};
use sqlx::{Connection, PgConnection, PgPool, Postgres, Row, Transaction, postgres::PgPoolOptions};

use crate::kinds::SOON;

/// The server of most tests. At the end of the process, its janitor stops it.
pub(crate) static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

/// The table of ShedLock.
pub(crate) const SHEDLOCK: &str = "create table public.shedlock (name varchar(64) primary key,
        lock_until timestamp not null, locked_at timestamp not null, locked_by varchar(255) not null);
    grant select, insert, update on public.shedlock to locks";

/// The page that lists the rights.
pub(crate) const PAGE: &str = include_str!("../../../../../docs/postgres.md");

/// The words of the page about the rights of a completion, and what grants them.
pub(crate) const RIGHTS_OF_A_COMPLETION: (&str, &str) = (
    "needs the rights of a check, and to select, insert, update and delete rows of `bandog_record`",
    "grant select, insert, update, delete on bandog.bandog_record to USER",
);

/// Isolation levels at which a transaction can check any held lock.
pub(crate) const LEVELS: [&str; 1] = ["read committed"];

/// Levels of transactions with a checked lock, and whether they commit.
pub(crate) const ENDS: [(&str, bool); 2] = [("read committed", true), ("read committed", false)];

/// A waiter gets a lock in this time after the end of a transaction that has checked it.
pub(crate) const NOTICED_WITHIN: Duration = Duration::from_secs(1);

/// Number of locks that a client takes and releases beside an open transaction.
pub(crate) const CYCLES: usize = 300;

/// The table of the records.
pub(crate) const RECORDS: &str = "bandog.bandog_record";

/// The database, as a type of sqlx.
pub(crate) type Db = Postgres;
pub(crate) type DbConnection = PgConnection;

/// The settings of a session that limit the time of a statement, and the wait for the lock of a row.
pub(crate) const LIMITS: [&str; 2] = ["set statement_timeout = '300ms'", "set lock_timeout = '300ms'"];

/// Locks all rows of fences.
pub(crate) const LOCK_FENCES: &str = "select from bandog.bandog_fence for update";

/// A connection to the database of this URL, at the level READ COMMITTED.
pub(crate) async fn connect(url: &str) -> PgConnection {
    open(url).await
}

/// A connection to the database of this URL, at the default level of the server.
pub(crate) async fn open(url: &str) -> PgConnection {
    PgConnection::connect(&format!("{url}?sslmode=disable")).await.unwrap()
}

/// A pool with one connection.
pub(crate) async fn narrow_pool(url: &str) -> PgPool {
    PgPoolOptions::new().max_connections(1).connect(&format!("{url}?sslmode=disable")).await.unwrap()
}

/// The URL of another database with the tables of locks.
pub(crate) async fn elsewhere(_: &Database) -> String {
    let other = Database::new();
    other.client("").await.mutex("k").lock().await.unwrap().release().await.unwrap();
    other.url()
}

/// Sets the isolation level of the next transactions to REPEATABLE READ.
pub(crate) async fn repeatable_read(connection: &mut PgConnection) {
    set_level(connection, "repeatable read").await;
}

/// Sets the isolation level of the session.
pub(crate) async fn set_level(connection: &mut PgConnection, level: &str) {
    let set = format!("set session characteristics as transaction isolation level {level}");
    sqlx::query(&set).execute(connection).await.unwrap();
}

/// Ends a transaction in which a statement has failed, as a program does that ignores the error. The server rolls it back.
pub(crate) async fn end_refused(mut tx: Transaction<'_, Postgres>) {
    assert!(sqlx::query("select 1").execute(&mut *tx).await.is_err());
    tx.commit().await.unwrap();
}

/// The rights of a check, one grant a line, for this user.
pub(crate) fn grants(user: &str) -> Vec<String> {
    // The next block has the rights for work queues.
    let checks = PAGE.split("\n```\n").find(|block| block.contains("grant update (fence)")).unwrap();
    let grants = checks.lines().filter(|line| line.starts_with("grant ") && line.ends_with(" to shop;"));
    let grants: Vec<_> = grants.map(|grant| grant.replace(" to shop;", &format!(" to {user};"))).collect();
    assert!(grants.len() >= 2, "docs/postgres.md lists no rights");
    grants
}

/// A database with a table for the writes of a test.
pub(crate) struct Database(pub(crate) String);

impl Database {
    pub(crate) fn new() -> Self {
        let name = SERVER.new_database();
        SERVER.sql(&name, "create table writes (what text); grant all on writes to locks");
        Self(name)
    }

    /// The URL for a user without further rights.
    pub(crate) fn url(&self) -> String {
        SERVER.url(&self.0)
    }

    /// A client. `options` are those of the URL after the timeout, which is long because the machine might be busy.
    pub(crate) async fn client(&self, options: &str) -> Client {
        bandog::connect(format!("{}?timeout=10s{options}", self.url())).await.unwrap()
    }

    pub(crate) async fn connection(&self) -> PgConnection {
        connect(&self.url()).await
    }

    /// The number of open transactions.
    pub(crate) fn open_transactions(&self) -> String {
        self.sessions("state like '%in transaction%'")
    }

    /// The number of sessions that wait for a lock of another session.
    pub(crate) fn blocked(&self) -> String {
        self.sessions("wait_event_type = 'Lock'")
    }

    fn sessions(&self, condition: &str) -> String {
        let count = "select count(*) from pg_stat_activity where datname = current_database() and";
        SERVER.sql(&self.0, &format!("{count} {condition}"))
    }

    /// The committed writes.
    pub(crate) fn writes(&self) -> String {
        SERVER.sql(&self.0, "select coalesce(string_agg(what, ' ' order by what), '') from writes")
    }

    /// The time at which the first of the leases with these names expires, in s.
    pub(crate) fn expires(&self, names: &str) -> f64 {
        let least = "select extract(epoch from min(expires)) from bandog.bandog_lease";
        SERVER.sql(&self.0, &format!("{least} where name like '{names}'")).parse().unwrap()
    }

    /// Creates a user that may insert writes.
    pub(crate) fn create_user(&self, name: &str) {
        let create = format!("create role {name} login password 'PASSWORD'; grant insert on writes to {name}");
        SERVER.sql(&self.0, &create);
    }

    /// Creates the tables of a sweep of orders.
    pub(crate) fn create_orders(&self, count: u32) {
        SERVER.sql(
            &self.0,
            &format!(
                "create table orders (id int primary key); create table returns (id int);
                 grant all on orders, returns to locks; insert into orders select generate_series(1, {count})"
            ),
        );
    }

    /// Makes the lease of a mutex end an hour earlier.
    pub(crate) fn age_lease(&self, name: &str) {
        let age = "update bandog.bandog_lease set expires = least(expires, now()) - interval '1 hour'";
        SERVER.sql(&self.0, &format!("{age} where name = '{name}'"));
    }

    /// Waits until the lease of this name has expired by the clock of the database.
    pub(crate) async fn expired(&self, name: &str) {
        let query = format!("select expires <= clock_timestamp() from bandog.bandog_lease where name = '{name}'");
        eventually_async(SOON, async || SERVER.sql(&self.0, &query) == "t").await;
    }
}

/// Writes in a transaction.
pub(crate) async fn write(tx: &mut Transaction<'_, Postgres>, what: &str) {
    sqlx::query("insert into writes values ($1)").bind(what).execute(&mut **tx).await.unwrap();
}

/// Executes the statement of a guard, as a program does that does not use the trait.
pub(crate) async fn execute(statement: &SqlStatement, tx: &mut Transaction<'_, Postgres>) -> Result<i64, ErrorKind> {
    let query = statement.values.iter().fold(sqlx::query(&statement.text), |query, value| query.bind(value));
    match query.fetch_one(&mut **tx).await {
        Ok(row) => Ok(row.get("fence")),
        Err(error) => {
            let said = error.as_database_error().expect("the database refuses the statement").message().to_owned();
            Err(statement.refusal(&said).unwrap_or_else(|| panic!("{said} is no refusal")).kind())
        }
    }
}

/// The limit of the session for an idle transaction, in s.
pub(crate) async fn idle_limit(connection: &mut PgConnection) -> String {
    let limit =
        "select (setting::int / 1000)::text from pg_settings where name = 'idle_in_transaction_session_timeout'";
    sqlx::query_scalar(limit).fetch_one(connection).await.unwrap()
}

/// The isolation level of a session.
pub(crate) async fn level(connection: &mut PgConnection) -> String {
    sqlx::query_scalar("select current_setting('transaction_isolation')").fetch_one(connection).await.unwrap()
}

/// Sets the level of the session of a pool with one connection to REPEATABLE READ.
pub(crate) async fn set_pool_level(pool: &PgPool) {
    repeatable_read(&mut pool.acquire().await.unwrap()).await;
}
