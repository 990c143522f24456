//! Helper functions of the tests.

use std::{sync::LazyLock, time::Duration};

use bandog::{Client, ErrorKind, Guard};
use bandog_core::SqlStatement;
use bandog_testkit::{PostgresServer, eventually_async};
use sqlx::{Connection, PgConnection, Postgres, Row, Transaction};

/// Timeout for expected events. A test reaches it only if it fails.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The server of most tests. At the end of the process, its janitor stops it.
pub(crate) static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

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
        format!("postgres://{}@127.0.0.1:{}/{}", PostgresServer::LOCKS, SERVER.port(), self.0)
    }

    /// A client. `options` are those of the URL after the timeout, which is long because the machine might be busy.
    pub(crate) async fn client(&self, options: &str) -> Client {
        bandog::connect(format!("{}?timeout=10s{options}", self.url())).await.unwrap()
    }

    pub(crate) async fn connection(&self) -> PgConnection {
        PgConnection::connect(&format!("{}?sslmode=disable", self.url())).await.unwrap()
    }

    /// The committed writes.
    pub(crate) fn writes(&self) -> String {
        SERVER.sql(&self.0, "select coalesce(string_agg(what, ' ' order by what), '') from writes")
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

/// A kind of lock that a transaction can check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checked {
    Mutex,
    Fair,
    Write,
}

impl Checked {
    pub(crate) const ALL: [Self; 3] = [Self::Mutex, Self::Fair, Self::Write];

    /// Takes the lock with the watchdog's lease.
    pub(crate) async fn lock(self, client: &Client, name: &str) -> Guard {
        match self {
            Self::Mutex => client.mutex(name).lock().await.unwrap(),
            Self::Fair => client.mutex(name).fair().lock().await.unwrap(),
            Self::Write => client.rwlock(name).write().await.unwrap().into(),
        }
    }

    /// Takes the lock for a fixed time.
    pub(crate) async fn lease(self, client: &Client, name: &str, time: Duration) -> Guard {
        match self {
            Self::Mutex => client.mutex(name).lease(time).lock().await.unwrap(),
            Self::Fair => client.mutex(name).fair().lease(time).lock().await.unwrap(),
            Self::Write => client.rwlock(name).lease(time).write().await.unwrap().into(),
        }
    }

    pub(crate) async fn try_lock(self, client: &Client, name: &str) -> Option<Guard> {
        match self {
            Self::Mutex => client.mutex(name).try_lock().await.unwrap(),
            Self::Fair => client.mutex(name).fair().try_lock().await.unwrap(),
            Self::Write => client.rwlock(name).try_write().await.unwrap().map(Into::into),
        }
    }
}
