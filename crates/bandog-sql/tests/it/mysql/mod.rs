//! MariaDB and MySQL: the suite, and tests of what only this database has.

mod check;
mod clock;
mod days;
mod deadlocks;
mod failover;
mod held_days;
mod packets;
mod polls;
mod rights;
mod rows;
mod settings;
mod shedlock;
mod tables;

use std::{
    path::Path,
    process::Command,
    sync::{LazyLock, Mutex, PoisonError},
};

use bandog_core::{ErrorKind, Leases};
use bandog_testkit::{MariaDb, MariaDbServer, TlsFiles};
use mysql_async::{Conn, prelude::Queryable};

use crate::suite::{self, Database, held::Mode, open, shedlock::Words};

mod common {
    crate::suite::suite!(bandog_testkit::MariaDb);
}

type Place<'s> = suite::Place<'s, MariaDb>;

static SERVER: LazyLock<MariaDbServer> = LazyLock::new(MariaDbServer::start);

/// A server without a binary log and without TLS, both of which MySQL has by default. MariaDB has another option for TLS.
static BARE_SERVER: LazyLock<MariaDbServer> =
    LazyLock::new(|| MariaDbServer::start_with(&["skip-log-bin", "loose-skip-ssl", "tls-version="]));

/// Held by the test that reads the list of transactions.
static READING: Mutex<()> = Mutex::new(());

/// Held by the test that uses locks of `GET_LOCK`, whose names are those of the whole server.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

