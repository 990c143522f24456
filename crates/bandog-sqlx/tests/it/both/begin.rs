//! Transactions that begin under a lock or in a run. The tests run on each database, with the helper functions of its
//! `support`.

use std::{env, io::BufRead, time::Duration};

use bandog::{
    ErrorKind,
    schedule::{Job, Run, Scheduler},
};
use bandog_sqlx::{CompleteIn, Completion, FenceIn};
use bandog_testkit::{Process, eventually_async};
use tokio::sync::mpsc;

use super::support::{Database, idle_limit, level, narrow_pool, set_pool_level};
use crate::kinds::{SOON, child};

/// The environment variables of child processes: the URL of the database, and how the transaction begins.
const URL: &str = "BANDOG_BEGIN_URL";
const WITH: &str = "BANDOG_BEGIN_WITH";
/// The test that a child process runs.
const CHILD: &str = "a_child_process_updates_an_order";
/// The prefix of a child's messages. The test harness prints to the same stream.
const SAYS: &str = "child says: ";
const NAME: &str = "orders";
const UPDATE: &str = "update orders set id = id where id = 1";

#[test]
fn a_child_process_updates_an_order() {
    let (Ok(url), Ok(with)) = (env::var(URL), env::var(WITH)) else {
        println!("this is not a child process");
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = bandog::connect(format!("{url}?watchdog=3s&timeout=10s")).await.unwrap();
        let pool = narrow_pool(&url).await;
        let guard = client.mutex(NAME).lock().await.unwrap();
        let mut line = std::io::stdin().lock().lines();
        if with == "guard" {
            let mut tx = guard.begin(&pool).await.unwrap();
            sqlx::query(UPDATE).execute(&mut *tx).await.unwrap();
            println!("{SAYS}updated");
            line.next();
            println!("{SAYS}committed with {:?}", tx.commit().await.map_err(|error| error.kind()));
        } else {
            let mut tx = pool.begin().await.unwrap();
            sqlx::query(UPDATE).execute(&mut *tx).await.unwrap();
            println!("{SAYS}updated");
            line.next();
            println!("{SAYS}committed with {:?}", guard.commit(tx).await.map_err(|error| error.kind()));
        }
    });
}

/// Starts a child that holds the lock and has an open transaction, and stops it.
fn stopped_child(database: &Database, with: &str) -> Process {
    let mut command = child(module_path!(), CHILD);
    let child = Process::spawn(command.env(URL, database.url()).env(WITH, with));
    child.stdout_line(&format!("{SAYS}updated"), SOON);
    child.stop();
    child
}

// Promise: MY32, PG36
#[tokio::test]
async fn a_stopped_holder_does_not_block_the_rows_of_its_successor() {
    let database = Database::new();
    database.create_orders(1);
    let mut child = stopped_child(&database, "guard");
    let (client, pool) = (database.client("").await, narrow_pool(&database.url()).await);
    let guard = tokio::time::timeout(SOON, client.mutex(NAME).lock()).await.unwrap().unwrap();
    let mut tx = guard.begin(&pool).await.unwrap();
    tokio::time::timeout(SOON, sqlx::query(UPDATE).execute(&mut *tx)).await.expect("the row stays locked").unwrap();
    tx.commit().await.unwrap();
    child.cont();
    child.write_line("go on");
    let said = child.stdout_line(&format!("{SAYS}committed with"), SOON);
    assert!(said.ends_with(&format!("Err({:?})", ErrorKind::Lost)), "{said}");
}

/// The control.
// Promise: MY32, PG36
#[tokio::test]
async fn a_plain_transaction_of_a_stopped_holder_blocks_its_successor() {
    let database = Database::new();
    database.create_orders(1);
    let child = stopped_child(&database, "pool");
    let (client, pool) = (database.client("").await, narrow_pool(&database.url()).await);
    let guard = tokio::time::timeout(SOON, client.mutex(NAME).lock()).await.unwrap().unwrap();
    let updating = tokio::spawn(async move {
        let mut tx = guard.begin(&pool).await.unwrap();
        sqlx::query(UPDATE).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    });
    eventually_async(SOON, async || database.blocked() == "1").await;
    assert!(!updating.is_finished());
    drop(child);
    tokio::time::timeout(SOON, updating).await.unwrap().unwrap();
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Commit,
    Rollback,
    Drop,
    Lost,
}

