//! Notifications between handles.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bandog_core::{Key, Leases, Notifier, Records, Released, Subscription, Swap};
use bandog_sqlite::Sqlite;
use bandog_sync::Client;
use rusqlite::Connection;
use tokio::time::timeout;

use crate::support::{TTL, TestDir, busy, claim, eventually, pass, release, take};

/// Counts the notifications of its subscriptions.
#[derive(Clone, Default)]
struct Notifications(Arc<AtomicUsize>);

impl Notifications {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    async fn subscribe(&self, store: &Sqlite, key: &str) -> Subscription {
        let count = Arc::clone(&self.0);
        let notifier = Notifier::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let subscription = store.subscribe(&claim(key, TTL), notifier).await.unwrap();
        assert!(!subscription.is_silent());
        subscription
    }
}

#[tokio::test]
async fn every_release_notifies_subscribers_even_if_they_never_claim() {
    let dir = TestDir::new();
    let (here, there, notifications) = (dir.open(), dir.open(), Notifications::default());
    let _subscription = notifications.subscribe(&here, "k").await;
    for round in 0..5 {
        let ours = claim("k", TTL);
        take(&there, &ours).await.unwrap();
        let before = notifications.count();
        release(&there, &ours).await;
        eventually(&format!("notification {round}"), async || notifications.count() > before).await;
    }
}

#[tokio::test]
async fn a_handle_is_notified_of_its_own_releases() {
    let dir = TestDir::new();
    let (store, notifications, ours) = (dir.open(), Notifications::default(), claim("k", TTL));
    take(&store, &ours).await.unwrap();
    let _subscription = notifications.subscribe(&store, "k").await;
    let before = notifications.count();
    assert_eq!(release(&store, &ours).await, Released::Freed { others: None });
    eventually("a notification", async || notifications.count() > before).await;
}

#[tokio::test]
async fn a_busy_claim_of_a_subscriber_sets_the_waiters_mark_again() {
    let dir = TestDir::new();
    let (here, there, notifications) = (dir.open(), dir.open(), Notifications::default());
    let _subscription = notifications.subscribe(&here, "k").await;
    for _ in 0..50 {
        let ours = claim("k", TTL);
        take(&there, &ours).await.unwrap();
        busy(&here, &claim("k", TTL)).await;
        assert_eq!(release(&there, &ours).await, Released::Freed { others: None }, "the waiters' mark was not set");
    }
}

#[tokio::test]
async fn only_subscribers_of_the_key_are_notified() {
    let dir = TestDir::new();
    let (here, there, notifications) = (dir.open(), dir.open(), Notifications::default());
    let file_contents = || fs::read(dir.path().with_file_name("locks.db-bell")).unwrap();
    let held = claim("k", TTL);
    take(&there, &held).await.unwrap();
    let _subscription = notifications.subscribe(&here, "k").await;
    let before = file_contents();
    let (other, to) = (claim("other", TTL), claim("k", TTL));
    take(&there, &other).await.unwrap();
    assert_eq!(release(&there, &other).await, Released::Freed { others: Some(0) });
    pass(&there, &held, &to).await.unwrap();
    there.renew(std::slice::from_ref(&to)).await;
    release(&there, &held).await;
    assert_eq!((file_contents(), notifications.count()), (before, 0));
    assert_eq!(release(&there, &to).await, Released::Freed { others: None });
    eventually("a notification", async || notifications.count() > 0).await;
    assert!(file_contents().len() <= 4096, "the notification file has grown");
}

