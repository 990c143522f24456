//! Transactions in another database.

use bandog::ErrorKind;
use bandog_sqlx::FenceIn;
use sqlx::Connection;

use super::support::{Database, SERVER, write};

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
