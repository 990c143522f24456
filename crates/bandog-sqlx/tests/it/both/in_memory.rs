//! A store in memory in the tests of a program, whose transactions are in a real database. The tests run on each database,
//! with the helper functions of its `support`.

use bandog::{
    ErrorKind,
    schedule::{Job, Run, Scheduler},
    testing,
};
use bandog_sqlx::{CompleteIn, Completion, FenceIn};
use sqlx::Connection;
use tokio::sync::mpsc;

use super::support::{Database, execute, narrow_pool, set_pool_level, write};
use crate::kinds::{Checked, SOON};

#[tokio::test]
async fn a_lock_in_memory_is_checked_while_it_is_held_and_refused_once_it_is_lost() {
    let (database, store) = (Database::new(), testing::Store::new());
    let (client, other) = (store.client(), store.client());
    bandog_sqlx::check(&client, &narrow_pool(&database.url()).await).await.unwrap();
    let mut connection = database.connection().await;
    for kind in Checked::ALL {
        let guard = kind.lock(&client, "k").await;
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, &format!("{kind:?}")).await;
        guard.fence_in(&mut tx).await.unwrap();
        let fence = execute(&guard.fence_sql().await.unwrap(), &mut tx).await.unwrap();
        assert_eq!(u64::try_from(fence), Ok(guard.fence().get()));
        guard.commit(tx).await.unwrap();

        // The client of the guard learns of the loss only with its next renewal.
        other.evict("k").await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, "after the loss").await;
        let error = guard.fence_in(&mut tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        tx.commit().await.unwrap(); // Nothing of it is committed.
        let error = guard.commit(connection.begin().await.unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    }
    assert_eq!(database.writes(), "Fair Mutex Write");
}

#[tokio::test]
async fn locks_in_memory_are_checked_together_and_one_that_is_lost_is_enough() {
    let (database, client) = (Database::new(), bandog::connect("memory:").await.unwrap());
    let mut connection = database.connection().await;
    let guard = bandog::all([client.mutex("a"), client.mutex("b")]).lock().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "held").await;
    guard.commit(tx).await.unwrap();
    guard.guards()[1].lose();
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "lost").await;
    assert_eq!(guard.commit(tx).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(database.writes(), "held");
}

#[tokio::test]
async fn a_run_in_memory_is_completed_until_it_has_ended() {
    let (database, client) = (Database::new(), testing::client());
    let (reports, mut reported) = mpsc::unbounded_channel();
    let url = database.url();
    let job = Job::once("payout").run(move |run: Run| {
        let (url, reports) = (url.clone(), reports.clone());
        async move {
            let mut connection = super::support::connect(&url).await;
            let mut tx = connection.begin().await.unwrap();
            write(&mut tx, "in the run").await;
            assert_eq!(run.commit(tx).await.unwrap(), Completion::Committed);
            reports.send(run).unwrap();
        }
    });
    let node = Scheduler::over(&client).job(job).start().await.unwrap();
    let run = tokio::time::timeout(SOON, reported.recv()).await.unwrap().unwrap();
    node.idle().await;

    let mut connection = super::support::connect(&database.url()).await;
    let mut tx = connection.begin().await.unwrap();
    write(&mut tx, "after the run").await;
    let error = run.commit(tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(error.to_string().contains("this run has ended"), "{error}");
    assert_eq!(database.writes(), "in the run");
    node.stop().await.unwrap();
}

/// As with a store in the database.
// Promise: MY32, PG36
#[tokio::test]
async fn a_run_in_memory_is_refused_at_another_level_unless_it_begins_the_transaction() {
    let (database, client) = (Database::new(), testing::client());
    let (reports, mut reported) = mpsc::unbounded_channel();
    let url = database.url();
    let job = Job::once("payout").run(move |run: Run| {
        let (url, reports) = (url.clone(), reports.clone());
        async move {
            let pool = narrow_pool(&url).await;
            set_pool_level(&pool).await;
            let mut tx = pool.begin().await.unwrap();
            write(&mut tx, "refused").await;
            let error = run.complete_in(&mut tx).await.unwrap_err();
            tx.commit().await.unwrap(); // Nothing of it is committed.
            reports.send(error).unwrap();
            let mut tx = pool.begin().await.unwrap();
            write(&mut tx, "refused again").await;
            reports.send(run.commit(tx).await.unwrap_err()).unwrap();
            let mut tx = run.begin(&pool).await.unwrap();
            sqlx::query("insert into writes values ('begun')").execute(&mut *tx).await.unwrap();
            assert_eq!(tx.commit().await.unwrap(), Completion::Committed);
        }
    });
    let node = Scheduler::over(&client).job(job).start().await.unwrap();
    for _ in 0..2 {
        let error = tokio::time::timeout(SOON, reported.recv()).await.unwrap().unwrap();
        assert_eq!((error.kind(), error.verb()), (ErrorKind::Misused, Some("complete")), "{error}");
        assert!(error.to_string().contains("READ COMMITTED"), "{error}");
    }
    node.idle().await;
    assert_eq!(database.writes(), "begun");
    node.stop().await.unwrap();
}