// Promise: MY32, PG36
#[tokio::test]
async fn the_limit_is_the_ttl_and_ends_with_the_transaction() {
    let database = Database::new();
    let (client, pool) = (database.client("").await, narrow_pool(&database.url()).await);
    let before = idle_limit(&mut pool.acquire().await.unwrap()).await;
    for end in [End::Commit, End::Rollback, End::Drop, End::Lost] {
        let name = format!("{end:?}");
        let guard = client.mutex(&name).lease(Duration::from_secs(7)).lock().await.unwrap();
        assert_eq!(guard.ttl(), Duration::from_secs(7));
        let mut tx = guard.begin(&pool).await.unwrap();
        assert_eq!(idle_limit(&mut tx).await, "7");
        sqlx::query(&format!("insert into writes values ('{name}')")).execute(&mut *tx).await.unwrap();
        match end {
            End::Commit => tx.commit().await.unwrap(),
            End::Rollback => tx.rollback().await.unwrap(),
            End::Drop => drop(tx),
            End::Lost => {
                client.evict(&name).await.unwrap().unwrap();
                assert_eq!(tx.commit().await.unwrap_err().kind(), ErrorKind::Lost);
            }
        }
        assert_eq!(idle_limit(&mut pool.acquire().await.unwrap()).await, before, "{end:?}");
    }
    assert_eq!(database.writes(), "Commit");
}

// Promise: MY32, PG36
#[tokio::test]
async fn several_locks_are_checked_and_the_shortest_ttl_is_the_limit() {
    let database = Database::new();
    let (client, pool) = (database.client("").await, narrow_pool(&database.url()).await);
    let long = client.mutex("long").lease(Duration::from_secs(60));
    let guard = bandog::all([long, client.mutex("short").lease(Duration::from_secs(7))]).lock().await.unwrap();
    for (what, is_held) in [("held", true), ("lost", false)] {
        let mut tx = guard.begin(&pool).await.unwrap();
        assert_eq!(idle_limit(&mut tx).await, "7");
        sqlx::query(&format!("insert into writes values ('{what}')")).execute(&mut *tx).await.unwrap();
        if !is_held {
            client.evict("short").await.unwrap().unwrap();
        }
        assert_eq!(tx.commit().await.is_ok(), is_held);
    }
    assert_eq!(database.writes(), "held");
}

#[tokio::test]
async fn a_lost_lock_begins_no_transaction() {
    let database = Database::new();
    let (client, pool) = (database.client("").await, narrow_pool(&database.url()).await);
    let guard = client.mutex("lost").lease(Duration::from_millis(300)).lock().await.unwrap();
    guard.lost().await;
    assert_eq!(guard.begin(&pool).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(database.open_transactions(), "0");
}

/// The words with which the database refuses a statement are those of a conversion that has failed.
#[tokio::test]
async fn a_refusal_has_words_of_its_own() {
    let database = Database::new();
    let (client, pool) = (database.client("").await, narrow_pool(&database.url()).await);
    let guard = client.mutex("k").lock().await.unwrap();
    let tx = guard.begin(&pool).await.unwrap();
    client.evict("k").await.unwrap().unwrap();
    let error = tx.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    let says = error.to_string();
    assert!(says.ends_with("\"k\": the lock was lost: another client might hold it now (Lost)"), "{says}");
    assert!(std::error::Error::source(&error).is_none(), "{error:?}");
}

/// The level of the sessions of a pool does not matter, and is the same afterwards.
// Promise: MY32, PG36
#[tokio::test]
async fn a_run_is_completed_at_the_level_that_its_completion_needs() {
    let database = Database::new();
    let pool = narrow_pool(&database.url()).await;
    set_pool_level(&pool).await;
    let (client, own) = (database.client("").await, pool.clone());
    let (reports, mut reported) = mpsc::unbounded_channel();
    let job = Job::once("payout").lease(Duration::from_secs(9)).run(move |run: Run| {
        let (pool, reports) = (own.clone(), reports.clone());
        async move {
            assert_eq!(run.lease(), Duration::from_secs(9));
            for (what, expected) in [("first", Completion::Committed), ("again", Completion::AlreadyCompleted)] {
                let mut tx = run.begin(&pool).await.unwrap();
                assert_eq!(idle_limit(&mut tx).await, "9");
                sqlx::query(&format!("insert into writes values ('{what}')")).execute(&mut *tx).await.unwrap();
                assert_eq!(tx.commit().await.unwrap(), expected);
                let level = level(&mut pool.acquire().await.unwrap()).await.to_lowercase().replace('-', " ");
                assert_eq!(level, "repeatable read", "{what}");
            }
            run.begin(&pool).await.unwrap().rollback().await.unwrap();
            reports.send(()).unwrap();
        }
    });
    let node = Scheduler::over(&client).job(job).start().await.unwrap();
    tokio::time::timeout(SOON, reported.recv()).await.unwrap().unwrap();
    assert_eq!(database.writes(), "first");
    node.stop().await.unwrap();
}
