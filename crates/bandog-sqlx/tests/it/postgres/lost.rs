//! A lock that is lost fails the transaction.

use bandog::ErrorKind;
use bandog_sqlx::FenceIn;
use sqlx::Connection;

use super::support::{Database, SERVER, write};
use crate::kinds::{Checked, SOON};

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
