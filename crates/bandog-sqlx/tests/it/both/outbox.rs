//! Elements are pushed with the effects of a program, and settled with the effects of a worker.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bandog::{
    ErrorKind,
    work::{Backoff, ClientWork, Delivery, Phase, Running, TaskCall, TaskHandler, TaskRun, WorkQueue},
};
use bandog_sqlx::{DoneIn, FenceIn, PushIn};
use bandog_testkit::eventually_async;
use sqlx::{Connection, Pool};
use tokio::sync::Semaphore;

use super::support::{Database, Db, narrow_pool};
use crate::kinds::SOON;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn orders(database: &Database) -> WorkQueue<String> {
    database.client("").await.work_queue("orders").unwrap()
}

fn insert(what: &str) -> String {
    format!("insert into writes values ('{what}')")
}

/// Workers that write the element, and settle it in the same transaction. Each third attempt is given up before the commit.
fn worker(queue: &WorkQueue<String>, pool: Pool<Db>, attempts: &Arc<AtomicU32>) -> Running {
    let attempts = attempts.clone();
    let workers =
        queue.workers(4).deliveries(100).lease(Duration::from_secs(1)).backoff(Backoff::fixed(Duration::ZERO).unwrap());
    workers.run(move |order: Delivery<String>| {
        let (pool, attempts) = (pool.clone(), attempts.clone());
        async move {
            let attempt = attempts.fetch_add(1, SeqCst);
            let mut tx = pool.begin().await?;
            sqlx::query(&insert(&order)).execute(&mut *tx).await?;
            order.done_in(&mut tx).await?;
            match attempt % 3 {
                0 => tx.rollback().await?, // The handler says that it is done, but it is not.
                1 => return Err("given up".into()),
                _ => tx.commit().await?,
            }
            Ok::<_, BoxError>(())
        }
    })
}

// Promise: W8
#[tokio::test]
async fn effects_and_elements_commit_together() {
    const ORDERS: usize = 40;
    let database = Database::new();
    let (queue, mut connection) = (orders(&database).await, database.connection().await);
    for number in 0..ORDERS {
        let mut tx = connection.begin().await.unwrap();
        sqlx::query(&insert(&format!("in{number:02}"))).execute(&mut *tx).await.unwrap();
        let id = queue.push(&format!("out{number:02}")).push_in(&mut tx).await.unwrap();
        if number % 4 == 3 {
            tx.rollback().await.unwrap();
            assert!(queue.find(id).await.unwrap().is_none());
        } else {
            tx.commit().await.unwrap();
            assert_eq!(queue.find(id).await.unwrap().map(|row| row.phase), Some(Phase::Ready));
        }
    }
    let attempts = Arc::new(AtomicU32::new(0));
    let mut running = Vec::new();
    for _ in 0..2 {
        running.push(worker(&orders(&database).await, narrow_pool(&database.url()).await, &attempts));
    }
    // One of three goes away in the middle.
    let third = worker(&orders(&database).await, narrow_pool(&database.url()).await, &attempts);
    eventually_async(SOON, async || attempts.load(SeqCst) > 20).await;
    drop(third);
    eventually_async(SOON * 3, async || {
        let status = queue.status().await.unwrap();
        status.counts.values().sum::<u64>() == 0
    })
    .await;
    for running in running {
        running.stop().await.unwrap();
    }
    let expected = (0..ORDERS).filter(|number| number % 4 != 3);
    let numbers: Vec<_> = expected.map(|number| format!("{number:02}")).collect();
    let of = |prefix: &str| numbers.iter().map(|number| format!("{prefix}{number}")).collect::<Vec<_>>();
    assert_eq!(database.writes(), [of("in"), of("out")].concat().join(" "), "each effect once");
}

