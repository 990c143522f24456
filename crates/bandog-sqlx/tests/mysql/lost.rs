//! A lock that is lost fails the transaction, at each isolation level.

use std::time::Duration;

use bandog::ErrorKind;
use bandog_sqlx::FenceIn;
use bandog_testkit::eventually_async;
use sqlx::Connection;

use crate::support::{Checked, Database, SOON, execute, set_level, write};

const LEVELS: [&str; 3] = ["read committed", "repeatable read", "serializable"];

// Promise: MY21
#[tokio::test]
async fn a_held_lock_lets_the_transaction_commit() {
    let database = Database::new();
    let client = database.client("").await;
    let mut connection = database.connection().await;
    for level in LEVELS {
        set_level(&mut connection, level).await;
        for kind in Checked::ALL {
            // The text and the binary protocol have the same characters.
            let name = format!("{kind:?} Ä🦀");
            let guard = kind.lock(&client, &name).await;
            let mut tx = connection.begin().await.unwrap();
            write(&mut tx, &format!("{kind:?}")).await;
            let statement = guard.fence_sql().await.unwrap();
            assert_eq!(execute(&statement, &mut tx).await, Ok(guard.fence().as_i64()));
            guard.commit(tx).await.unwrap();
            guard.release().await.unwrap();
        }
        assert_eq!(database.writes(), "Fair Mutex Write", "{level}");
        sqlx::query("delete from writes").execute(&mut connection).await.unwrap();
    }
}

// Promise: MY21
#[tokio::test]
async fn an_expired_lease_that_no_client_took_fails_the_transaction() {
    let database = Database::new();
    let client = database.client("").await;
    let mut connection = database.connection().await;
    set_level(&mut connection, "read committed").await;
    for kind in Checked::ALL {
        let guard = kind.lease(&client, "k", Duration::from_millis(500)).await;
        let statement = guard.fence_sql().await.unwrap();
        guard.lost().await;
        database.expired("k").await;
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "late").await;
        assert_eq!(execute(&statement, &mut tx).await, Err(ErrorKind::Lost), "{kind:?}");
        tx.rollback().await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "late").await;
        assert_eq!(guard.fence_in(&mut tx).await.unwrap_err().kind(), ErrorKind::Lost);
        tx.rollback().await.unwrap();
        drop(guard);
        client.idle().await;
    }
    assert_eq!(database.writes(), "");
}

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

/// The transaction commits only if all locks of the guard are held.
// Promise: MY21
#[tokio::test]
async fn a_guard_of_several_locks_checks_each_of_them() {
    let database = Database::new();
    let (client, operator) = (database.client("").await, database.client("").await);
    let mut connection = database.connection().await;
    for taken in [None, Some("from"), Some("to")] {
        let guard = bandog::all([client.mutex("from"), client.mutex("to")]).lock().await.unwrap();
        assert_eq!(guard.fence_sql().await.unwrap().len(), 2);
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, taken.unwrap_or("all")).await;
        if let Some(taken) = taken {
            operator.evict(taken).await.unwrap().unwrap();
        }
        let committed = guard.commit(tx).await.map_err(|error| error.kind());
        assert_eq!(committed, if taken.is_none() { Ok(()) } else { Err(ErrorKind::Lost) }, "{taken:?}");
        drop(guard);
        client.idle().await;
    }
    assert_eq!(database.writes(), "all");
}

/// A thread without async gets the same statement, for a client of its own.
// Promise: MY21
#[tokio::test]
async fn a_blocking_guard_has_the_statement() {
    let database = Database::new();
    let client = database.client("").await;
    let (blocking, is_held) = (client.clone(), std::sync::mpsc::channel());
    let (release, released) = std::sync::mpsc::channel::<()>();
    let holder = std::thread::spawn(move || {
        let blocking = blocking.blocking().unwrap();
        let guard = blocking.mutex("k").lock().unwrap();
        is_held.0.send((guard.fence_sql().unwrap(), guard.fence())).unwrap();
        released.recv().unwrap();
        guard.release().unwrap();
    });
    let (statement, fence) = tokio::task::spawn_blocking(move || is_held.1.recv().unwrap()).await.unwrap();
    let mut connection = database.connection().await;
    let mut tx = connection.begin().await.unwrap();
    assert_eq!(execute(&statement, &mut tx).await, Ok(fence.as_i64()));
    tx.rollback().await.unwrap();
    release.send(()).unwrap();
    tokio::task::spawn_blocking(|| holder.join().unwrap()).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    assert_eq!(execute(&statement, &mut tx).await, Err(ErrorKind::Lost));
}
