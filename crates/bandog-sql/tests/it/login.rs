//! Logins that the server refuses, and Unix sockets.

use bandog_core::{ErrorKind, Leases, Renewal};
use bandog_sql::{Sql, SqlOptions};
use bandog_testkit::eventually_async;

use tokio::task::JoinHandle;

use crate::support::{SERVER, SOON, claim, open, renew, take, try_take, url};

// Promise: PG11
#[tokio::test]
async fn a_wrong_login_is_denied_without_the_password_in_the_error() {
    let (port, database) = (SERVER.port(), SERVER.new_database());
    for (login, place) in [
        ("locks:hunter2", database.as_str()),
        ("nobody:hunter2", &database),
        ("locks", &database),
        ("locks:PASSWORD", "no_such_database"),
    ] {
        let store = open(&format!("postgres://{login}@127.0.0.1:{port}/{place}"));
        let error = store.ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{login}: {error}");
        let shown = format!("{error} {error:?} {store:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("PASSWORD"), "{shown}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_run_is_unavailable() {
    let options = SqlOptions::from_url("postgres://locks@127.0.0.1:1/locks").unwrap();
    let error = Sql::new(options).unwrap().ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!error.maybe_applied());
}

#[tokio::test]
async fn a_unix_socket_leads_to_the_same_locks() {
    let database = SERVER.new_database();
    let (directory, port) = (SERVER.directory().display(), SERVER.port());
    let store = open(&format!("postgres://postgres@/{database}?host={directory}&port={port}"));
    take(&store, &claim("k")).await;
    assert!(store.profile().store.contains("host="));
}

#[tokio::test]
async fn operators_see_the_name_of_the_sessions_and_settings_of_the_url_reach_them() {
    let database = SERVER.new_database();
    let names = "select distinct application_name from pg_stat_activity where usename = 'locks' and datname = current_database()";
    let store = open(&url(&SERVER, &database));
    take(&store, &claim("k")).await;
    assert_eq!(SERVER.sql(&database, names), "bandog");
    drop(store);
    SERVER.end_sessions(&database);
    // `search_path` of the URL does not move the tables of bandog, and its `statement_timeout` ends no claim: this one
    // waits for the table for longer.
    let options = "application_name=shop-7&options=-c%20search_path%3Dpg_catalog%20-c%20statement_timeout%3D150";
    let store = open(&format!("{}?{options}", url(&SERVER, &database)));
    store.ping().await.unwrap();
    let blocked = block_table(&database).await;
    let grant = try_take(&store, &claim("k")).await.unwrap();
    blocked.await.unwrap();
    assert!(grant.is_none(), "the lock of the first client is in the same tables");
    assert_eq!(SERVER.sql(&database, names), "shop-7");
}

/// Locks the table of leases for 400 ms.
async fn block_table(database: &str) -> JoinHandle<String> {
    let owned = database.to_owned();
    let statements = "begin; lock table bandog.bandog_lease in access exclusive mode; select pg_sleep(0.4); commit";
    let blocked = tokio::task::spawn_blocking(move || SERVER.sql(&owned, statements));
    let locked = "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and granted and relation = 'bandog.bandog_lease'::regclass";
    eventually_async(SOON, async || SERVER.sql(database, locked) == "1").await;
    blocked
}

#[tokio::test]
async fn a_url_with_a_directory_as_its_host_leads_to_the_socket() {
    let database = SERVER.new_database();
    let directory = SERVER.directory().display().to_string().replace('/', "%2F");
    let store = open(&format!("postgres://postgres@{directory}:{}/{database}", SERVER.port()));
    take(&store, &claim("k")).await;
}

#[tokio::test]
async fn a_server_of_another_kind_is_refused_with_a_hint() {
    let server = bandog_testkit::RedisServer::start();
    let error = open(&format!("postgres://locks@127.0.0.1:{}/shop", server.port())).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("check that a PostgreSQL server listens there"), "{error}");
}

#[tokio::test]
async fn a_hold_survives_a_change_of_the_password_in_a_file() {
    let (database, dir) = (SERVER.new_database(), tempfile::tempdir().unwrap());
    let file = dir.path().join("password");
    SERVER.sql("postgres", "create role rotating superuser login password 'one'");
    let address = format!("127.0.0.1:{}/{database}", SERVER.port());
    let refused = SqlOptions::from_url(&format!("postgres://rotating:x@{address}?password_file=/p")).unwrap_err();
    assert!(refused.to_string().contains("only one of them"), "{refused}");
    let store = open(&format!("postgres://rotating@{address}?password_file={}", file.display()));
    let missing = store.ping().await.unwrap_err();
    assert!(missing.kind() == ErrorKind::Misused && missing.to_string().contains(file.to_str().unwrap()), "{missing}");
    std::fs::write(&file, "one\n").unwrap();
    let claim = claim("k");
    take(&store, &claim).await;

    SERVER.sql("postgres", "alter role rotating password 'two'");
    SERVER.end_sessions(&database);

    // The next renewal opens a connection with the old password.
    let refused = eventually_async(SOON, async || match renew(&store, &claim).await {
        Err(error) if error.kind() == ErrorKind::Denied && error.is_about_login() => Ok(error.to_string()),
        other => Err(format!("{other:?}")),
    });
    let refused = refused.await;
    assert!(refused.contains(&format!("the password in the file {}", file.display())), "{refused}");
    std::fs::write(&file, "two\n").unwrap();
    let renewed = eventually_async(SOON, async || match renew(&store, &claim).await {
        Ok(Renewal::Extended { .. }) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    renewed.await;
}

/// The server refuses these settings each time, so waiting does not help.
#[tokio::test]
async fn settings_of_the_url_that_the_server_refuses_are_misused() {
    let database = SERVER.new_database();
    for (settings, kind) in [
        ("garbage", ErrorKind::Misused),
        ("-c%20nonsense%3D1", ErrorKind::Misused),
        ("-c%20work_mem%3Dmuch", ErrorKind::Misused),
        ("-c%20fsync%3Doff", ErrorKind::Misused),
        ("-c%20session_replication_role%3Dreplica", ErrorKind::Denied),
    ] {
        let error = open(&format!("{}?options={settings}", url(&SERVER, &database))).ping().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{settings}: {error}");
        assert!(error.to_string().contains("correct options= in the URL"), "{settings}: {error}");
    }
}