// Promise: W8
#[tokio::test]
async fn a_transaction_commits_nothing_for_an_element_that_is_lost() {
    let database = Database::new();
    let (queue, other) = (orders(&database).await, orders(&database).await);
    let (kinds, url) = (Arc::new(std::sync::Mutex::new(Vec::new())), database.url());
    queue.push("removed").await.unwrap();
    let workers = queue.workers(1).run({
        let kinds = kinds.clone();
        move |order: Delivery<String>| {
            let (kinds, url, other) = (kinds.clone(), url.clone(), other.clone());
            async move {
                let mut connection = super::support::connect(&url).await;
                let mut tx = connection.begin().await?;
                sqlx::query(&insert(&order)).execute(&mut *tx).await?;
                // Another worker has settled it meanwhile.
                order.hand_back().await?;
                let taken = other.workers(1).run(|_: Delivery<String>| async { Ok::<_, BoxError>(()) });
                while other.status().await.unwrap().counts.values().sum::<u64>() > 0 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                taken.stop().await?;
                let error = order.done_in(&mut tx).await.unwrap_err();
                kinds.lock().unwrap().push(error.kind());
                let _ = tx.commit().await;
                Ok::<_, BoxError>(())
            }
        }
    });
    eventually_async(SOON, async || kinds.lock().unwrap().len() == 1).await;
    assert_eq!(*kinds.lock().unwrap(), [ErrorKind::Lost]);
    workers.stop().await.unwrap();
    assert_eq!(database.writes(), "");
}

/// The transactions of a handler and of a push stay open for several leases. Other elements are done once meanwhile.
#[tokio::test]
async fn an_open_transaction_delays_only_its_own_elements() {
    const OTHERS: u32 = 40;
    /// Lease of an element. A worker keeps it also on a loaded machine.
    const LEASE: Duration = Duration::from_secs(2);
    let database = Database::new();
    let (queue, url) = (orders(&database).await, database.url());
    let (gate, attempts) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
    let running = queue.workers(4).lease(LEASE).run({
        let (gate, attempts) = (gate.clone(), attempts.clone());
        move |order: Delivery<String>| {
            let (gate, attempts, url) = (gate.clone(), attempts.clone(), url.clone());
            async move {
                attempts.fetch_add(1, SeqCst);
                let mut connection = super::support::connect(&url).await;
                let mut tx = connection.begin().await?;
                sqlx::query(&insert(&order)).execute(&mut *tx).await?;
                order.done_in(&mut tx).await?;
                if *order == "slow" {
                    let _open = gate.acquire().await?;
                }
                tx.commit().await?;
                Ok::<_, BoxError>(())
            }
        }
    });
    queue.push("slow").await.unwrap();
    eventually_async(SOON, async || attempts.load(SeqCst) == 1).await;
    let mut connection = database.connection().await;
    let mut tx = connection.begin().await.unwrap();
    let once = |text: &str| queue.push(text).once("mail 7", Duration::from_secs(3600));
    let first = once("mail").push_in(&mut tx).await.unwrap();
    let second = tokio::spawn(once("again").into_future());
    let begun = Instant::now();
    for number in 0..OTHERS {
        queue.push(&format!("{number:02}")).await.unwrap();
        // The queue has no end of it while the others go on, for three leases at least.
        tokio::time::sleep(3 * LEASE / OTHERS).await;
    }
    assert!(begun.elapsed() > 3 * LEASE);
    eventually_async(SOON, async || queue.status().await.unwrap().counts.values().sum::<u64>() == 1).await;
    assert_eq!(attempts.load(SeqCst), OTHERS + 1, "each was delivered once");
    tx.commit().await.unwrap();
    gate.add_permits(1);
    assert_eq!(second.await.unwrap().unwrap().id, first);
    eventually_async(SOON, async || queue.status().await.unwrap().counts.values().sum::<u64>() == 0).await;
    running.stop().await.unwrap();
    let mut expected: Vec<String> = (0..OTHERS).map(|number| format!("{number:02}")).collect();
    expected.extend(["mail".to_owned(), "slow".to_owned()]);
    assert_eq!(database.writes(), expected.join(" "));
    assert_eq!(attempts.load(SeqCst), OTHERS + 2);
}

