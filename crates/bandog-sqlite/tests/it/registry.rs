//! The registry of clients, and evictions.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bandog_core::{ClientId, Inspect, Key, Leases, MAX_WAITS, Member, Notifier, Released, Renewal};
use bandog_sqlite::Sqlite;
use rusqlite::Connection;

use crate::support::{TTL, TestDir, busy, claim, eventually, release, renew, take};

fn member(waits: &[&str]) -> Member {
    Member {
        id: ClientId::random(),
        host: "kennel \"7\"".into(),
        pid: u32::MAX,
        program: "feeder 1.0".into(),
        since: UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789),
        prefix: String::new(),
        waits: waits.iter().map(|name| Key::new(name).unwrap()).collect(),
        blocked: bandog_core::BlockedCalls::default(),
    }
}

async fn members(store: &Sqlite) -> Vec<Member> {
    let mut members = store.members().await.unwrap();
    members.sort_by_key(|member| member.id);
    members
}

#[tokio::test]
async fn a_member_is_listed_as_it_registered_until_it_deregisters() {
    let dir = TestDir::new();
    let (here, there) = (dir.open(), dir.open());
    let many: Vec<String> = (0..MAX_WAITS).map(|n| format!("{n} \u{e4}'\\{}", "x".repeat(900))).collect();
    let (mut one, other) = (member(&["a", "b;c"]), member(&many.iter().map(String::as_str).collect::<Vec<_>>()));
    for each in [&one, &other] {
        here.register(each, TTL).await.unwrap();
    }
    let mut registered = vec![one.clone(), other.clone()];
    registered.sort_by_key(|member| member.id);
    assert_eq!(members(&there).await, registered);

    one.waits.clear();
    one.program = "feeder 1.1".into();
    there.register(&one, TTL).await.unwrap();
    here.deregister(other.id).await.unwrap();
    here.deregister(other.id).await.unwrap();
    assert_eq!(members(&there).await, std::slice::from_ref(&one), "the row does not contain the last registration");
    there.deregister(one.id).await.unwrap();
    assert_eq!(members(&here).await, []);
}

#[tokio::test]
async fn an_expired_member_is_not_listed_and_the_next_registration_deletes_its_row() {
    let dir = TestDir::new();
    let (store, brief, lasting) = (dir.open(), member(&[]), member(&[]));
    store.register(&brief, Duration::from_millis(200)).await.unwrap();
    store.register(&lasting, TTL).await.unwrap();
    eventually("the first member has expired", async || members(&store).await == std::slice::from_ref(&lasting)).await;
    let rows = || {
        let conn = Connection::open(dir.path()).unwrap();
        conn.query_row("select count(*) from client", [], |row| row.get::<_, u32>(0)).unwrap()
    };
    assert_eq!(rows(), 2);
    store.register(&lasting, TTL).await.unwrap();
    assert_eq!(rows(), 1);
}

#[tokio::test]
async fn a_member_that_started_before_1970_is_listed() {
    let dir = TestDir::new();
    let (store, odd) = (dir.open(), Member { since: UNIX_EPOCH - Duration::from_secs(9), ..member(&[]) });
    store.register(&odd, TTL).await.unwrap();
    assert_eq!(members(&store).await, [Member { since: SystemTime::UNIX_EPOCH, ..odd }]);
}

#[tokio::test]
async fn evicting_frees_the_lock_and_the_fence_rises() {
    let dir = TestDir::new();
    let (holder, operator, ours) = (dir.open(), dir.open(), claim("k", TTL));
    let old = take(&holder, &ours).await.unwrap().last();
    assert_eq!(operator.evict(&ours.key).await.unwrap().unwrap().owner(), Some(ours.id.to_string().as_str()));
    assert_eq!(operator.evict(&ours.key).await.unwrap(), None);
    assert_eq!(renew(&holder, &ours).await, Renewal::Gone);
    assert_eq!(release(&holder, &ours).await, Released::NotHeld);
    let mut new = take(&operator, &claim("k", TTL)).await.unwrap();
    assert!(new.take().unwrap() > old);
    assert_eq!(operator.evict(&Key::new("never").unwrap()).await.unwrap(), None);
}

#[tokio::test]
async fn evicting_notifies_waiters() {
    let dir = TestDir::new();
    let (holder, waiter, operator, ours) = (dir.open(), dir.open(), dir.open(), claim("k", TTL));
    take(&holder, &ours).await.unwrap();
    let (sender, count) = tokio::sync::watch::channel(0);
    let notifier = Notifier::new(move || sender.send_modify(|n| *n += 1));
    let _subscription = waiter.subscribe(&ours, notifier).await.unwrap();
    busy(&waiter, &claim("k", TTL)).await;
    assert!(operator.evict(&ours.key).await.unwrap().is_some());
    eventually("a notification", async || *count.borrow() > 0).await;
}

#[tokio::test]
async fn an_expired_hold_is_not_evicted() {
    let dir = TestDir::new();
    let (store, ours) = (dir.open(), claim("k", Duration::from_millis(150)));
    take(&store, &ours).await.unwrap();
    eventually("it has expired", async || !store.show(&ours.key).await.unwrap().is_held()).await;
    assert_eq!(store.evict(&ours.key).await.unwrap(), None);
}
