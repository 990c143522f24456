//! Isolation levels, and grants that happen at the same time as the check.

use std::time::Duration;

use bandog::ErrorKind;
use bandog_sqlx::FenceIn;
use bandog_testkit::eventually_async;
use sqlx::{Connection, PgConnection, Postgres, Transaction};

use super::support::{Database, SERVER, write};
use crate::kinds::{Checked, SOON};

const SNAPSHOT_LEVELS: [&str; 2] = ["repeatable read", "serializable"];

/// A transaction at this level, whose snapshot is taken.
async fn begin<'c>(connection: &'c mut PgConnection, level: &str) -> Transaction<'c, Postgres> {
    let mut tx = connection.begin().await.unwrap();
    sqlx::query(&format!("set transaction isolation level {level}")).execute(&mut *tx).await.unwrap();
    sqlx::query("select count(*) from writes").execute(&mut *tx).await.unwrap();
    tx
}

// Promise: PG16
#[tokio::test]
async fn a_transaction_with_a_snapshot_commits_also_after_renewals() {
    let database = Database::new();
    let client = database.client("&watchdog=3s").await;
    let mut connections = [database.connection().await, database.connection().await];
    for kind in Checked::ALL {
        let mut open = Vec::new();
        for (connection, level) in connections.iter_mut().zip(SNAPSHOT_LEVELS) {
            let name = format!("{level} {kind:?}");
            let guard = kind.lock(&client, &name).await;
            let mut tx = begin(connection, level).await;
            write(&mut tx, level).await;
            open.push((guard, tx, database.expires(&name), name));
        }
        for (guard, tx, at_first, name) in open {
            // The lease that the snapshot contains has expired; the present one has not.
            eventually_async(SOON, async || database.expires(&name) > at_first + 3.5).await;
            guard.commit(tx).await.unwrap();
            guard.release().await.unwrap();
        }
    }
}

// Promise: PG14
#[tokio::test]
async fn a_snapshot_from_before_the_grant_fails_the_transaction() {
    let database = Database::new();
    let client = database.client("").await;
    client.mutex("k").lock().await.unwrap().release().await.unwrap(); // Now the lock has rows.
    let mut connection = database.connection().await;
    for level in SNAPSHOT_LEVELS {
        let mut tx = begin(&mut connection, level).await;
        write(&mut tx, level).await;
        let guard = client.mutex("k").lock().await.unwrap();
        let error = guard.commit(tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{level}: {error}");
        guard.release().await.unwrap();
    }
    assert_eq!(database.writes(), "");
}

// Promise: PG14
#[tokio::test]
async fn a_later_grant_that_the_snapshot_does_not_contain_fails_the_transaction() {
    let database = Database::new();
    let (client, other) = (database.client("").await, database.client("").await);
    let mut connection = database.connection().await;
    for level in SNAPSHOT_LEVELS {
        let guard = client.mutex("k").lock().await.unwrap();
        let mut tx = begin(&mut connection, level).await;
        write(&mut tx, level).await;
        other.evict("k").await.unwrap().unwrap();
        let next = other.mutex("k").lock().await.unwrap();
        assert!(!guard.is_lost());
        assert!(guard.commit(tx).await.is_err(), "{level}: two holders");
        next.release().await.unwrap();
    }
    assert_eq!(database.writes(), "");
}

/// The check begins while a grant to another claim is not committed yet. The snapshot of the statement still has the
/// earlier holder, and the row of the fence is already that of the later one.
// Promise: PG14
#[tokio::test]
async fn a_grant_that_commits_during_the_check_is_seen() {
    let database = Database::new();
    let client = database.client("").await;
    let guard = client.mutex("k").lock().await.unwrap();
    let mut granting = PgConnection::connect(&format!(
        "postgres://postgres@localhost/{}?host={}&port={}",
        database.0,
        SERVER.directory().display(),
        SERVER.port()
    ))
    .await
    .unwrap();
    let mut grant = granting.begin().await.unwrap();
    for statement in [
        "update bandog.bandog_lease set owner = '00000000-0000-0000-0000-000000000000:1'",
        "update bandog.bandog_fence set fence = fence + 1",
    ] {
        sqlx::query(statement).execute(&mut *grant).await.unwrap();
    }
    let mut connection = database.connection().await;
    let checking = tokio::spawn(async move {
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "late").await;
        guard.commit(tx).await
    });
    let blocked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database() \
                   and query like '%for share of f%'";
    eventually_async(SOON, async || SERVER.sql(&database.0, blocked) == "1").await;
    grant.commit().await.unwrap();
    let error = tokio::time::timeout(SOON, checking).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert_eq!(database.writes(), "");
}

/// The lease expires while the check waits for the row of the fence.
// Promise: PG14
#[tokio::test]
async fn a_lease_that_expires_during_the_check_is_seen() {
    let database = Database::new();
    let client = database.client("").await;
    let guard = client.mutex("k").lease(Duration::from_secs(2)).lock().await.unwrap();
    let mut connection = database.connection().await;
    let mut blocking = database.connection().await;
    let mut block = blocking.begin().await.unwrap();
    sqlx::query("select from bandog.bandog_fence for update").execute(&mut *block).await.unwrap();
    let checking = tokio::spawn(async move {
        let mut tx = connection.begin().await.unwrap();
        guard.fence_in(&mut tx).await
    });
    database.expired("k").await;
    assert!(!checking.is_finished());
    block.rollback().await.unwrap();
    let error = tokio::time::timeout(SOON, checking).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
}
