//! Laws of timed maps.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog_core::{
    ErrorKind,
    structures::{Action, EntryEvent, EntryEvents, Expiry, Life, MapOp, Part, Reply, Structure, TimedOp, Ttl, Victim},
};
use tokio::time::sleep;

use super::{
    ObjectWorld,
    kit::{LONG, NO, NONE, Store, YES, all, b, int, some},
};
use crate::kit::until;

/// A time after which an entry of this ttl has expired.
const MORE: Duration = Duration::from_millis(50);

fn timed(op: TimedOp) -> Action {
    Action::Timed(Expiry::Operations, op)
}

fn of(op: MapOp, life: impl Into<Life>) -> Action {
    timed(TimedOp::Entries(op, life.into()))
}

fn put(field: &str, value: &str, life: impl Into<Life>) -> Action {
    of(MapOp::Put(vec![(b(field), b(value))]), life)
}

/// The values of fields.
async fn get<W: ObjectWorld, const N: usize>(store: &Store<'_, W>, fields: [&str; N]) -> Vec<Option<String>> {
    let values = store.run("t", of(MapOp::Get(all(fields)), Life::default())).await.options().expect("values");
    values.into_iter().map(|value| value.map(|value| String::from_utf8(value).expect("a text"))).collect()
}

async fn left<W: ObjectWorld>(store: &Store<'_, W>, field: &str) -> Ttl {
    store.run("t", timed(TimedOp::Left(b(field)))).await.ttl().expect("a ttl")
}

async fn len<W: ObjectWorld>(store: &Store<'_, W>) -> Reply {
    store.run("t", of(MapOp::Len, Life::default())).await
}

fn values<const N: usize>(values: [Option<&str>; N]) -> Vec<Option<String>> {
    values.map(|value| value.map(str::to_owned)).to_vec()
}

/// Law 291: an entry expires alone, and then does not exist for any operation.
// Promise: G24
pub async fn timed_entries_expire<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for field in ["a", "b", "c", "d", "e", "f"] {
        store.run("t", put(field, "1", world.ttl())).await;
    }
    store.run("t", put("stays", "1", Life::default())).await;
    assert_eq!(get(&store, ["a", "stays"]).await, values([Some("1"), Some("1")]));
    assert!(matches!(left(&store, "a").await, Ttl::Left(left) if left <= world.ttl()));
    assert_eq!((left(&store, "stays").await, left(&store, "absent").await), (Ttl::Unlimited, Ttl::Absent));
    sleep(world.ttl() + MORE).await;
    assert_eq!(len(&store).await, int(1));
    assert_eq!(get(&store, ["a", "stays"]).await, values([None, Some("1")]));
    assert_eq!(left(&store, "b").await, Ttl::Absent);
    assert_eq!(store.run("t", of(MapOp::Insert(b("c"), b("2")), Life::default())).await, NONE);
    assert_eq!(store.run("t", of(MapOp::InsertNew(b("d"), b("2")), Life::default())).await, YES);
    assert_eq!(store.run("t", of(MapOp::Remove(all(["e"])), Life::default())).await, int(0));
    assert_eq!(store.run("t", timed(TimedOp::SetLife(b("f"), LONG.into()))).await, NO);
    assert_eq!(store.run("t", of(MapOp::Take(b("f")), Life::default())).await, NONE);
    assert_eq!(len(&store).await, int(3));
}

/// Law 292: an entry with an idle time expires if it is not used. A question for its remaining time is no use.
// Promise: G24
pub async fn timed_entries_expire_if_they_are_idle<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let idle = world.ttl();
    for field in ["read", "asked"] {
        store.run("t", put(field, "1", Life::idle(idle))).await;
    }
    store.run("t", put("both", "1", Life { ttl: Some(idle * 5 / 4), idle: Some(idle) })).await;
    for _ in 0..2 {
        sleep(idle * 6 / 10).await;
        assert_eq!(get(&store, ["read"]).await, values([Some("1")]));
        get(&store, ["both"]).await;
        left(&store, "asked").await;
    }
    sleep(idle / 10).await;
    assert_eq!(get(&store, ["read", "asked", "both"]).await, values([Some("1"), None, None]));
    sleep(idle + MORE).await;
    assert_eq!(get(&store, ["read"]).await, values([None]));
}

