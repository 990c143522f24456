//! Transactions in the wrong database, or with another schema.

use bandog::ErrorKind;
use bandog_sqlx::FenceIn;
use sqlx::Connection;

use super::support::{Database, write};

// Promise: PG17
#[tokio::test]
async fn a_transaction_in_another_database_is_misused() {
    let (database, with_locks, empty) = (Database::new(), Database::new(), Database::new());
    let client = database.client("").await;
    let guard = client.mutex("k").lock().await.unwrap();
    with_locks.client("").await.mutex("k").lock().await.unwrap().release().await.unwrap();
    for other in [&with_locks, &empty] {
        let mut connection = other.connection().await;
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "elsewhere").await;
        let error = guard.commit(tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
        assert_eq!(other.writes(), "");
    }
    let mut connection = database.connection().await;
    guard.commit(connection.begin().await.unwrap()).await.unwrap();
}

// Promise: PG17
#[tokio::test]
async fn the_schema_is_that_of_the_lock() {
    let database = Database::new();
    let (client, other) = (database.client("&schema=shop_locks").await, database.client("").await);
    let (guard, _unrelated) = (client.mutex("k").lock().await.unwrap(), other.mutex("k").lock().await.unwrap());
    let mut connection = database.connection().await;
    let mut tx = connection.begin().await.unwrap();
    sqlx::query("set local search_path to public").execute(&mut *tx).await.unwrap();
    guard.commit(tx).await.unwrap();
}
