//! Notifications of waiters for locks that are not mutexes.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bandog_core::{Claim, Inspect, Kind, Leases, Notifier, Released, Subscription};
use bandog_sqlite::Sqlite;

use crate::{
    kinds::{of_kind, permits},
    support::{TTL, TestDir, busy, claim, eventually, pass, release, take},
};

/// A waiting claim that counts its notifications.
struct Waiter {
    claim: Claim,
    count: Arc<AtomicUsize>,
    _subscription: Subscription,
}

impl Waiter {
    /// Makes a claim that is refused, and then subscribes.
    async fn new(store: &Sqlite, kind: Kind) -> Self {
        let (claim, count) = (of_kind(kind), Arc::new(AtomicUsize::new(0)));
        busy(store, &claim).await;
        let counted = Arc::clone(&count);
        let notifier = Notifier::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let subscription = store.subscribe(&claim, notifier).await.unwrap();
        assert!(!subscription.is_silent());
        busy(store, &claim).await;
        Self { claim, count, _subscription: subscription }
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// Waits for a notification after the first `before` notifications.
async fn is_notified(count: &AtomicUsize, what: &str, before: usize) {
    eventually(what, async || count.load(Ordering::SeqCst) > before).await;
}

#[tokio::test]
async fn a_release_of_each_kind_notifies_waiters_in_other_handles() {
    for (holder, waiter) in [
        (Kind::Fair, Kind::Fair),
        (Kind::Mutex, Kind::Fair),
        (Kind::Fair, Kind::Mutex),
        (Kind::Write, Kind::Read),
        (Kind::Write, Kind::Write),
        (Kind::Read, Kind::Write),
        (permits(5, 5), permits(1, 5)),
    ] {
        let dir = TestDir::new();
        let (here, there, ours) = (dir.open(), dir.open(), of_kind(holder));
        take(&there, &ours).await.unwrap();
        let waiting = Waiter::new(&here, waiter).await;
        let before = waiting.count();
        assert_eq!(release(&there, &ours).await, Released::Freed { others: None });
        is_notified(&waiting.count, &format!("{waiter} waits for {holder}"), before).await;
        take(&here, &waiting.claim).await.unwrap();
        let next = Waiter::new(&there, waiter_beside(waiter)).await;
        let before = next.count();
        there.evict(&ours.key).await.unwrap().unwrap();
        is_notified(&next.count, "an eviction", before).await;
    }
}

/// A kind that is refused while this kind holds the lock.
fn waiter_beside(kind: Kind) -> Kind {
    match kind {
        Kind::Mutex | Kind::Fair => Kind::Fair,
        Kind::Read | Kind::Write => Kind::Write,
        Kind::Permits { .. } => permits(5, 5),
    }
}

/// While a starving claim has a place, claims for fewer permits are refused although these permits are free.
#[tokio::test]
async fn the_grant_of_a_starving_claim_notifies_waiters_if_permits_remain() {
    let dir = TestDir::new();
    let (here, there, ours) = (dir.open(), dir.open(), of_kind(permits(2, 4)));
    take(&there, &ours).await.unwrap();
    let starving = Claim { offers: true, ..of_kind(permits(3, 4)) };
    busy(&there, &starving).await;
    release(&there, &ours).await;
    let waiting = Waiter::new(&here, permits(1, 4)).await;
    let before = waiting.count();
    take(&there, &starving).await.unwrap();
    is_notified(&waiting.count, "a starving claim was granted", before).await;
    take(&here, &waiting.claim).await.unwrap();
}

#[tokio::test]
async fn only_the_next_waiter_of_a_fair_mutex_is_notified() {
    let dir = TestDir::new();
    let (here, there, ours) = (dir.open(), dir.open(), of_kind(Kind::Fair));
    take(&there, &ours).await.unwrap();
    let mut queue = Vec::new();
    for _ in 0..3 {
        queue.push(Waiter::new(&here, Kind::Fair).await);
    }
    let other_counts = |queue: &[Waiter]| queue.iter().skip(1).map(Waiter::count).sum::<usize>();
    release(&there, &ours).await;
    is_notified(&queue[0].count, "the first waiter is next", 0).await;
    assert_eq!(other_counts(&queue), 0);
    // The first waiter gives up, and the second waiter is next.
    assert_eq!(release(&there, &queue[0].claim).await, Released::LeftQueue);
    is_notified(&queue[1].count, "the second waiter is next", 0).await;
    queue.remove(0);
    assert_eq!(other_counts(&queue), 0);
    take(&here, &queue[0].claim).await.unwrap();
    release(&here, &queue[0].claim).await;
    is_notified(&queue[1].count, "the third waiter is next", 0).await;
}

#[tokio::test]
async fn a_writer_that_leaves_the_queue_notifies_readers() {
    let dir = TestDir::new();
    let (here, there) = (dir.open(), dir.open());
    let (reader, writer) = (of_kind(Kind::Read), of_kind(Kind::Write));
    take(&there, &reader).await.unwrap();
    busy(&there, &writer).await;
    let waiting = Waiter::new(&here, Kind::Read).await;
    let before = waiting.count();
    release(&there, &writer).await;
    is_notified(&waiting.count, "the writer leaves the queue", before).await;
    take(&here, &waiting.claim).await.unwrap();
}

#[tokio::test]
async fn a_downgrade_notifies_readers() {
    let dir = TestDir::new();
    let (here, there) = (dir.open(), dir.open());
    let (reader, writer) = (of_kind(Kind::Read), of_kind(Kind::Write));
    take(&there, &writer).await.unwrap();
    let waiting = Waiter::new(&here, Kind::Read).await;
    let before = waiting.count();
    pass(&there, &writer, &reader).await.unwrap();
    is_notified(&waiting.count, "a downgrade", before).await;
    take(&here, &waiting.claim).await.unwrap();
}

#[tokio::test]
async fn a_greater_limit_notifies_waiters() {
    let dir = TestDir::new();
    let (here, there) = (dir.open(), dir.open());
    let held = Claim { key: claim("s", TTL).key, ..of_kind(permits(2, 2)) };
    take(&there, &held).await.unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let waiting = Claim { id: claim("s", TTL).id, ..held.clone() };
    busy(&here, &waiting).await;
    let notifier = Notifier::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let _subscription = here.subscribe(&waiting, notifier).await.unwrap();
    let before = count.load(Ordering::SeqCst);
    there.set_limit(&held.key, NonZeroU32::new(4).unwrap()).await.unwrap();
    is_notified(&count, "a greater limit", before).await;
    take(&here, &waiting).await.unwrap();
}