impl Database for MariaDb {
    const USE_TABLES: &'static str = "do 0";
    const SCHEMA: Option<&'static str> = None;
    const TABLES: &'static [&'static str] = &[
        "bandog_meta",
        "bandog_fence",
        "bandog_lease",
        "bandog_record",
        "bandog_line",
        "bandog_client",
        "bandog_channel",
    ];
    const QUEUE_TABLES: &'static [&'static str] =
        &["bandog_work", "bandog_work_body", "bandog_work_kept", "bandog_work_queues", "bandog_work_lock"];
    const TABLE_SETS: [&'static str; 2] = ["tables=bandog_", "tables=shop_"];
    const FOREIGN_TABLE: [&'static str; 3] = [
        "create table oauth_client (id text, expires datetime); insert into oauth_client values ('a', '2000-01-01')",
        "tables=oauth_",
        "oauth_client",
    ];
    const DROP_TABLES: &'static str = "drop table bandog_lease, bandog_fence, bandog_meta";
    const ANALYZE: &'static str = "analyze table";
    const SOCKET: &'static str = "socket=";
    const ROTATING: [&'static str; 2] = [
        "create user rotating@'%' identified by 'one'; grant all on DATABASE.* to rotating@'%'",
        "alter user rotating@'%' identified by 'two'",
    ];
    const ADVISORY: &'static Mode = &Mode {
        query: "mode=advisory",
        attempt: "select get_lock('k', 0)",
        wait: "select get_lock('k', 60)",
        free: "do release_all_locks()",
        success: "1",
    };
    const ROWS: &'static str =
        "create table tb_lock (id int auto_increment primary key, lockname varchar(64) not null unique)";
    const DENY_ROWS: &'static str =
        "alter table tb_lock add column odd int not null, add constraint few check (lockname <> 'bandog doctor')";
    const SHEDLOCK: Words = Words {
        times: &["datetime(3)", "datetime(6)"],
        now: "utc_timestamp(3)",
        later: "timestampadd(microsecond, 30000000, utc_timestamp(3))",
        changed: "; select row_count()",
        ignore: ["ignore", ""],
    };

    type Connection = Conn;
    type Pair = failover::Pair;

    fn shared() -> &'static MariaDbServer {
        &SERVER
    }

    fn without_tls() -> &'static MariaDbServer {
        &BARE_SERVER
    }

    fn with_tls(files: &TlsFiles) -> MariaDbServer {
        let option = |name: &str, file: &Path| format!("ssl-{name}={}", file.display());
        let options = [option("ca", &files.ca), option("cert", &files.cert), option("key", &files.key)];
        MariaDbServer::start_with(&options.each_ref().map(String::as_str))
    }

    /// The session is that of the user of the clients.
    async fn connect(server: &MariaDbServer, database: &str) -> Conn {
        Conn::from_url(server.url(database)).await.unwrap()
    }

    async fn execute(connection: &mut Conn, statements: &str) {
        connection.query_drop(statements).await.unwrap();
    }

    fn terminal(server: &MariaDbServer, database: &str) -> Command {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--batch", "--raw", "--skip-column-names", "--unbuffered", "--user=root"]);
        command.arg("--socket").arg(server.directory().join("socket")).args(["--database", database]);
        command
    }

    fn shedlock_table(times: &str) -> String {
        shedlock::table(times, "utf8mb4")
    }

    async fn expect_tls(place: &Place<'_>) {
        place.sql("alter user locks@'%' require ssl");
        let error = open(&place.url()).ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    }

    fn fill(place: &Place<'_>, rows: u32) {
        let numbers = MariaDbServer::numbers(rows);
        place.sql(&format!(
            "insert into bandog_fence select concat('other/', seq), seq from {numbers};
             insert into bandog_lease (name, owner, expires)
                select concat('other/', seq), 'other:1', utc_timestamp(6) + interval 1 hour from {numbers};
             insert into bandog_record select concat('other/', seq), seq, 'text' from {numbers};
             insert into bandog_line select concat('other/', seq), 'slot', 'text' from {numbers}"
        ));
    }

    /// The rows of a table or of an index.
    async fn rows_read(place: &Place<'_>) -> u64 {
        place.server.status(&["Handler_read_rnd_next", "Handler_read_next", "Handler_read_prev"])
    }

    fn forbid_tables(database: &str) {
        grant_only("select, insert, update, delete", database);
    }

    fn allow_tables(database: &str) {
        SERVER.sql("mysql", &format!("grant create on {database}.* to locks@'%'"));
    }

    fn forbid_elements(database: &str) {
        SERVER.sql("mysql", &format!("revoke all on {database}.* from locks@'%'"));
        let tables = SERVER.sql(database, "show tables");
        for table in tables.lines().filter(|table| *table != "bandog_work") {
            SERVER.sql("mysql", &format!("grant select, insert, update, delete on {database}.{table} to locks@'%'"));
        }
    }

    fn grant_documented_rights(database: &str) {
        rights::grant_documented("grant select, insert, update, delete on", database);
    }

    async fn alone() -> Option<tokio::sync::MutexGuard<'static, ()>> {
        Some(ALONE.lock().await)
    }
}

/// The user of the clients has these rights on a database, and no others.
fn grant_only(rights: &str, database: &str) {
    let grant = format!("grant {rights} on {database}.* to locks@'%'");
    SERVER.sql("mysql", &format!("revoke all on {database}.* from locks@'%'; {grant}"));
}

/// The transactions in a database that wait for a locked row: their numbers, one a line.
///
/// The server renews its list of transactions only if the list has not been read for 0.1 s. So all tests together read it
/// less often.
fn lock_waits(database: &str) -> String {
    let _reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
    let sessions =
        "information_schema.innodb_trx t join information_schema.processlist p on p.id = t.trx_mysql_thread_id";
    let waits =
        format!("do sleep(0.12); select trx_id from {sessions} where p.db = '{database}' and trx_state = 'LOCK WAIT'");
    SERVER.sql("mysql", &waits)
}

/// The number of deadlocks that the server has found.
fn deadlocks(server: &MariaDbServer) -> u64 {
    let count = "select count from information_schema.innodb_metrics where name = 'lock_deadlocks'";
    server.sql("mysql", count).parse().unwrap()
}