#[tokio::test]
async fn a_subscription_without_a_watch_is_silent_and_nothing_else_fails() {
    let dir = TestDir::new();
    let (store, ours) = (dir.open(), claim("k", TTL));
    fs::create_dir(dir.path().with_file_name("locks.db-bell")).unwrap(); // Blocks the notification file.
    for _ in 0..2 {
        assert!(store.subscribe(&ours, Notifier::new(|| {})).await.unwrap().is_silent());
    }
    take(&store, &ours).await.unwrap();
    assert_eq!(
        release(&store, &ours).await,
        Released::Freed { others: Some(0) },
        "a silent subscription has set the waiters' mark"
    );
    Connection::open(dir.path()).unwrap().execute("update lease set wanted = 1", []).unwrap();
    take(&store, &ours).await.unwrap();
    assert_eq!(
        release(&store, &ours).await,
        Released::Freed { others: None },
        "the release failed together with its notification"
    );
}

#[tokio::test]
async fn a_record_notifies_as_soon_as_the_file_can_be_watched() {
    let dir = TestDir::new();
    let (there, file) = (dir.open(), dir.path().with_file_name("locks.db-bell"));
    there.ping().await.unwrap();
    fs::create_dir(&file).unwrap(); // Blocks the notification file.
    let client = Client::options().over(dir.open()).unwrap();
    let news = Key::new("news").unwrap();
    let mut notifications = client.records().subscribe(&news).unwrap();
    let soon = Duration::from_secs(10);
    timeout(soon, notifications.next()).await.expect("the store did not answer in time").unwrap();
    fs::remove_dir(&file).unwrap();
    timeout(soon, notifications.next()).await.expect("the store did not watch the file in time").unwrap();
    assert!(file.is_file());
    there.swap(&[Swap { notifies: true, ..Swap::new(news, None, "") }]).await.unwrap();
    timeout(soon, notifications.next()).await.expect("no notification came in time").unwrap();
}

#[tokio::test]
async fn a_dropped_subscription_drops_its_notifier() {
    let dir = TestDir::new();
    let (here, notifications) = (dir.open(), Notifications::default());
    let first = notifications.subscribe(&here, "k").await;
    let second = notifications.subscribe(&here, "k").await;
    assert_eq!(Arc::strong_count(&notifications.0), 3);
    drop(first);
    assert_eq!(Arc::strong_count(&notifications.0), 2);
    drop(second);
    assert_eq!(Arc::strong_count(&notifications.0), 1);
}

// Promise: SQ6
#[tokio::test]
async fn notifications_continue_after_their_file_was_deleted() {
    let dir = TestDir::new();
    let (here, there, notifications) = (dir.open(), dir.open(), Notifications::default());
    let _subscription = notifications.subscribe(&here, "k").await;
    let file = dir.path().with_file_name("locks.db-bell");
    take(&there, &claim("held", TTL)).await.unwrap();
    for _ in 0..3 {
        fs::remove_file(&file).unwrap();
        eventually("a request creates it again", async || {
            busy(&here, &claim("held", TTL)).await;
            file.exists()
        })
        .await;
        let (ours, before) = (claim("k", TTL), notifications.count());
        take(&there, &ours).await.unwrap();
        release(&there, &ours).await;
        eventually("a notification", async || notifications.count() > before).await;
    }
}

#[tokio::test]
async fn notifications_continue_after_the_database_was_deleted() {
    for files in [&["", "-wal", "-shm"][..], &["", "-wal", "-shm", "-bell"]] {
        let dir = TestDir::new();
        let (here, notifications) = (dir.open(), Notifications::default());
        let _subscription = notifications.subscribe(&here, "k").await;
        for ending in files {
            fs::remove_file(dir.path().with_file_name(format!("locks.db{ending}"))).unwrap();
        }
        let (there, other, ours) = (dir.open(), claim("other", TTL), claim("k", TTL));
        take(&there, &ours).await.unwrap();
        take(&there, &other).await.unwrap();
        eventually("a request watches the new file", async || {
            busy(&here, &claim("other", TTL)).await;
            dir.path().with_file_name("locks.db-bell").exists()
        })
        .await;
        let before = notifications.count();
        release(&there, &ours).await;
        eventually("a notification", async || notifications.count() > before).await;
    }
}