/// Law 293: a write gives an entry the life of the write; a swap and an addition keep that of an entry that exists.
// Promise: G24
pub async fn timed_entry_keeps_or_changes_its_life<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let swap = |field: &str, from: Option<&str>, to: Option<&str>| {
        of(MapOp::Swap { field: b(field), from: from.map(b), to: to.map(b) }, Life::default())
    };
    store.run("t", put("a", "1", LONG)).await;
    assert_eq!(store.run("t", swap("a", Some("1"), Some("2"))).await, YES);
    assert_eq!(store.run("t", of(MapOp::Add(b("a"), 3), Life::default())).await, int(5));
    assert!(matches!(left(&store, "a").await, Ttl::Left(_)));
    assert_eq!(store.run("t", of(MapOp::InsertNew(b("a"), b("3")), Life::default())).await, NO);
    assert!(matches!(left(&store, "a").await, Ttl::Left(_)), "nothing was written");
    assert_eq!(store.run("t", of(MapOp::Insert(b("a"), b("3")), Life::default())).await, some("5"));
    assert_eq!(left(&store, "a").await, Ttl::Unlimited);
    assert_eq!(store.run("t", timed(TimedOp::SetLife(b("a"), Life::idle(LONG)))).await, YES);
    assert!(matches!(left(&store, "a").await, Ttl::Left(_)));
    assert_eq!(get(&store, ["a"]).await, values([Some("3")]));
    assert_eq!(store.run("t", timed(TimedOp::SetLife(b("a"), Life::default()))).await, YES);
    assert_eq!(left(&store, "a").await, Ttl::Unlimited);
    assert_eq!(store.run("t", swap("b", None, Some("1"))).await, YES);
    assert_eq!(store.run("t", swap("b", None, Some("2"))).await, NO);
    assert_eq!(store.run("t", of(MapOp::AddFloat(b("c"), 0.5), LONG)).await, Reply::Float(0.5));
    assert!(matches!(left(&store, "c").await, Ttl::Left(_)), "a new entry has the life of the addition");
    assert_eq!(store.run("t", swap("a", Some("3"), None)).await, YES);
    assert_eq!((left(&store, "a").await, left(&store, "b").await), (Ttl::Absent, Ttl::Unlimited));
}

/// Law 294: a full map loses the entry that was not used for the longest time, and never the one that is written. The bound
/// stays while the map is empty.
pub async fn timed_map_is_bounded<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let bound = |entries| timed(TimedOp::Bound { entries, victim: Victim::LeastRecentlyUsed });
    store.run("t", bound(3)).await;
    assert!(!store.exists("t", Structure::TimedMap).await);
    for field in ["a", "b", "c"] {
        store.run("t", put(field, "1", LONG)).await;
        sleep(Duration::from_millis(5)).await;
    }
    get(&store, ["a"]).await;
    sleep(Duration::from_millis(5)).await;
    store.run("t", put("d", "1", Life::default())).await;
    assert_eq!(get(&store, ["a", "b", "c", "d"]).await, values([Some("1"), None, Some("1"), Some("1")]));
    let many = (0..20).map(|number| (b(&format!("n{number}")), b("1"))).collect();
    store.run("t", of(MapOp::Put(many), Life::default())).await;
    assert_eq!(len(&store).await, int(3));
    assert_eq!(get(&store, ["n19"]).await, values([Some("1")]));
    store.run("t", bound(1)).await;
    assert_eq!(len(&store).await, int(1));
    store.run("t", bound(0)).await;
    store.run("t", put("a", "1", LONG)).await;
    store.run("t", put("b", "1", LONG)).await;
    assert_eq!(len(&store).await, int(3));
    // Entries that are older than the bound are bounded, too.
    store.run("t", bound(2)).await;
    assert_eq!(len(&store).await, int(2));
}

/// Law 295: a map that keeps what is used most often loses what is used least often.
pub async fn timed_map_loses_what_is_least_used<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("t", timed(TimedOp::Bound { entries: 2, victim: Victim::LeastFrequentlyUsed })).await;
    store.run("t", put("often", "1", LONG)).await;
    for _ in 0..3 {
        get(&store, ["often"]).await;
    }
    store.run("t", put("once", "1", LONG)).await;
    store.run("t", put("new", "1", LONG)).await;
    assert_eq!(get(&store, ["often", "once", "new"]).await, values([Some("1"), None, Some("1")]));
}

