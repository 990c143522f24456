//! The rows of the tables.

use std::time::Duration;

use bandog_core::{Answer, ClientId, Inspect, Leases, Member, Pattern, Records, Renewal, Step, Swap, Verdict};
use bandog_testkit::{MariaDb, MariaDbServer};
use mysql_async::prelude::Queryable;

use super::{SERVER, lock_waits};
use crate::suite::{Database, claim, open, release, renew, take, try_take};

#[tokio::test]
async fn the_settings_of_the_server_do_not_matter() {
    let server = MariaDbServer::start_with(&[
        "autocommit=0",
        "completion-type=1",
        "transaction-isolation=SERIALIZABLE",
        "sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT",
        "default-time-zone=-07:00",
        "default-storage-engine=MyISAM",
        "character-set-server=latin1",
        "init-connect=set sql_safe_updates = 1, sql_select_limit = 1",
    ]);
    let database = "shop";
    // The variable has one name in MariaDB and another in MySQL. Each server executes one of the comments.
    let read_only = "set global /*M! tx_read_only *//*!80000 transaction_read_only */ = 1";
    server.sql("mysql", &format!("create database shop; grant all on shop.* to locks@'%'; {read_only}"));
    let (store, other) = (open(&server.url(database)), open(&server.url(database)));
    let claims: Vec<_> = ["ä", "b", "c"].map(claim).to_vec();
    for claim in &claims {
        take(&store, claim).await;
        assert!(try_take(&other, &claim.clone()).await.unwrap().is_some(), "a repeated claim");
    }
    assert_eq!(other.list(&Pattern::all()).await.unwrap().len(), claims.len());
    let record = Swap::new(claims[0].key.clone(), None, "text 'ä' \\ \"");
    assert!(store.swap(std::slice::from_ref(&record)).await.unwrap().each[0].is_ok());
    let reading = other.read(std::slice::from_ref(&record.key), &[]).await.unwrap();
    assert_eq!(Some(reading.records[0].clone().unwrap().unwrap().value), record.to);
    for claim in &claims {
        assert!(matches!(renew(&other, claim).await.unwrap(), Renewal::Extended { .. }));
        release(&other, claim).await;
    }
    assert!(store.list(&Pattern::all()).await.unwrap().is_empty());
}

#[tokio::test]
async fn long_lists_lock_no_other_rows() {
    const NAMES: usize = 1500;
    let database = SERVER.new_database();
    let store = open(&SERVER.url(&database));
    let claims: Vec<_> = (0..NAMES).map(|n| claim(&format!("name {n}"))).collect();
    let steps: Vec<_> = claims.iter().cloned().map(Step::Claim).collect();
    assert!(
        store.apply(&steps).await.iter().all(|answer| matches!(answer, Ok(Answer::Claimed(Verdict::Granted { .. }))))
    );
    let others: Vec<_> = ["a", "name 15x", "z"].map(claim).to_vec();
    for other in &others {
        take(&store, other).await;
    }
    let mut raw = MariaDb::connect(&SERVER, &database).await;
    let locks = "start transaction; select * from bandog_lease where name in ('a', 'name 15x', 'z') for update";
    raw.query_drop(locks).await.unwrap();
    for renewal in store.renew(&claims).await {
        assert!(matches!(renewal.unwrap(), Renewal::Extended { .. }));
    }
    assert_eq!(lock_waits(&database), "");
    raw.query_drop("rollback").await.unwrap();
}

// Promise: MY2
#[tokio::test]
async fn the_time_zones_of_the_server_do_not_matter() {
    // The setting changes the locks in ShedLock's layout, so no other test uses this server.
    let server = MariaDbServer::start();
    let database = server.new_database();
    let (store, ours) = (open(&server.url(&database)), claim("k"));
    take(&store, &ours).await;
    let utc =
        "select expires > utc_timestamp() + interval 50 second and expires < utc_timestamp() + interval 61 second";
    assert_eq!(server.sql(&database, &format!("{utc} from bandog_lease")), "1");
    server.sql(&database, "set global time_zone = '+11:00'");
    let (later, theirs) = (open(&server.url(&database)), claim("k"));
    assert!(try_take(&later, &theirs).await.unwrap().is_none(), "the lock was granted twice");
    assert!(matches!(renew(&later, &ours).await.unwrap(), Renewal::Extended { .. }));
    assert_eq!(server.sql(&database, &format!("{utc} from bandog_lease")), "1");
}

/// Fair mutexes leave a row for each call that was next. Their deletion neither scans the table nor fails a request.
#[tokio::test]
async fn old_channels_are_deleted_in_portions_and_without_a_scan() {
    let database = SERVER.new_database();
    let (store, member) = (open(&SERVER.url(&database)), Member::here(ClientId::random()));
    let register = async || store.register(&member, Duration::from_secs(60)).await;
    register().await.unwrap();
    let numbers = MariaDbServer::numbers(1500);
    SERVER.sql(&database, &format!("insert into bandog_channel select concat('old ', seq), seq from {numbers}"));
    SERVER.sql(
        &database,
        "insert into bandog_channel select 'new', timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))",
    );
    let rows = || SERVER.sql(&database, "select count(*) from bandog_channel");
    let mut raw = MariaDb::connect(&SERVER, &database).await;
    raw.query_drop("start transaction; select * from bandog_channel where name = 'old 1' for update").await.unwrap();
    register().await.unwrap();
    assert_eq!(rows(), "1501", "the row that another transaction has locked was deleted");
    raw.query_drop("rollback").await.unwrap();
    register().await.unwrap();
    assert_eq!(rows(), "501");
    register().await.unwrap();
    assert_eq!(rows(), "1", "the new row was deleted");
    let old =
        "select count(*) from information_schema.statistics where table_schema = database() and index_name = 'number'";
    assert_eq!(SERVER.sql(&database, old), "1", "the deletion scans the table");
}
