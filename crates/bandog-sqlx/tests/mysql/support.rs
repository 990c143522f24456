//! Helper functions of the tests.

use std::{sync::LazyLock, time::Duration};

use bandog::{Client, ErrorKind, Guard};
use bandog_core::SqlStatement;
use bandog_testkit::{MariaDbServer, eventually_async};
use sqlx::{Connection, MySql, MySqlConnection, Row, Transaction};

/// Timeout for expected events. A test reaches it only if it fails.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The server of most tests. At the end of the process, its janitor stops it.
pub(crate) static SERVER: LazyLock<MariaDbServer> = LazyLock::new(MariaDbServer::start);

/// A database with a table for the writes of a test.
pub(crate) struct Database(pub(crate) String);

impl Database {
    pub(crate) fn new() -> Self {
        let name = SERVER.new_database();
        SERVER.sql(&name, "create table writes (what varchar(100) not null)");
        Self(name)
    }

    pub(crate) fn url(&self) -> String {
        format!("mysql://{}@127.0.0.1:{}/{}", MariaDbServer::LOCKS, SERVER.port(), self.0)
    }

    /// A client. `options` are those of the URL after the timeout, which is long because the machine might be busy.
    pub(crate) async fn client(&self, options: &str) -> Client {
        bandog::connect(format!("{}?timeout=10s{options}", self.url())).await.unwrap()
    }

    pub(crate) async fn connection(&self) -> MySqlConnection {
        self.connection_of(MariaDbServer::LOCKS).await
    }

    /// A connection of this user.
    pub(crate) async fn connection_of(&self, user: &str) -> MySqlConnection {
        let url = format!("mysql://{user}@127.0.0.1:{}/{}?ssl-mode=DISABLED", SERVER.port(), self.0);
        MySqlConnection::connect(&url).await.unwrap()
    }

    /// The committed writes.
    pub(crate) fn writes(&self) -> String {
        SERVER.sql(&self.0, "select coalesce(group_concat(what order by what separator ' '), '') from writes")
    }

    /// The time at which the lease of this name expires, in s.
    pub(crate) fn expires(&self, names: &str) -> f64 {
        let least = "select min(timestampdiff(microsecond, '1970-01-01', expires)) / 1000000 from bandog_lease";
        SERVER.sql(&self.0, &format!("{least} where name like '{names}'")).parse().unwrap()
    }

    /// Waits until the lease of this name has expired by the clock of the database.
    pub(crate) async fn expired(&self, name: &str) {
        let query = format!("select expires <= utc_timestamp(6) from bandog_lease where name = '{name}'");
        eventually_async(SOON, async || SERVER.sql(&self.0, &query) == "1").await;
    }
}

/// Writes in a transaction.
pub(crate) async fn write(tx: &mut Transaction<'_, MySql>, what: &str) {
    sqlx::query("insert into writes values (?)").bind(what).execute(&mut **tx).await.unwrap();
}

/// Executes the statement of a guard, as a program does that does not use the trait.
pub(crate) async fn execute(statement: &SqlStatement, tx: &mut Transaction<'_, MySql>) -> Result<i64, ErrorKind> {
    let query = statement.values.iter().fold(sqlx::query(&statement.text), |query, value| query.bind(value));
    match query.fetch_one(&mut **tx).await {
        Ok(row) => Ok(row.get("fence")),
        Err(error) => {
            let said = error.as_database_error().expect("the database refuses the statement").message().to_owned();
            Err(statement.refusal(&said).unwrap_or_else(|| panic!("{said} is no refusal")).kind())
        }
    }
}

/// Sets the isolation level of the session.
pub(crate) async fn set_level(connection: &mut MySqlConnection, level: &str) {
    let set = format!("set session transaction isolation level {level}");
    sqlx::query(&set).execute(connection).await.unwrap();
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
