//! Helper functions of the tests.

use std::{sync::LazyLock, time::Duration};

use bandog::{Client, ErrorKind};
use bandog_core::SqlStatement;
use bandog_testkit::{MariaDbServer, eventually_async};
use sqlx::{Connection, MySql, MySqlConnection, MySqlPool, Row, Transaction, mysql::MySqlPoolOptions};

use crate::kinds::SOON;

/// The server of most tests. At the end of the process, its janitor stops it.
pub(crate) static SERVER: LazyLock<MariaDbServer> = LazyLock::new(MariaDbServer::start);

/// The table of ShedLock.
pub(crate) const SHEDLOCK: &str = "create table shedlock (name varchar(64) not null primary key,
    lock_until datetime(3) not null, locked_at datetime(3) not null default current_timestamp(3),
    locked_by varchar(255) not null)";

/// The page that lists the rights.
pub(crate) const PAGE: &str = include_str!("../../../../../docs/mysql.md");

/// The words of the page about the rights of a completion, and what grants them.
pub(crate) const RIGHTS_OF_A_COMPLETION: (&str, &str) = (
    "needs the rights of a check, and to select, insert and update rows of `bandog_record`",
    "grant select, insert, update on bandog_record to USER@'%'",
);

/// Isolation levels at which a transaction can check any held lock.
pub(crate) const LEVELS: [&str; 3] = ["read committed", "repeatable read", "serializable"];

/// Levels of transactions with a checked lock, and whether they commit: the usual level of the server, and the one that
/// other databases have.
pub(crate) const ENDS: [(&str, bool); 3] =
    [("repeatable read", true), ("read committed", true), ("read committed", false)];

/// A waiter gets a lock in this time after the end of a transaction that has checked it.
pub(crate) const NOTICED_WITHIN: Duration = Duration::from_secs(2);

/// Number of locks that a client takes and releases beside an open transaction.
pub(crate) const CYCLES: usize = 100;

/// The table of the records.
pub(crate) const RECORDS: &str = "bandog_record";

/// The database, as a type of sqlx.
pub(crate) type Db = MySql;
pub(crate) type DbConnection = MySqlConnection;

/// The settings of a session that limit the time of a statement, and the wait for the lock of a row.
pub(crate) const LIMITS: [&str; 2] = ["set max_statement_time = 0.3", "set innodb_lock_wait_timeout = 1"];

/// Locks all rows of fences.
pub(crate) const LOCK_FENCES: &str = "select name from bandog_fence for update";

/// A connection to the database of this URL, at the level READ COMMITTED.
pub(crate) async fn connect(url: &str) -> MySqlConnection {
    let mut connection = open(url).await;
    set_level(&mut connection, "read committed").await;
    connection
}

/// A connection to the database of this URL, at the default level of the server.
pub(crate) async fn open(url: &str) -> MySqlConnection {
    MySqlConnection::connect(&format!("{url}?ssl-mode=DISABLED")).await.unwrap()
}

/// A pool with one connection.
pub(crate) async fn narrow_pool(url: &str) -> MySqlPool {
    MySqlPoolOptions::new().max_connections(1).connect(&format!("{url}?ssl-mode=DISABLED")).await.unwrap()
}

/// The URL of a database with the same name and the same tables on another server. (Statements name their database, so
/// another database of one server makes no difference.)
pub(crate) async fn elsewhere(database: &Database) -> String {
    static OTHER: LazyLock<MariaDbServer> = LazyLock::new(MariaDbServer::start);
    OTHER.create_database(&database.0);
    let url = OTHER.url(&database.0);
    let client = bandog::connect(format!("{url}?timeout=10s")).await.unwrap();
    client.mutex("k").lock().await.unwrap().release().await.unwrap();
    url
}

/// Sets the isolation level of the next transactions to REPEATABLE READ.
pub(crate) async fn repeatable_read(connection: &mut MySqlConnection) {
    set_level(connection, "repeatable read").await;
}

/// Ends a transaction in which a statement has failed. The server would commit the others.
pub(crate) async fn end_refused(tx: Transaction<'_, MySql>) {
    tx.rollback().await.unwrap();
}

