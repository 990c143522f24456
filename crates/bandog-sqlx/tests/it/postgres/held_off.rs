//! A checked transaction keeps other clients from the lock until it ends.

use std::time::Duration;

use bandog_sqlx::FenceIn;
use bandog_testkit::eventually_async;
use sqlx::Connection;

use super::support::{Database, SERVER, write};
use crate::kinds::SOON;

/// Attempts that must not get the lock.
const ATTEMPTS: usize = 5;

/// A holder that releases its lock before the commit.
// Promise: PG15
#[tokio::test]
async fn an_early_release_does_not_let_others_in() {
    let database = Database::new();
    let (client, other) = (database.client("").await, database.client("").await);
    let mut connection = database.connection().await;
    let guard = client.mutex("k").lock().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    guard.fence_in(&mut tx).await.unwrap();
    guard.release().await.unwrap();
    for _ in 0..ATTEMPTS {
        assert!(other.mutex("k").try_lock().await.unwrap().is_none());
        assert!(!other.forget("k").await.unwrap(), "the name was deleted while a transaction needs it");
    }
    tx.commit().await.unwrap();
    assert!(eventually_async(SOON, async || other.mutex("k").try_lock().await.unwrap()).await.fence().get() > 0);
}

/// The server ends the session of a process that dies in its transaction, so the lock is free.
// Promise: PG15
#[tokio::test]
async fn a_session_that_ends_lets_the_next_client_in() {
    let database = Database::new();
    let (client, other) = (database.client("").await, database.client("").await);
    let mut connection = database.connection().await;
    let guard = client.mutex("k").lease(Duration::from_millis(500)).lock().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "never").await;
    guard.fence_in(&mut tx).await.unwrap();
    database.expired("k").await;
    assert!(other.mutex("k").try_lock().await.unwrap().is_none());
    let sessions = "select pg_terminate_backend(pid) from pg_stat_activity where state = 'idle in transaction'";
    SERVER.sql(&database.0, &format!("{sessions} and datname = '{}'", database.0));
    let next = tokio::time::timeout(SOON, other.mutex("k").lock()).await.unwrap().unwrap();
    assert!(next.fence() > guard.fence());
    assert!(tx.commit().await.is_err());
    assert_eq!(database.writes(), "");
}
