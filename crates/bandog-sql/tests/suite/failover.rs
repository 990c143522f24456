//! Failovers: a replica takes the place of the server, with and without its last commits.

use bandog_sync::{Client, Guard};
use bandog_testkit::eventually_async;
use tokio::{sync::watch, task::JoinHandle};

use super::{Database, SOON};

/// A server with a replica, and the address that clients use.
pub(crate) trait Pair {
    fn start() -> Self;

    /// A client of the server, and after the failover of the replica.
    fn client(&self) -> Client;

    /// Waits until the replica has all commits.
    async fn catch_up(&self);

    /// Later commits do not reach the replica.
    async fn stop_replication(&self);

    /// A commit is answered after the replica has it.
    async fn make_synchronous(&self);

    /// The server is killed, and the replica takes its place with the commits that it has got.
    fn fail_over(&self);
}

/// The result of a try, after the client has connected to the new server.
async fn try_lock(client: &Client, name: &str) -> Option<Guard> {
    eventually_async(SOON, async || client.mutex(name).try_lock().await).await
}

pub(crate) async fn a_lock_that_the_replica_has_not_got_is_granted_again_with_a_greater_fence_and_its_holder_notices<
    D: Database,
>() {
    let pair = D::Pair::start();
    let (holder, other) = (pair.client(), pair.client());
    let kept = holder.mutex("kept").lock().await.unwrap();
    other.mutex("late").lock().await.unwrap().release().await.unwrap();
    pair.catch_up().await;
    pair.stop_replication().await;
    for _ in 0..100 {
        holder.mutex("late").lock().await.unwrap().release().await.unwrap();
    }
    let late = holder.mutex("late").lock().await.unwrap();
    pair.fail_over();
    // A grant whose answer was lost at the failover is released in the background. The hold of the dead server would last 30 s.
    let again = eventually_async(SOON / 3, async || try_lock(&other, "late").await).await;
    assert!(again.fence() > late.fence(), "{} after {}", again.fence(), late.fence());
    tokio::time::timeout(SOON, late.lost()).await.unwrap();

    assert!(try_lock(&other, "kept").await.is_none(), "a lock that the replica has got was granted twice");
    assert!(!kept.is_lost());
    let fence = kept.fence();
    kept.release().await.unwrap();
    assert!(try_lock(&other, "kept").await.unwrap().fence() > fence);
}

pub(crate) async fn with_synchronous_replication_a_failover_loses_no_lock<D: Database>() {
    let pair = D::Pair::start();
    let (holder, other) = (pair.client(), pair.client());
    holder.mutex("first").lock().await.unwrap().release().await.unwrap();
    pair.make_synchronous().await;
    // Locks are taken when the server is killed, too. A call without an answer fails.
    let (taken, mut count) = watch::channel(0);
    let (stop, stopped) = watch::channel(false);
    let taking: JoinHandle<Vec<Guard>> = tokio::spawn({
        let holder = holder.clone();
        async move {
            let mut guards = Vec::new();
            for number in 0.. {
                if *stopped.borrow() {
                    break;
                }
                if let Ok(guard) = holder.mutex(format!("k{number}")).try_lock().await {
                    guards.push(guard.expect("no other client takes the locks"));
                    taken.send_replace(guards.len());
                }
            }
            guards
        }
    });
    count.wait_for(|count| *count >= 100).await.unwrap();
    pair.fail_over();
    stop.send_replace(true);
    let guards = tokio::time::timeout(SOON, taking).await.unwrap().unwrap();
    for guard in &guards {
        assert!(try_lock(&other, guard.key()).await.is_none(), "{} was granted twice", guard.key());
    }
    assert!(!guards.iter().any(Guard::is_lost), "a guard was lost");
    for guard in guards {
        guard.release().await.expect("the new server has the hold");
    }
}