/// Law 296: the changes of a map are reported in their order.
pub async fn timed_map_reports_its_changes<W: ObjectWorld>(world: &W) {
    let (store, other) = (Store::of(world), Store::of(world));
    let events = Arc::new(Mutex::new(Vec::new()));
    let taken = events.clone();
    let report = EntryEvents::new(move |event| taken.lock().expect("events").push(event));
    let subscription = other.structures().subscribe_entries(&other.key("t"), report).await.expect("a subscription");
    store.run("t", put("a", "1", LONG)).await;
    store.run("t", of(MapOp::Insert(b("a"), b("2")), Life::default())).await;
    store.run("t", of(MapOp::InsertNew(b("a"), b("3")), Life::default())).await;
    store.run("t", of(MapOp::Remove(all(["a", "absent"])), Life::default())).await;
    store.run("t", put("b", "1", world.ttl())).await;
    sleep(world.ttl() + MORE).await;
    assert_eq!(get(&store, ["b"]).await, values([None]));
    store.run("t", timed(TimedOp::Bound { entries: 1, victim: Victim::LeastRecentlyUsed })).await;
    store.run("t", put("c", "", LONG)).await;
    store.run("t", put("d", "", LONG)).await;
    let (field, value) = (b, b);
    let expected = vec![
        EntryEvent::Created { field: field("a"), value: value("1") },
        EntryEvent::Updated { field: field("a"), value: value("2"), old: value("1") },
        EntryEvent::Removed { field: field("a"), value: value("2") },
        EntryEvent::Created { field: field("b"), value: value("1") },
        EntryEvent::Expired { field: field("b"), value: value("1") },
        EntryEvent::Created { field: field("c"), value: value("") },
        EntryEvent::Created { field: field("d"), value: value("") },
        EntryEvent::Removed { field: field("c"), value: value("") },
    ];
    let seen = || events.lock().expect("events").clone();
    until(|| seen().len() >= expected.len()).await;
    assert_eq!(seen(), expected);
    drop(subscription);
    store.run("t", put("e", "", LONG)).await;
    assert_eq!(seen().len(), expected.len());
}

/// Law 297: expired entries are removed a part at a time, by one client in a pause.
pub async fn timed_map_is_emptied_of_expired_entries<W: ObjectWorld>(world: &W) {
    let (store, other) = (Store::of(world), Store::of(world));
    for number in 0..5 {
        store.run("t", put(&number.to_string(), "1", world.ttl())).await;
        store.run("t", put(&format!("idle {number}"), "1", Life::idle(world.ttl()))).await;
    }
    store.run("t", put("stays", "1", LONG)).await;
    let evict = |at_most| timed(TimedOp::Evict { at_most, pause: LONG });
    sleep(world.ttl() + MORE).await;
    assert_eq!(store.run("t", evict(8)).await, int(8));
    assert_eq!(other.run("t", evict(8)).await, int(2), "a full part does not keep others from the rest");
    assert_eq!(other.run("t", evict(8)).await, int(-1));
    assert_eq!(len(&store).await, int(1));
}

/// Law 298: pages have the entries that live, also those of any bytes.
pub async fn timed_map_pages_have_no_expired_entry<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let entries: Vec<_> = (0..700).map(|number| (b(&format!("field {number}")), b(&number.to_string()))).collect();
    store.run("t", of(MapOp::Put(entries.clone()), LONG)).await;
    store.run("t", of(MapOp::Put(vec![(b"\xff\0".to_vec(), b"\0\xfe".to_vec())]), Life::idle(LONG))).await;
    store.run("t", put("gone", "1", world.ttl())).await;
    sleep(world.ttl() + MORE).await;
    let (page, pages) = store.pages("t", Part::Timed, 100).await;
    assert!(pages > 1, "one page");
    let mut seen: Vec<_> = page.items.chunks(2).map(|entry| (entry[0].clone(), entry[1].clone())).collect();
    seen.sort();
    seen.dedup();
    let mut expected = entries;
    expected.push((b"\xff\0".to_vec(), b"\0\xfe".to_vec()));
    expected.sort();
    assert_eq!(seen, expected);
}

/// Law 299: numbers in a timed map are texts, and a refused addition changes nothing.
pub async fn timed_map_adds<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let add = |field: &str, by| of(MapOp::Add(b(field), by), LONG);
    assert_eq!(store.run("t", add("n", i64::MAX - 1)).await, int(i64::MAX - 1));
    assert_eq!(store.run("t", add("n", 1)).await, int(i64::MAX));
    assert_eq!(store.refused("t", add("n", 1)).await, ErrorKind::Denied);
    store.run("t", put("text", "text", LONG)).await;
    assert_eq!(store.refused("t", add("text", 1)).await, ErrorKind::Denied);
    let max = i64::MAX.to_string();
    assert_eq!(get(&store, ["n", "text"]).await, values([Some(&max), Some("text")]));
    assert!(matches!(left(&store, "text").await, Ttl::Left(_)));
}

/// Law 300: the last entry of a map leaves nothing behind, however it goes.
pub async fn timed_map_leaves_nothing_behind<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let life = Life { ttl: Some(world.ttl()), idle: Some(LONG) };
    store.run("t", put("removed", "1", life)).await;
    store.run("t", put("taken", "1", life)).await;
    store.run("t", put("expired", "1", life)).await;
    store.run("t", of(MapOp::Remove(all(["removed"])), Life::default())).await;
    store.run("t", of(MapOp::Take(b("taken")), Life::default())).await;
    sleep(world.ttl() + MORE).await;
    let pause = Duration::from_millis(1);
    assert_eq!(store.run("t", timed(TimedOp::Evict { at_most: 10, pause })).await, int(1));
    sleep(MORE).await;
    assert_eq!(world.left().await, [""; 0]);
    assert!(!store.exists("t", Structure::TimedMap).await);
}
