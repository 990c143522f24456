//! Locks on SQLite in a program whose own data are in SQLite through sqlx.
#![allow(clippy::unwrap_used, reason = "tests")]

use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

#[tokio::test]
async fn the_fence_of_a_lock_is_written_through_sqlx() {
    let folder = tempfile::tempdir().unwrap();
    let client = bandog::connect(&format!("sqlite:{}", folder.path().join("locks.db").display())).await.unwrap();
    let data = SqliteConnectOptions::new().filename(folder.path().join("data.db")).create_if_missing(true);
    let pool = SqlitePool::connect_with(data).await.unwrap();
    sqlx::query("create table stock (fence integer not null)").execute(&pool).await.unwrap();

    let guard = client.mutex("stock").lock().await.unwrap();
    let fence = i64::try_from(guard.fence().get()).unwrap();
    sqlx::query("insert into stock values (?)").bind(fence).execute(&pool).await.unwrap();
    guard.release().await.unwrap();

    let later = client.mutex("stock").lock().await.unwrap();
    let (written,): (i64,) = sqlx::query_as("select fence from stock").fetch_one(&pool).await.unwrap();
    assert!(later.fence().get() > u64::try_from(written).unwrap());
}
