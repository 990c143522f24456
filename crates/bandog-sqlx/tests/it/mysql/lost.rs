//! A lock that is lost fails the transaction, at each isolation level.

use std::time::Duration;

use bandog::ErrorKind;
use bandog_sqlx::FenceIn;
use bandog_testkit::eventually_async;
use sqlx::Connection;

use super::support::{Database, LEVELS, set_level, write};
use crate::kinds::{Checked, SOON};

/// The server would commit a transaction after a statement that has failed.
// Promise: MY21
#[tokio::test]
async fn a_program_that_ignores_the_error_writes_nothing() {
    let database = Database::new();
    let (client, operator) = (database.client("").await, database.client("").await);
    let mut connection = database.connection().await;
    let guard = client.mutex("k").lock().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "late").await;
    operator.evict("k").await.unwrap().unwrap();
    let next = operator.mutex("k").lock().await.unwrap();
    assert_eq!(guard.fence_in(&mut tx).await.unwrap_err().kind(), ErrorKind::Lost);
    tx.commit().await.unwrap();
    assert_eq!(database.writes(), "");
    next.release().await.unwrap();
    // This guard knows by itself that it is lost, so no statement is sent.
    let guard = client.mutex("k").lease(Duration::from_millis(500)).lock().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "later").await;
    guard.lost().await;
    assert_eq!(guard.fence_in(&mut tx).await.unwrap_err().kind(), ErrorKind::Lost);
    tx.commit().await.unwrap();
    assert_eq!(database.writes(), "");
}

/// The statement would not be executed, and so would not check the lock.
// Promise: MY21
#[tokio::test]
async fn a_session_that_limits_the_rows_of_results_cannot_check_a_lock() {
    let database = Database::new();
    let (client, operator) = (database.client("").await, database.client("").await);
    let mut connection = database.connection().await;
    sqlx::query("set sql_select_limit = 0").execute(&mut connection).await.unwrap();
    let guard = client.mutex("k").lock().await.unwrap();
    operator.evict("k").await.unwrap().unwrap();
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "late").await;
    let error = guard.fence_in(&mut tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    tx.commit().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "late").await;
    let error = guard.commit(tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    assert_eq!(database.writes(), "");
}

/// MariaDB commits a transaction before such a statement. Then no transaction is open, so a check would protect nothing.
// Promise: MY21
#[tokio::test]
async fn a_check_without_an_open_transaction_is_misused() {
    let database = Database::new();
    let client = database.client("").await;
    let mut connection = database.connection().await;
    let guard = client.mutex("k").lock().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    sqlx::query("create table further (id int)").execute(&mut *tx).await.unwrap();
    let error = guard.fence_in(&mut tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    assert!(error.to_string().contains("no transaction is open"), "{error}");
    tx.rollback().await.unwrap();
    // A session without `autocommit` has a transaction with its first statement.
    sqlx::query("set autocommit = 0").execute(&mut connection).await.unwrap();
    let statement = guard.fence_sql().await.unwrap();
    let query = statement.values.iter().fold(sqlx::query(&statement.text), |query, value| query.bind(value.as_str()));
    assert!(query.fetch_optional(&mut connection).await.unwrap().is_some());
}

// Promise: MY21
#[tokio::test]
async fn a_lock_that_was_granted_again_fails_the_transaction() {
    let database = Database::new();
    let (client, operator) = (database.client("").await, database.client("").await);
    let mut connection = database.connection().await;
    for level in LEVELS {
        set_level(&mut connection, level).await;
        for kind in Checked::ALL {
            let name = format!("{kind:?}");
            let guard = kind.lock(&client, &name).await;
            // The snapshot contains the first holder.
            let mut tx = connection.begin().await.unwrap();
            sqlx::query("select count(*) from bandog_fence").execute(&mut *tx).await.unwrap();
            write(&mut tx, "late").await;
            if level == "serializable" {
                // Such a reading locks what it has read.
                tx.rollback().await.unwrap();
                tx = connection.begin().await.unwrap();
            }
            operator.evict(&name).await.unwrap().unwrap();
            let next = kind.lock(&operator, &name).await;
            assert!(!guard.is_lost(), "the guard knows it already, so this tests nothing");
            let error = guard.commit(tx).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Lost), "{level} {kind:?}: {error}");
            let mut tx = connection.begin().await.unwrap();
            write(&mut tx, &name).await;
            next.commit(tx).await.unwrap();
            next.release().await.unwrap();
        }
        assert_eq!(database.writes(), "Fair Mutex Write", "{level}");
        sqlx::query("delete from writes").execute(&mut connection).await.unwrap();
    }
}

// Promise: MY21
#[tokio::test]
async fn a_transaction_with_a_snapshot_begins_after_the_lock() {
    let database = Database::new();
    let client = database.client("&watchdog=1s").await;
    let mut connection = database.connection().await;
    set_level(&mut connection, "repeatable read").await;
    client.mutex("Mutex").lock().await.unwrap().release().await.unwrap(); // The lock has rows.
    for kind in Checked::ALL {
        let name = format!("{kind:?}");
        let mut tx = connection.begin().await.unwrap();
        sqlx::query("select count(*) from writes").execute(&mut *tx).await.unwrap();
        let guard = kind.lock(&client, &name).await;
        write(&mut tx, "too early").await;
        let error = guard.commit(tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{kind:?}: {error}");

        let mut tx = connection.begin().await.unwrap();
        sqlx::query("select count(*) from writes").execute(&mut *tx).await.unwrap();
        // The lease that the snapshot contains has expired; the present one has not.
        let at_first = database.expires(&name);
        eventually_async(SOON, async || database.expires(&name) > at_first + 1.5).await;
        write(&mut tx, &name).await;
        guard.commit(tx).await.unwrap();
        guard.release().await.unwrap();
    }
    assert_eq!(database.writes(), "Fair Mutex Write");
}
