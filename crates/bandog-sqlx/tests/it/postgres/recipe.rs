//! The tests that docs/recipes.md shows.

use std::time::Duration;

use bandog::{
    ErrorKind,
    schedule::{Run, Scheduler, Shared},
    testing,
};
use bandog_sqlx::{CompleteIn, Completion, FenceIn};
use sqlx::PgPool;

use super::support::{Database, narrow_pool};

#[bandog::scheduled(cron = "0 0 6 * * ?")]
async fn pay_out(run: Run, pool: Shared<PgPool>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut tx = run.begin(&pool).await?;
    sqlx::query("insert into writes values ('payout')").execute(&mut *tx).await?;
    match tx.commit().await? {
        Completion::Committed | Completion::AlreadyCompleted => Ok(()),
    }
}

// The recipe begins here.
#[tokio::test] // in real time: under a paused clock, the timeouts of a pool are over at once
async fn nothing_is_written_after_a_loss() -> Result<(), Box<dyn std::error::Error>> {
    let (client, pool) = (testing::client(), test_database().await);
    let guard = client.mutex("orders").lock().await?;
    let mut tx = guard.begin(&pool).await?;
    sqlx::query("insert into writes values ('order')").execute(&mut *tx).await?;
    guard.lose();
    assert_eq!(tx.commit().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(count(&pool).await, 0);
    Ok(())
}

#[tokio::test]
async fn a_payout_is_written_with_its_run() -> Result<(), Box<dyn std::error::Error>> {
    let (client, pool) = (testing::client(), test_database().await);
    let node = Scheduler::over(&client).share(pool.clone()).job(pay_out::job()).start().await?;
    let jobs = node.jobs().unwrap();
    jobs.run("pay_out").await?;
    while jobs.history("pay_out").await?.iter().all(|run| run.ended.is_none()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(count(&pool).await, 1);
    node.stop().await?;
    Ok(())
}
// The recipe ends here.

#[test]
fn the_recipes_show_the_tests_of_this_file() {
    let own = include_str!("recipe.rs").split("// The recipe begins here.\n").nth(1).unwrap();
    let own = own.split("// The recipe ends here.").next().unwrap();
    let recipes = include_str!("../../../../../docs/recipes.md");
    assert!(recipes.contains(&format!("```rust\n{own}```")), "docs/recipes.md has other tests than this file");
}

/// A database with a table `writes`.
async fn test_database() -> PgPool {
    narrow_pool(&Database::new().url()).await
}

async fn count(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from writes").fetch_one(pool).await.unwrap()
}
