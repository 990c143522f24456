//! PostgreSQL: the suite, and tests of what only this database has.

mod check;
mod clock;
mod days;
mod failover;
mod held;
mod held_days;
mod login;
mod polls;
mod poolers;
mod rights;
mod roles;
mod rows;
mod shedlock;
mod storms;
mod tables;

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, path::Path, process::Command, sync::LazyLock};

use bandog_testkit::{Postgres, PostgresServer, TlsFiles, eventually_async};

use crate::suite::{self, Database, SOON, held::Mode, shedlock::Words};

mod common {
    crate::suite::suite!(bandog_testkit::Postgres);
}

type Place<'s> = suite::Place<'s, Postgres>;

static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

impl Database for Postgres {
    const USE_TABLES: &'static str = "set search_path to bandog, public";
    const SCHEMA: Option<&'static str> = Some("bandog");
    const TABLES: &'static [&'static str] =
        &["bandog_meta", "bandog_fence", "bandog_lease", "bandog_record", "bandog_line", "bandog_client"];
    const QUEUE_TABLES: &'static [&'static str] =
        &["bandog_work", "bandog_work_body", "bandog_work_kept", "bandog_work_queues"];
    const TABLE_SETS: [&'static str; 2] = ["schema=bandog&tables=bandog_", "schema=shop&tables=bandog_"];
    const FOREIGN_TABLE: [&'static str; 3] = [
        "create schema shop authorization locks; set role locks;
         create table shop.oauth_client (id text, expires timestamptz);
         insert into shop.oauth_client values ('a', '2000-01-01')",
        "schema=shop&tables=oauth_",
        "shop.oauth_client",
    ];
    const DROP_TABLES: &'static str = "drop schema bandog cascade";
    const ANALYZE: &'static str = "analyze";
    const SOCKET: &'static str = "host=";
    const ROTATING: [&'static str; 2] =
        ["create role rotating superuser login password 'one'", "alter role rotating password 'two'"];
    const ADVISORY: &'static Mode = &Mode {
        query: "mode=advisory",
        attempt: "select pg_try_advisory_lock(hashtextextended('k', 0))",
        wait: "select 't' from pg_advisory_lock(hashtextextended('k', 0))",
        free: "select pg_advisory_unlock_all()",
        success: "t",
    };
    const ROWS: &'static str =
        "create table public.tb_lock (id serial primary key, lockname varchar(64) not null unique);
        grant select, insert, update on public.tb_lock to locks;
        grant usage on sequence public.tb_lock_id_seq to locks";
    const DENY_ROWS: &'static str = "revoke update on public.tb_lock from locks";
    const SHEDLOCK: Words = Words {
        times: &["timestamp", "timestamp(3)"],
        now: "timezone('utc', CURRENT_TIMESTAMP)",
        later: "timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => 30.000)",
        changed: " returning 1",
        ignore: ["", "on conflict (name) do nothing"],
    };

    type Connection = tokio_postgres::Client;
    type Pair = failover::Pair;

    fn shared() -> &'static PostgresServer {
        &SERVER
    }

    fn without_tls() -> &'static PostgresServer {
        &SERVER
    }

    /// The server starts without TLS, and then reads its copies of the files.
    fn with_tls(files: &TlsFiles) -> PostgresServer {
        let server = PostgresServer::start();
        let copy = |from: &Path, to: &str| {
            let text = fs::read_to_string(from).unwrap();
            let path = server.directory().join("data").join(to);
            // The server itself writes its files, so that they have its user.
            server.sql("postgres", &format!("copy (select '') to '{}'", path.display()));
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        copy(&files.cert, "server.crt");
        copy(&files.key, "server.key");
        server.sql("postgres", "alter system set ssl = on");
        server.restart();
        server
    }

    /// The session is that of a superuser.
    async fn connect(server: &PostgresServer, database: &str) -> tokio_postgres::Client {
        let config =
            format!("host={} port={} user=postgres dbname={database}", server.directory().display(), server.port());
        let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn execute(connection: &mut tokio_postgres::Client, statements: &str) {
        connection.batch_execute(statements).await.unwrap();
    }

    fn terminal(server: &PostgresServer, database: &str) -> Command {
        let mut command = Command::new("psql");
        command.args(["-X", "-q", "-A", "-t", "-U", "postgres", "-d", database, "-p", &server.port().to_string()]);
        command.arg("-h").arg(server.directory());
        command
    }

    fn shedlock_table(times: &str) -> String {
        format!(
            "create table public.shedlock (name varchar(64) primary key, lock_until {times} not null,
                locked_at {times} not null, locked_by varchar(255) not null);
             grant select, insert, update on public.shedlock to locks"
        )
    }

    async fn expect_tls(place: &Place<'_>) {
        let encrypted =
            "select bool_and(ssl) from pg_stat_ssl s join pg_stat_activity a using (pid) where usename = 'locks'";
        assert_eq!(place.sql(encrypted), "t");
    }

    fn fill(place: &Place<'_>, rows: u32) {
        place.sql(&format!(
            "insert into bandog_fence select 'other/' || n, n from generate_series(1, {rows}) n;
             insert into bandog_lease select 'other/' || n, 'other:1', now() + '1 hour' from generate_series(1, {rows}) n;
             insert into bandog_record select 'other/' || n, n, 'text' from generate_series(1, {rows}) n;
             insert into bandog_line select 'other/' || n, 'slot', 'text' from generate_series(1, {rows}) n"
        ));
    }

    async fn rows_read(place: &Place<'_>) -> u64 {
        // A session reports what it has read when it ends, at the latest.
        let sessions = "select count(*) from pg_stat_activity where datname = current_database() and usename = 'locks'";
        eventually_async(SOON, async || place.sql(sessions) == "0").await;
        let rows = "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables";
        place.sql(rows).parse().unwrap()
    }

    fn forbid_tables(database: &str) {
        SERVER.sql(database, "alter schema bandog owner to postgres; grant usage on schema bandog to locks");
    }

    fn allow_tables(database: &str) {
        SERVER.sql(database, "grant create on schema bandog to locks");
    }

    fn forbid_elements(database: &str) {
        SERVER.sql(database, "revoke insert on bandog.bandog_work from locks");
    }

    fn grant_documented_rights(database: &str) {
        SERVER.sql(database, &format!("revoke create on database {database} from locks; {}", rights::grants()));
    }
}

/// The sessions of clients in a database, by the numbers of their processes.
fn sessions(database: &str) -> BTreeSet<String> {
    let sessions = format!("select pid from pg_stat_activity where datname = '{database}' and usename = 'locks'");
    SERVER.sql("postgres", &sessions).lines().map(Into::into).collect()
}

/// Waits until this number of sessions of a database wait for a lock of another session.
async fn expect_waiting_sessions(database: &str, number: usize) {
    let waiting =
        format!("select count(*) from pg_stat_activity where datname = '{database}' and wait_event_type = 'Lock'");
    eventually_async(SOON, async || match SERVER.sql("postgres", &waiting) {
        found if found == number.to_string() => Ok(()),
        found => Err(found),
    })
    .await;
}

/// Changes settings of the user of the clients, for new sessions in this database.
fn set_for_user(database: &str, settings: &[&str]) {
    for setting in settings {
        SERVER.sql("postgres", &format!("alter role locks in database {database} set {setting}"));
    }
}
