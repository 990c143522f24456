//! The check of a store and a pool at the start of a program.

use bandog::{ErrorKind, Pattern};
use bandog_core::SqlDialect;

use super::support::{Database, SERVER, SHEDLOCK, elsewhere, narrow_pool};

#[tokio::test]
async fn a_pool_for_the_database_of_the_locks_is_accepted_and_nothing_is_locked() {
    let database = Database::new();
    let client = database.client("").await;
    let pool = narrow_pool(&database.url()).await;
    for _ in 0..2 {
        bandog_sqlx::check(&client, &pool).await.unwrap();
    }
    assert!(client.profile().checks_locks_in.is_some());
    assert!(client.list(Pattern::all()).await.unwrap().is_empty());
    assert_eq!(database.open_transactions(), "0");
}

#[tokio::test]
async fn a_store_without_such_transactions_is_refused_at_the_start() {
    let database = Database::new();
    let pool = narrow_pool(&database.url()).await;
    let folder = tempfile::tempdir().unwrap();
    let sqlite = bandog::connect(format!("sqlite:{}/locks.db", folder.path().display())).await.unwrap();
    let error = bandog_sqlx::check(&sqlite, &pool).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.is_permanent() && error.to_string().contains("locks.db"), "{error}");
    assert_eq!(sqlite.profile().completes_runs_in, None);

    SERVER.sql(&database.0, SHEDLOCK);
    let client = database.client("&layout=shedlock").await;
    let error = bandog_sqlx::check(&client, &pool).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let dialect: Option<SqlDialect> = client.profile().completes_runs_in;
    assert!(dialect.is_some(), "runs are in tables of bandog");
}

#[tokio::test]
async fn a_pool_for_another_database_is_misused_at_the_start() {
    let database = Database::new();
    let client = database.client("").await;
    client.mutex("k").lock().await.unwrap().release().await.unwrap();
    let pool = narrow_pool(&elsewhere(&database).await).await;
    let error = bandog_sqlx::check(&client, &pool).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
}