/// The rights of a check, one grant a line, for this user and the database of the statement.
pub(crate) fn grants(user: &str) -> Vec<String> {
    // The next block has the rights for work queues.
    let checks = PAGE.split("\n```\n").find(|block| block.contains("bandog_fence to app@")).unwrap();
    let grants = checks.lines().filter(|line| line.ends_with(" to app@'%';"));
    let grants: Vec<_> =
        grants.map(|grant| grant.replace("shop.", "").replace(" to app@", &format!(" to {user}@"))).collect();
    assert!(grants.len() >= 3, "docs/mysql.md lists no rights");
    grants
}

/// A database with a table for the writes of a test.
pub(crate) struct Database(pub(crate) String);

impl Database {
    pub(crate) fn new() -> Self {
        let name = SERVER.new_database();
        SERVER.sql(&name, "create table writes (what varchar(100) not null)");
        Self(name)
    }

    pub(crate) fn url(&self) -> String {
        SERVER.url(&self.0)
    }

    /// A client. `options` are those of the URL after the timeout, which is long because the machine might be busy.
    pub(crate) async fn client(&self, options: &str) -> Client {
        bandog::connect(format!("{}?timeout=10s{options}", self.url())).await.unwrap()
    }

    pub(crate) async fn connection(&self) -> MySqlConnection {
        open(&self.url()).await
    }

    /// The number of open transactions.
    pub(crate) fn open_transactions(&self) -> String {
        self.transactions("true")
    }

    /// The number of sessions that wait for a lock of another session.
    pub(crate) fn blocked(&self) -> String {
        self.transactions("t.trx_state = 'LOCK WAIT'")
    }

    fn transactions(&self, condition: &str) -> String {
        // The server answers from a cache, and renews the cache only if no session has read it for 0.1 s.
        let count = "do sleep(0.15); select count(*) from information_schema.innodb_trx t \
            join information_schema.processlist p on p.id = t.trx_mysql_thread_id where p.db = database() and";
        SERVER.sql(&self.0, &format!("{count} {condition}"))
    }

    /// The committed writes.
    pub(crate) fn writes(&self) -> String {
        SERVER.sql(&self.0, "select coalesce(group_concat(what order by what separator ' '), '') from writes")
    }

    /// The time at which the first of the leases with these names expires, in s.
    pub(crate) fn expires(&self, names: &str) -> f64 {
        let least = "select min(timestampdiff(microsecond, '1970-01-01', expires)) / 1000000 from bandog_lease";
        SERVER.sql(&self.0, &format!("{least} where name like '{names}'")).parse().unwrap()
    }

    /// Creates a user that may insert writes.
    pub(crate) fn create_user(&self, name: &str) {
        let create = format!("create user {name}@'%' identified by 'PASSWORD'; grant insert on writes to {name}@'%'");
        SERVER.sql(&self.0, &create);
    }

    /// Creates the tables of a sweep of orders.
    pub(crate) fn create_orders(&self, count: u32) {
        SERVER.sql(
            &self.0,
            &format!(
                "create table orders (id int primary key); create table returns (id int);
                 insert into orders select seq from {}",
                MariaDbServer::numbers(count)
            ),
        );
    }

    /// Makes the lease of a mutex end an hour earlier.
    pub(crate) fn age_lease(&self, name: &str) {
        let age = "update bandog_lease set expires = least(expires, utc_timestamp(6)) - interval 1 hour";
        SERVER.sql(&self.0, &format!("{age} where name = '{name}'"));
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

/// Executes the statement of a guard or of a run, as a program does that does not use the trait. That of a run returns no row.
pub(crate) async fn execute(statement: &SqlStatement, tx: &mut Transaction<'_, MySql>) -> Result<i64, ErrorKind> {
    let query = statement.values.iter().fold(sqlx::query(&statement.text), |query, value| query.bind(value));
    match query.fetch_optional(&mut **tx).await {
        Ok(row) => Ok(row.map_or(1, |row| row.get("fence"))),
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

/// The limit of the session for an idle transaction, in s.
pub(crate) async fn idle_limit(connection: &mut MySqlConnection) -> String {
    sqlx::query_scalar("select cast(@@session.wait_timeout as char)").fetch_one(connection).await.unwrap()
}

/// The isolation level of a session.
pub(crate) async fn level(connection: &mut MySqlConnection) -> String {
    sqlx::query_scalar("select @@session.tx_isolation").fetch_one(connection).await.unwrap()
}

/// Sets the level of the session of a pool with one connection to REPEATABLE READ.
pub(crate) async fn set_pool_level(pool: &MySqlPool) {
    repeatable_read(&mut pool.acquire().await.unwrap()).await;
}