#[tokio::test]
async fn pushes_are_refused_where_they_could_not_commit() {
    let database = Database::new();
    let (queue, mut connection) = (orders(&database).await, database.connection().await);
    let url = super::support::elsewhere(&database).await;
    let mut wrong = super::support::connect(&url).await;
    let others: WorkQueue<String> = bandog::connect(&url).await.unwrap().work_queue("orders").unwrap();
    others.push("of the other database").await.unwrap();
    let mut tx = wrong.begin().await.unwrap();
    let error = queue.push("a").push_in(&mut tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    tx.rollback().await.unwrap();

    let mut tx = connection.begin().await.unwrap();
    let error = queue.push("a").priority(99).push_in(&mut tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    let memory: WorkQueue<String> = bandog::connect("memory:").await.unwrap().work_queue("orders").unwrap();
    let error = memory.push("a").push_in(&mut tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(queue.push_all::<String>(&[]).push_in(&mut tx).await.unwrap().is_empty());
    // A savepoint may push: it is undone with the savepoint.
    let mut savepoint = tx.begin().await.unwrap();
    queue.push("undone").push_in(&mut savepoint).await.unwrap();
    savepoint.rollback().await.unwrap();
    let ids = queue.push_all(&["a".to_owned(), "b".to_owned()]).push_in(&mut tx).await.unwrap();
    let executor = database.client("").await.executor("billing").unwrap();
    let task = executor.submit(TaskCall::<()>::new("charge", &7)).push_in(&mut tx).await.unwrap();
    let calls = [1, 2].map(|number| TaskCall::<()>::new("charge", &number));
    let batch = executor.submit_all(calls).then(TaskCall::<()>::new("report", &3)).push_in(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    for id in ids {
        assert!(queue.find(id).await.unwrap().is_some());
    }
    assert_eq!(queue.status().await.unwrap().count(Phase::Ready), 2);
    let task = executor.submitted::<()>("charge", task).unwrap();
    assert_eq!(task.status().await.unwrap().map(|row| row.phase), Some(Phase::Ready));
    let task = |name| TaskHandler::new(name, |_: TaskRun, _: u32| async { Ok::<_, std::fmt::Error>(()) });
    let workers = executor.workers(1).task(task("charge")).task(task("report")).start().unwrap();
    let last = executor.submitted::<()>("report", batch[2]).unwrap();
    eventually_async(SOON, async || last.result(SOON).await.is_ok()).await;
    workers.stop().await.unwrap();
}

/// A lock, an order and its element are one: if the lock is lost, neither the order nor the element is there.
#[tokio::test]
async fn elements_are_pushed_and_settled_in_the_transaction_of_a_lock() {
    let database = Database::new();
    let (client, pool) = (database.client("").await, narrow_pool(&database.url()).await);
    let queue: WorkQueue<String> = client.work_queue("orders").unwrap();
    for is_lost in [true, false] {
        let guard = client.mutex("order 7").lock().await.unwrap();
        let mut tx = guard.begin(&pool).await.unwrap();
        sqlx::query(&insert("order 7")).execute(&mut *tx).await.unwrap();
        let id = queue.push("order 7").push_in(&mut tx).await.unwrap();
        if is_lost {
            client.evict("order 7").await.unwrap();
            assert_eq!(tx.commit().await.unwrap_err().kind(), ErrorKind::Lost);
            assert!(queue.find(id).await.unwrap().is_none());
        } else {
            tx.commit().await.unwrap();
            assert_eq!(queue.find(id).await.unwrap().map(|row| row.phase), Some(Phase::Ready));
        }
    }
    let (of_workers, workers) = (client.clone(), queue.workers(1));
    let workers = workers.run(move |order: Delivery<String>| {
        let (client, pool) = (of_workers.clone(), pool.clone());
        async move {
            let guard = client.mutex(order.as_str()).lock().await?;
            let mut tx = guard.begin(&pool).await?;
            sqlx::query(&insert("sent")).execute(&mut *tx).await?;
            order.done_in(&mut tx).await?;
            tx.commit().await?;
            Ok::<_, BoxError>(())
        }
    });
    eventually_async(SOON, async || queue.status().await.unwrap().counts.values().sum::<u64>() == 0).await;
    workers.stop().await.unwrap();
    assert_eq!(database.writes(), "order 7 sent");
}
