//! Transactions in the wrong database, and the rights of the user of a transaction.

use bandog::ErrorKind;
use bandog_sqlx::FenceIn;
use sqlx::{Connection, PgConnection};

use crate::support::{Database, SERVER, write};

/// The page that lists the rights.
const PAGE: &str = include_str!("../../../../docs/postgres.md");

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

#[tokio::test]
async fn the_documented_rights_of_the_users_role_are_enough_and_needed() {
    let database = Database::new();
    let client = database.client("").await;
    let guard = client.mutex("k").lock().await.unwrap();
    SERVER.sql(&database.0, "create role shop login; grant insert on writes to shop");
    let url = format!(
        "postgres://shop@localhost/{}?host={}&port={}",
        database.0,
        SERVER.directory().display(),
        SERVER.port()
    );
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let grants: Vec<_> =
        PAGE.lines().filter(|line| line.starts_with("grant ") && line.ends_with(" to shop;")).collect();
    assert!(grants.len() >= 2, "docs/postgres.md lists no rights");
    for grant in grants {
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "without a right").await;
        let error = guard.commit(tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "before {grant:?}: {error}");
        SERVER.sql(&database.0, grant);
    }
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "with all").await;
    guard.commit(tx).await.unwrap();
    assert_eq!(database.writes(), "with all");
}
