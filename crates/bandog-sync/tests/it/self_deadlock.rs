//! A task that waits for a lock which it holds itself waits forever. The engine logs a warning about such a wait.

use std::time::Duration;

use bandog_testkit::LogCapture;
use tokio::time;

use crate::kit::{memory, ms, paused, waiting};

/// The warnings about tasks and threads that wait for themselves.
fn warned(log: &LogCapture) -> Vec<String> {
    log.take("WARN").into_iter().filter(|line| line.contains("took itself")).collect()
}

/// The warning is logged after a second, and at most once a minute for each name. It is also logged for a wait with a
/// limit.
#[tokio::test(start_paused = true)]
async fn a_task_that_locks_twice_is_warned_of_once_a_minute() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let client = paused().over(memory()).unwrap();
    let (orders, stock) = (client.mutex("orders"), client.mutex("stock"));
    let task = tokio::spawn(async move {
        let _guard = orders.lock().await.unwrap();
        assert!(time::timeout(ms(70_000), orders.lock()).await.is_err());
        assert!(orders.try_lock_for(ms(1000)).await.unwrap().is_none());
        let _other = stock.lock().await.unwrap();
        assert!(stock.try_lock_for(ms(1000)).await.unwrap().is_none());
    });
    time::sleep(ms(990)).await;
    assert_eq!(warned(&log), [""; 0]);
    time::sleep(ms(20)).await;
    let lines = warned(&log);
    assert!(lines.len() == 1 && lines[0].contains("this task") && lines[0].contains("\"orders\""), "{lines:?}");
    assert!(lines[0].contains("1.0 s") && lines[0].contains(".by(&owner)"), "{lines:?}");
    time::sleep(ms(68_000)).await;
    assert_eq!(warned(&log), [""; 0], "one call causes only one line");
    task.await.unwrap();
    let lines = warned(&log);
    assert!(lines.len() == 2 && lines[0].contains("orders") && lines[1].contains("\"stock\""), "{lines:?}");
}

/// The warning is also logged for a thread that runs no task. Two calls within one minute cause one warning.
#[tokio::test(start_paused = true)]
async fn a_thread_that_locks_twice_is_warned_of() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let client = paused().over(memory()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    for _ in 0..2 {
        assert!(client.mutex("orders").try_lock_for(ms(500)).await.unwrap().is_none());
    }
    let lines = warned(&log);
    assert!(lines.len() == 1 && lines[0].contains("this thread"), "{lines:?}");
    drop(guard);
}

/// There is no warning in these cases: several tasks use the lock one after another; an owner locks again; a call does
/// not wait; the guard was given to another task, which releases it; a call waits for another task.
#[tokio::test(start_paused = true)]
async fn other_waits_are_not_reported() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let client = paused().over(memory()).unwrap();
    let task = |number: u64| {
        let mutex = client.mutex("orders");
        tokio::spawn(async move {
            for _ in 0..4 {
                let guard = mutex.lock().await.unwrap();
                time::sleep(Duration::from_millis(100 + number)).await;
                drop(guard);
            }
        })
    };
    let tasks: Vec<_> = (0..64).map(task).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let (owner, stock) = (client.owner(), client.mutex("stock"));
    let mine = stock.clone().by(&owner);
    let (outer, inner) = (mine.lock().await.unwrap(), mine.lock().await.unwrap());
    assert!(stock.try_lock().await.unwrap().is_none());
    drop((outer, inner));
    // The guard moves to another task, which releases it in time.
    let guard = stock.lock().await.unwrap();
    let gives_back = tokio::spawn(async move {
        time::sleep(ms(900)).await;
        drop(guard);
    });
    let next = stock.lock().await.unwrap();
    gives_back.await.unwrap();
    // Another task waits for a long time.
    let other = waiting(&client, "stock").await;
    time::sleep(ms(5000)).await;
    drop(next);
    drop(other.await.unwrap().unwrap());
    assert_eq!(warned(&log), [""; 0]);
}

/// A task that reads and then writes waits for itself, and so does a task that takes a fair mutex twice.
#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_another_kind_of_its_own_turn_is_warned_of() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let client = paused().over(memory()).unwrap();
    let (lock, fair) = (client.rwlock("catalogue"), client.mutex("orders").fair());
    let reader = lock.read().await.unwrap();
    assert!(lock.try_write_for(ms(1500)).await.unwrap().is_none());
    drop(reader);
    let lines = warned(&log);
    assert!(lines.len() == 1 && lines[0].contains("release the read lock first"), "read, then write: {lines:?}");
    assert!(lines[0].contains("`write()`") && !lines[0].contains(".by("), "{lines:?}");
    let guard = fair.lock().await.unwrap();
    assert!(fair.try_lock_for(ms(1500)).await.unwrap().is_none());
    drop(guard);
    assert_eq!(warned(&log).len(), 1, "fair, then fair");
    // Another task waits for a reader.
    let reader = client.rwlock("stock").read().await.unwrap();
    let stock = client.rwlock("stock");
    let other = tokio::spawn(async move { stock.try_write_for(ms(3000)).await });
    assert!(other.await.unwrap().unwrap().is_none());
    drop(reader);
    assert_eq!(warned(&log), [""; 0]);
}
