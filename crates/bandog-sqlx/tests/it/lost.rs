//! A lock that is lost fails the transaction.

use std::time::Duration;

use bandog::ErrorKind;
use bandog_sqlx::FenceIn;
use sqlx::Connection;

use crate::support::{Checked, Database, SERVER, SOON, execute, write};

#[tokio::test]
async fn a_held_lock_lets_the_transaction_commit() {
    let database = Database::new();
    let client = database.client("").await;
    let mut connection = database.connection().await;
    for kind in Checked::ALL {
        let name = format!("{kind:?}");
        let guard = kind.lock(&client, &name).await;
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, &name).await;
        let fence = execute(&guard.fence_sql().await.unwrap(), &mut tx).await.unwrap();
        assert_eq!(fence, guard.fence().as_i64());
        guard.fence_in(&mut tx).await.unwrap();
        guard.commit(tx).await.unwrap();
        guard.release().await.unwrap();
    }
    assert_eq!(database.writes(), "Fair Mutex Write");
}

// Promise: PG14
#[tokio::test]
async fn an_expired_lease_that_no_client_took_fails_the_transaction() {
    let database = Database::new();
    let client = database.client("").await;
    let mut connection = database.connection().await;
    for kind in Checked::ALL {
        let guard = kind.lease(&client, "k", Duration::from_millis(500)).await;
        let statement = guard.fence_sql().await.unwrap();
        guard.lost().await;
        database.expired("k").await;
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "late").await;
        assert_eq!(execute(&statement, &mut tx).await, Err(ErrorKind::Lost), "{kind:?}");
        tx.commit().await.unwrap(); // The server rolls it back.
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "late").await;
        // The client knows the loss, so it sends no check. A program that ignores the error writes nothing nevertheless.
        assert_eq!(guard.fence_in(&mut tx).await.unwrap_err().kind(), ErrorKind::Lost);
        assert!(sqlx::query("select 1").execute(&mut *tx).await.is_err());
        tx.commit().await.unwrap(); // The server rolls it back.
        drop(guard);
        client.idle().await;
    }
    assert_eq!(database.writes(), "");
}

// Promise: PG14
#[tokio::test]
async fn a_lock_that_an_operator_took_away_fails_the_transaction() {
    let database = Database::new();
    let (client, operator) = (database.client("").await, database.client("").await);
    let mut connection = database.connection().await;
    for kind in Checked::ALL {
        let name = format!("{kind:?}");
        let guard = kind.lock(&client, &name).await;
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "late").await;
        operator.evict(&name).await.unwrap().unwrap();
        assert!(!guard.is_lost(), "the guard knows it already, so this tests nothing");
        let error = guard.commit(tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{kind:?}: {error}");

        let next = kind.lock(&operator, &name).await;
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "later").await;
        let error = guard.commit(tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{kind:?}: {error}");
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, &name).await;
        next.commit(tx).await.unwrap();
    }
    assert_eq!(database.writes(), "Fair Mutex Write");
}

/// The claim of a waiter is in the same row as the claim of the holder.
// Promise: PG14
#[tokio::test]
async fn a_waiter_in_the_queue_does_not_hold_the_lock_and_does_not_disturb_its_holder() {
    let database = Database::new();
    let (client, other) = (database.client("").await, database.client("").await);
    let mut connection = database.connection().await;
    for kind in [Checked::Fair, Checked::Write] {
        let name = format!("{kind:?}");
        let guard = kind.lock(&client, &name).await;
        let waiting = tokio::spawn({
            let (other, name) = (other.clone(), name.clone());
            async move { kind.lock(&other, &name).await }
        });
        bandog_testkit::eventually_async(SOON, async || !client.show(&name).await.unwrap().queue.is_empty()).await;
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, &name).await;
        guard.commit(tx).await.unwrap();
        guard.release().await.unwrap();
        let next = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
        next.commit(connection.begin().await.unwrap()).await.unwrap();
    }
}

// Promise: PG14
#[tokio::test]
async fn a_lock_in_a_file_cannot_be_checked() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = bandog::connect(format!("sqlite:{}/locks.db", folder.path().display())).await.unwrap();
    let guard = sqlite.mutex("k").lock().await.unwrap();
    assert_eq!(guard.fence_sql().await.unwrap_err().kind(), ErrorKind::Unsupported);
}

/// A failed check would be undone with the savepoint, and the outer transaction could commit.
// Promise: PG14
#[tokio::test]
async fn a_savepoint_is_misused() {
    let database = Database::new();
    let client = database.client("").await;
    let guard = client.mutex("k").lock().await.unwrap();
    let mut connection = database.connection().await;
    let mut outer = connection.begin().await.unwrap();
    let mut inner = outer.begin().await.unwrap();
    let error = guard.fence_in(&mut inner).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    assert!(error.to_string().contains("savepoint"), "{error}");
    drop(inner);
    let inner = outer.begin().await.unwrap();
    assert_eq!(guard.commit(inner).await.unwrap_err().kind(), ErrorKind::Misused);
    guard.commit(outer).await.unwrap();
}

/// The server ends the session while it executes the commit.
// Promise: PG14
#[tokio::test]
async fn a_session_that_ends_in_the_commit_leaves_its_result_open() {
    let database = Database::new();
    let client = database.client("").await;
    let guard = client.mutex("k").lock().await.unwrap();
    SERVER.sql(
        &database.0,
        "create function end_session() returns trigger language plpgsql security definer
         as $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;
         create constraint trigger ends after insert on writes deferrable initially deferred
         for each row execute function end_session()",
    );
    let mut connection = database.connection().await;
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "unsure").await;
    let error = guard.commit(tx).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, true), "{error}");
}

/// docs/postgres.md recommends this limit.
#[tokio::test]
async fn a_transaction_that_was_idle_for_too_long_writes_nothing_and_loses_no_lock() {
    let database = Database::new();
    let client = database.client("").await;
    let guard = client.mutex("k").lock().await.unwrap();
    let mut connection = database.connection().await;
    sqlx::query("set idle_in_transaction_session_timeout = '200ms'").execute(&mut connection).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "late").await;
    bandog_testkit::eventually_async(SOON, async || database.open_transactions() == "0").await;
    let error = guard.commit(tx).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, false), "{error}");
    assert!(error.to_string().contains("repeat the transaction"), "{error}");
    let mut connection = database.connection().await;
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "again").await;
    guard.commit(tx).await.unwrap();
    assert_eq!(database.writes(), "again");
}

/// The transaction commits only if all locks of the guard are held.
// Promise: PG14
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
// Promise: PG14
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
