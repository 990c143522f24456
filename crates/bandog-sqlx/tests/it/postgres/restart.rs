//! A database that restarts in the middle of a run.

use std::time::Duration;

use bandog::schedule::{Job, OnCrash, Retry, Run, Scheduler, State};
use bandog_sqlx::{CompleteIn, Completion};
use bandog_testkit::{PostgresServer, eventually_async};
use sqlx::PgPool;
use tokio::sync::{mpsc, watch};

use super::support::narrow_pool;
use crate::kinds::SOON;

/// A job whose first attempt has an open transaction until the database has restarted.
fn job(
    name: &'static str,
    retry: Retry,
    pool: PgPool,
    begun: mpsc::UnboundedSender<()>,
    restarted: watch::Receiver<bool>,
) -> Job {
    Job::once(name).on_crash(OnCrash::Retry).retry(retry).run(move |run: Run| {
        let (pool, begun, mut restarted) = (pool.clone(), begun.clone(), restarted.clone());
        async move {
            let mut tx = run.begin(&pool).await?;
            sqlx::query(&format!("insert into writes values ('{name}')")).execute(&mut *tx).await.unwrap();
            begun.send(()).unwrap();
            restarted.wait_for(|restarted| *restarted).await.unwrap();
            tx.commit().await.map(|done| assert_eq!(done, Completion::Committed))
        }
    })
}

/// The node is alive, so the body has failed. `retry` repeats it, and `on_crash` does not.
#[tokio::test]
async fn a_run_whose_database_restarts_is_repeated_by_retry_and_not_by_on_crash() {
    let server = PostgresServer::start();
    let database = server.new_database();
    server.sql(&database, "create table writes (what text); grant all on writes to locks");
    let url = server.url(&database);
    let client = bandog::connect(format!("{url}?timeout=10s")).await.unwrap();
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let (restarted, waits) = watch::channel(false);
    let retry = Retry::times(20).from(Duration::from_millis(100));
    let repeated = job("repeated", retry, narrow_pool(&url).await, begun.clone(), waits.clone());
    let failed = job("failed", Retry::times(0), narrow_pool(&url).await, begun, waits);
    let node = Scheduler::over(&client).pool(2).job(repeated).job(failed).start().await.unwrap();
    for _ in 0..2 {
        tokio::time::timeout(SOON, has_begun.recv()).await.unwrap().unwrap();
    }
    server.restart();
    restarted.send(true).unwrap();
    let jobs = node.jobs().unwrap();
    for (name, expected) in [("repeated", State::Ok), ("failed", State::Failed)] {
        eventually_async(SOON, async || {
            let runs = jobs.history(name).await.unwrap_or_default();
            runs.iter().any(|run| run.ended.is_some() && run.state == expected)
        })
        .await;
    }
    assert_eq!(server.sql(&database, "select string_agg(what, ' ') from writes"), "repeated");
    node.stop().await.unwrap();
}
