//! Transactions in the wrong database, and the rights of the user of a transaction.

use bandog::ErrorKind;
use bandog_sqlx::FenceIn;
use sqlx::{Connection, PgConnection, PgPool};

use crate::complete::expect_one_completion;
use crate::support::{Database, SERVER, write};

/// The page that lists the rights.
const PAGE: &str = include_str!("../../../../docs/postgres.md");

/// The rights of a check, one grant a line.
fn grants() -> Vec<&'static str> {
    // The next block has the rights for work queues.
    let checks = PAGE.split("\n```\n").find(|block| block.contains("grant update (fence)")).unwrap();
    let grants: Vec<_> =
        checks.lines().filter(|line| line.starts_with("grant ") && line.ends_with(" to shop;")).collect();
    assert!(grants.len() >= 2, "docs/postgres.md lists no rights");
    grants
}

/// The URL for a role without a password.
fn url_of(role: &str, database: &Database) -> String {
    let (directory, port) = (SERVER.directory().display(), SERVER.port());
    format!("postgres://{role}@localhost/{}?host={directory}&port={port}", database.0)
}

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

// Promise: PG17
#[tokio::test]
async fn the_documented_rights_of_the_users_role_are_enough_and_needed() {
    let database = Database::new();
    let client = database.client("").await;
    let guard = client.mutex("k").lock().await.unwrap();
    SERVER.sql(&database.0, "create role shop login; grant insert on writes to shop");
    let mut connection = PgConnection::connect(&url_of("shop", &database)).await.unwrap();
    let pool = PgPool::connect(&url_of("shop", &database)).await.unwrap();
    for grant in grants() {
        assert_eq!(bandog_sqlx::check(&client, &pool).await.unwrap_err().kind(), ErrorKind::Denied);
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "without a right").await;
        let error = guard.commit(tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "before {grant:?}: {error}");
        SERVER.sql(&database.0, grant);
    }
    bandog_sqlx::check(&client, &pool).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "with all").await;
    guard.commit(tx).await.unwrap();
    assert_eq!(database.writes(), "with all");
}

/// The page describes these rights in words.
#[tokio::test]
async fn the_documented_rights_of_a_completion_are_enough() {
    let database = Database::new();
    let client = database.client("").await;
    client.mutex("k").lock().await.unwrap().release().await.unwrap(); // Creates the tables.
    let words = "needs the rights of a check, and to select, insert, update and delete rows of `bandog_record`";
    assert!(PAGE.contains(words), "docs/postgres.md does not list the rights");
    let check = grants().join("\n").replace(" to shop;", " to payer;");
    SERVER.sql(
        &database.0,
        &format!(
            "create role payer login password 'PASSWORD'; grant insert on writes to payer; {check}
             grant select, insert, update, delete on bandog.bandog_record to payer"
        ),
    );
    let url = database.url().replace("locks:", "payer:");
    expect_one_completion(&database, &client, url).await;
}
