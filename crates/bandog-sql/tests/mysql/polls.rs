//! The polls that replace notifications.

use std::time::{Duration, Instant};

use bandog_sync::Client;
use bandog_testkit::eventually_async;

use crate::support::{SERVER, SOON, open, url};

/// Hand-offs in a row, of which the median counts.
const HANDOFFS: usize = 9;

fn over(database: &str) -> Client {
    Client::options().over(open(&url(&SERVER, database))).unwrap()
}

/// A hand-off that is due to a poll is quicker than the interval of one second in which the engine claims again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_held_briefly_is_handed_over_soon() {
    let database = SERVER.new_database();
    let (holder, waiter) = (over(&database), over(&database));
    let mut took = Vec::new();
    for round in 0..HANDOFFS {
        let name = format!("lock {round}");
        let guard = holder.mutex(&name).lock().await.unwrap();
        let waiting = tokio::spawn({
            let mutex = waiter.mutex(&name);
            async move {
                let guard = mutex.lock().await.unwrap();
                (Instant::now(), guard)
            }
        });
        let wanted = format!("select wanted from bandog_lease where name = '{name}'");
        eventually_async(SOON, async || SERVER.sql(&database, &wanted) == "1").await;
        let released = Instant::now();
        guard.release().await.unwrap();
        let (granted, guard) = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
        took.push(granted.saturating_duration_since(released));
        guard.release().await.unwrap();
    }
    took.sort();
    assert!(took[HANDOFFS / 2] < Duration::from_millis(500), "{took:?}");
    println!("hand-offs: {took:?}");
}
