//! Transactions that wait: for the only connection of a pool, or for a row of a lock. The tests run on each database, with
//! the helper functions of its `support`.

use bandog::ErrorKind;
use bandog_sqlx::FenceIn;
use sqlx::Connection;

use super::support::{Database, LIMITS, LOCK_FENCES, narrow_pool, write};
use crate::kinds::SOON;

/// Tasks that share one connection, and the names of their locks.
const TASKS: usize = 100;
const NAMES: usize = 10;

#[tokio::test]
async fn many_tasks_with_one_connection_all_commit() {
    let database = Database::new();
    let (client, pool) = (database.client("").await, narrow_pool(&database.url()).await);
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| {
            let (client, pool) = (client.clone(), pool.clone());
            tokio::spawn(async move {
                let guard = client.mutex(format!("k{}", number % NAMES)).lock().await.unwrap();
                let mut tx = pool.begin().await.unwrap();
                write(&mut tx, &format!("{number:02}")).await;
                guard.fence_in(&mut tx).await.unwrap();
                tx.commit().await.unwrap();
                guard.release().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(SOON, task).await.expect("a task hangs").unwrap();
    }
    let expected: Vec<_> = (0..TASKS).map(|number| format!("{number:02}")).collect();
    assert_eq!(database.writes(), expected.join(" "));
}

/// The check fails, and the guard does not: it is still held.
#[tokio::test]
async fn a_check_that_exceeds_a_limit_of_its_session_writes_nothing_and_loses_no_lock() {
    let database = Database::new();
    let client = database.client("").await;
    let (mut connection, mut blocking) = (database.connection().await, database.connection().await);
    let guard = client.mutex("k").lock().await.unwrap();
    for limit in LIMITS {
        let mut block = blocking.begin().await.unwrap();
        sqlx::query(LOCK_FENCES).fetch_all(&mut *block).await.unwrap();
        let mut connection = database.connection().await;
        sqlx::query(limit).execute(&mut connection).await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, limit).await;
        let error = guard.fence_in(&mut tx).await.unwrap_err();
        assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, false), "{limit}: {error}");
        println!("{limit}: {error}");
        assert!(error.to_string().contains("repeat"), "{limit}: the error does not say what to do: {error}");
        // A program that ignores the error writes nothing.
        tx.commit().await.unwrap();
        assert_eq!(database.writes(), "", "{limit}");
        block.rollback().await.unwrap();
        assert!(!guard.is_lost(), "{limit}");
    }
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "later").await;
    guard.commit(tx).await.unwrap();
    assert_eq!(database.writes(), "later");
    guard.release().await.unwrap();
}
