//! The parts of a URL, and a server of another kind.

use bandog_core::{ErrorKind, Leases};
use bandog_testkit::eventually_async;
use tokio::task::JoinHandle;

use super::SERVER;
use crate::suite::{SOON, claim, open, take, try_take};

#[tokio::test]
async fn operators_see_the_name_of_the_sessions_and_settings_of_the_url_reach_them() {
    let database = SERVER.new_database();
    let names = "select distinct application_name from pg_stat_activity where usename = 'locks' and datname = current_database()";
    let store = open(&SERVER.url(&database));
    take(&store, &claim("k")).await;
    assert_eq!(SERVER.sql(&database, names), "bandog");
    drop(store);
    SERVER.end_sessions(&database);
    // `search_path` of the URL does not move the tables of bandog, and its `statement_timeout` ends no claim: this one
    // waits for the table for longer.
    let options = "application_name=shop-7&options=-c%20search_path%3Dpg_catalog%20-c%20statement_timeout%3D150";
    let store = open(&format!("{}?{options}", SERVER.url(&database)));
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
        let error = open(&format!("{}?options={settings}", SERVER.url(&database))).ping().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{settings}: {error}");
        assert!(error.to_string().contains("correct options= in the URL"), "{settings}: {error}");
    }
}
