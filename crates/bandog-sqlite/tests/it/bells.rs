//! Subscriptions between handles.

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

use crate::support::{Place, TTL, busy, claim, eventually, pass, release, take};

/// How often it was rung.
#[derive(Clone, Default)]
struct Notifications(Arc<AtomicUsize>);

impl Notifications {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    async fn listen(&self, store: &Sqlite, key: &str) -> Subscription {
        let count = Arc::clone(&self.0);
        let notifier = Notifier::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let bell = store.subscribe(&Key::new(key).unwrap(), notifier).await.unwrap();
        assert!(!bell.is_silent());
        bell
    }
}

#[tokio::test]
async fn every_release_rings_those_who_listen_even_if_they_never_claim() {
    let place = Place::new();
    let (here, there, rings) = (place.open(), place.open(), Notifications::default());
    let _bell = rings.listen(&here, "k").await;
    for round in 0..5 {
        let ours = claim("k", TTL);
        take(&there, &ours).await.unwrap();
        let before = rings.count();
        release(&there, &ours).await;
        eventually(&format!("ring {round}"), async || rings.count() > before).await;
    }
}

#[tokio::test]
async fn a_handle_hears_its_own_releases() {
    let place = Place::new();
    let (store, rings, ours) = (place.open(), Notifications::default(), claim("k", TTL));
    take(&store, &ours).await.unwrap();
    let _bell = rings.listen(&store, "k").await;
    let before = rings.count();
    assert_eq!(release(&store, &ours).await, Released::Freed { others: None });
    eventually("a ring", async || rings.count() > before).await;
}

#[tokio::test]
async fn a_busy_claim_of_a_listener_leaves_its_mark_anew() {
    let place = Place::new();
    let (here, there, rings) = (place.open(), place.open(), Notifications::default());
    let _bell = rings.listen(&here, "k").await;
    for _ in 0..50 {
        let ours = claim("k", TTL);
        take(&there, &ours).await.unwrap();
        busy(&here, &claim("k", TTL)).await;
        assert_eq!(release(&there, &ours).await, Released::Freed { others: None }, "the mark was not there");
    }
}

#[tokio::test]
async fn nobody_is_rung_who_did_not_ask() {
    let place = Place::new();
    let (here, there, rings) = (place.open(), place.open(), Notifications::default());
    let bell_file = || fs::read(place.path().with_file_name("locks.db-bell")).unwrap();
    let held = claim("k", TTL);
    take(&there, &held).await.unwrap();
    let _bell = rings.listen(&here, "k").await;
    let before = bell_file();
    let (other, to) = (claim("other", TTL), claim("k", TTL));
    take(&there, &other).await.unwrap();
    assert_eq!(release(&there, &other).await, Released::Freed { others: Some(0) });
    pass(&there, &held, &to).await.unwrap();
    there.renew(std::slice::from_ref(&to)).await;
    release(&there, &held).await;
    assert_eq!((bell_file(), rings.count()), (before, 0));
    assert_eq!(release(&there, &to).await, Released::Freed { others: None });
    eventually("a ring", async || rings.count() > 0).await;
    assert!(bell_file().len() <= 4096, "the file must not grow");
}

#[tokio::test]
async fn a_bell_that_cannot_be_heard_is_silent_and_nothing_else_suffers() {
    let place = Place::new();
    let (store, ours) = (place.open(), claim("k", TTL));
    fs::create_dir(place.path().with_file_name("locks.db-bell")).unwrap(); // In the way of the bell file.
    for _ in 0..2 {
        assert!(store.subscribe(&ours.key, Notifier::new(|| {})).await.unwrap().is_silent());
    }
    take(&store, &ours).await.unwrap();
    assert_eq!(release(&store, &ours).await, Released::Freed { others: Some(0) }, "nobody was promised a ring");
    Connection::open(place.path()).unwrap().execute("update lease set wanted = 1", []).unwrap();
    take(&store, &ours).await.unwrap();
    assert_eq!(release(&store, &ours).await, Released::Freed { others: None }, "a release never fails for its bell");
}

#[tokio::test]
async fn a_record_is_heard_as_soon_as_the_bell_can_be_heard() {
    let place = Place::new();
    let (there, bell) = (place.open(), place.path().with_file_name("locks.db-bell"));
    there.ping().await.unwrap();
    fs::create_dir(&bell).unwrap(); // In the way of the bell file.
    let client = Client::options().over(place.open()).unwrap();
    let news = Key::new("news").unwrap();
    let mut rings = client.subscribe(&news).unwrap();
    let soon = Duration::from_secs(10);
    timeout(soon, rings.next()).await.expect("the store has answered").unwrap();
    fs::remove_dir(&bell).unwrap();
    timeout(soon, rings.next()).await.expect("the store listens at last").unwrap();
    assert!(bell.is_file());
    there.swap(&[Swap { notifies: true, ..Swap::new(news, None, "") }]).await.unwrap();
    timeout(soon, rings.next()).await.expect("a ring").unwrap();
}

#[tokio::test]
async fn a_dropped_bell_lets_its_ringer_go() {
    let place = Place::new();
    let (here, rings) = (place.open(), Notifications::default());
    let bell = rings.listen(&here, "k").await;
    let second = rings.listen(&here, "k").await;
    assert_eq!(Arc::strong_count(&rings.0), 3);
    drop(bell);
    assert_eq!(Arc::strong_count(&rings.0), 2);
    drop(second);
    assert_eq!(Arc::strong_count(&rings.0), 1);
}

#[tokio::test]
async fn a_bell_rings_on_after_its_file_was_deleted() {
    let place = Place::new();
    let (here, there, rings) = (place.open(), place.open(), Notifications::default());
    let _bell = rings.listen(&here, "k").await;
    let file = place.path().with_file_name("locks.db-bell");
    take(&there, &claim("held", TTL)).await.unwrap();
    for _ in 0..3 {
        fs::remove_file(&file).unwrap();
        eventually("a request makes it anew", async || {
            busy(&here, &claim("held", TTL)).await;
            file.exists()
        })
        .await;
        let (ours, before) = (claim("k", TTL), rings.count());
        take(&there, &ours).await.unwrap();
        release(&there, &ours).await;
        eventually("a ring", async || rings.count() > before).await;
    }
}

#[tokio::test]
async fn a_bell_rings_on_after_the_database_was_deleted() {
    for files in [&["", "-wal", "-shm"][..], &["", "-wal", "-shm", "-bell"]] {
        let place = Place::new();
        let (here, rings) = (place.open(), Notifications::default());
        let _bell = rings.listen(&here, "k").await;
        for ending in files {
            fs::remove_file(place.path().with_file_name(format!("locks.db{ending}"))).unwrap();
        }
        let (there, other, ours) = (place.open(), claim("other", TTL), claim("k", TTL));
        take(&there, &ours).await.unwrap();
        take(&there, &other).await.unwrap();
        eventually("a request hears the new file", async || {
            busy(&here, &claim("other", TTL)).await;
            place.path().with_file_name("locks.db-bell").exists()
        })
        .await;
        let before = rings.count();
        release(&there, &ours).await;
        eventually("a ring", async || rings.count() > before).await;
    }
}
