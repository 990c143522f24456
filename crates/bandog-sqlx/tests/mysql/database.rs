//! Transactions in the wrong database, and the rights of the user of a transaction.

use bandog::ErrorKind;
use bandog_sqlx::FenceIn;
use bandog_testkit::MariaDbServer;
use sqlx::Connection;

use crate::complete::expect_one_completion;
use crate::support::{Database, SERVER, narrow_pool, write};

/// The page that lists the rights.
const PAGE: &str = include_str!("../../../../docs/mysql.md");

/// The rights of a check, one grant a line.
fn grants() -> Vec<&'static str> {
    // The next block has the rights for work queues.
    let checks = PAGE.split("\n```\n").find(|block| block.contains("bandog_fence to app@")).unwrap();
    let grants: Vec<_> = checks.lines().filter(|line| line.ends_with(" to app@'%';")).collect();
    assert!(grants.len() >= 3, "docs/mysql.md lists no rights");
    grants
}

/// The statement names the database of the lock, so a transaction may use another one of the same server.
// Promise: MY23
#[tokio::test]
async fn a_transaction_in_another_database_of_the_server_is_checked() {
    let (database, other) = (Database::new(), Database::new());
    let client = database.client("").await;
    let guard = client.mutex("k").lock().await.unwrap();
    let mut connection = other.connection().await;
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "elsewhere").await;
    guard.commit(tx).await.unwrap();
    assert_eq!(other.writes(), "elsewhere");
    // Other tables with the same name are not those of the lock. A session that the client opens meanwhile reads the new id,
    // so there are several attempts.
    for attempt in 0..10 {
        let other_id = format!("update bandog_meta set value = 'other {attempt}' where name = 'id'");
        SERVER.sql(&database.0, &other_id);
        let before = other.writes();
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "wrong").await;
        if let Err(error) = guard.commit(tx).await {
            assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
            assert_eq!(other.writes(), before);
            return;
        }
    }
    panic!("each transaction was committed, although the tables have another id");
}

// Promise: MY23
#[tokio::test]
async fn a_savepoint_is_misused() {
    let database = Database::new();
    let client = database.client("").await;
    let guard = client.mutex("k").lock().await.unwrap();
    let mut connection = database.connection().await;
    let mut outer = connection.begin().await.unwrap();
    let inner = outer.begin().await.unwrap();
    let error = guard.commit(inner).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    guard.commit(outer).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let sqlite = bandog::connect(format!("sqlite:{}/locks.db", folder.path().display())).await.unwrap();
    let elsewhere = sqlite.mutex("k").lock().await.unwrap();
    let tx = connection.begin().await.unwrap();
    assert_eq!(elsewhere.commit(tx).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

// Promise: MY23
#[tokio::test]
async fn the_documented_rights_of_the_users_role_are_enough_and_needed() {
    let database = Database::new();
    let client = database.client("").await;
    let guard = client.mutex("k").lock().await.unwrap();
    SERVER.sql(&database.0, "create user app@'%' identified by 'PASSWORD'; grant insert on writes to app@'%'");
    let mut connection = database.connection_of("app:PASSWORD").await;
    let pool = narrow_pool(&database.url().replace(MariaDbServer::LOCKS, "app:PASSWORD")).await;
    for grant in grants() {
        assert_eq!(bandog_sqlx::check(&client, &pool).await.unwrap_err().kind(), ErrorKind::Denied);
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "without a right").await;
        let error = guard.commit(tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "before {grant:?}: {error}");
        SERVER.sql(&database.0, &grant.replace("shop.", ""));
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
    let words = "needs the rights of a check, and to select, insert and update rows of `bandog_record`";
    assert!(PAGE.contains(words), "docs/mysql.md does not list the rights");
    let check = grants().join("\n").replace("shop.", "").replace(" to app@", " to payer@");
    SERVER.sql(
        &database.0,
        &format!(
            "create user payer@'%' identified by 'PASSWORD'; grant insert on writes to payer@'%'; {check}
             grant select, insert, update on bandog_record to payer@'%'"
        ),
    );
    let url = database.url().replace("locks:", "payer:");
    expect_one_completion(&database, &client, url).await;
}
