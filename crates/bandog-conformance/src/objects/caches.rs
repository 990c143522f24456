//! Laws of caches.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use bandog_core::{
    ClientId, Clock, Key, Notifier, Pattern,
    structures::{
        Action, BeginWhen, CacheEntry, CacheOp, Cursor, EntryKey, FillId, FillState, MapOp, NewEntry, ObjectOp, Op,
        Reply, Structure, Ttl, read_cache_reports, write_cache_reports,
    },
};
use tokio::time::sleep;

use super::{
    ObjectWorld,
    kit::{LONG, NO, Store, YES, b},
};
use crate::kit::until;

fn at(key: &str) -> EntryKey {
    EntryKey { part: 3, key: b(key) }
}

fn entry(value: &str, fresh: Duration, stale: Duration) -> NewEntry {
    NewEntry { value: Some(b(value)), fresh, stale }
}

fn begin(key: &str, fill: u128) -> CacheOp {
    CacheOp::Begin { at: at(key), fill: FillId(fill), when: BeginWhen::Needed, lease: LONG }
}

fn fill(key: &str, fill: u128, value: &str) -> CacheOp {
    CacheOp::Fill { at: at(key), fill: FillId(fill), entry: entry(value, LONG, Duration::ZERO) }
}

/// An entry without its time: its value, and whether it is fresh.
fn seen(entry: Option<CacheEntry>) -> Option<(Option<String>, bool)> {
    let entry = entry?;
    assert!(entry.written > 1_000_000_000_000, "{} ms are no time after 2001", entry.written);
    Some((entry.value.map(|value| String::from_utf8(value).expect("a text")), entry.is_fresh))
}

/// What a cache has for a key.
async fn get<W: ObjectWorld>(store: &Store<'_, W>, key: &str) -> Option<(Option<String>, bool)> {
    seen(store.run("c", CacheOp::Get(at(key))).await.cache_entry().expect("an entry or none"))
}

/// The state of a fill that another client begins.
async fn state<W: ObjectWorld>(store: &Store<'_, W>, begin: CacheOp) -> FillState {
    store.run("c", begin).await.fill().expect("a fill").1
}

fn fresh(value: &str) -> Option<(Option<String>, bool)> {
    Some((Some(value.to_owned()), true))
}

/// Law 281: an entry is fresh, then stale, then gone. A known absence is an entry.
// Promise: CA3
pub async fn cache_entry_is_fresh_then_stale_then_gone<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("c", CacheOp::Put(at("k"), entry("v", world.ttl(), world.ttl()))).await;
    store.run("c", CacheOp::Put(at("short"), entry("v", world.ttl(), Duration::ZERO))).await;
    store.run("c", CacheOp::Put(at("none"), NewEntry { value: None, fresh: LONG, stale: LONG })).await;
    assert_eq!(get(&store, "k").await, fresh("v"));
    assert_eq!(get(&store, "short").await, fresh("v"));
    assert_eq!(get(&store, "none").await, Some((None, true)));
    assert_eq!(get(&store, "other").await, None);
    assert!(matches!(state(&store, begin("k", 1)).await, FillState::Fresh(left) if left <= world.ttl()));
    sleep(world.ttl()).await;
    assert_eq!(get(&store, "k").await, Some((Some("v".into()), false)));
    assert_eq!(get(&store, "short").await, None);
    sleep(world.ttl()).await;
    assert_eq!(get(&store, "k").await, None);
}

/// Law 282: of several callers that miss an entry, one has the fill; the others see its id. A repeated request is granted
/// again.
// Promise: CA1
pub async fn cache_fill_has_one_owner<W: ObjectWorld>(world: &W) {
    let (store, other) = (Store::of(world), Store::of(world));
    assert_eq!(state(&store, begin("k", 1)).await, FillState::Granted);
    assert_eq!(state(&store, begin("k", 1)).await, FillState::Granted);
    assert!(matches!(
        state(&other, begin("k", 2)).await,
        FillState::Runs { fill: FillId(1), lease } if lease > LONG / 2 && lease <= LONG
    ));
    assert_eq!(state(&other, begin("other", 2)).await, FillState::Granted);
    assert_eq!(other.run("c", fill("k", 2, "wrong")).await, NO);
    assert_eq!(store.run("c", fill("k", 1, "v")).await, YES);
    assert_eq!(get(&other, "k").await, fresh("v"));
    assert_eq!(store.run("c", fill("k", 1, "late")).await, NO);
    assert!(matches!(state(&other, begin("k", 2)).await, FillState::Fresh(left) if left > LONG / 2));
}

/// Law 283: a fill whose entry was removed or written, or whose cache was cleared, writes nothing, and another one begins.
// Promise: CA2
pub async fn cache_removal_ends_the_fill<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let ends = [
        (CacheOp::Remove(at("k")), None),
        (CacheOp::Clear { part: 3 }, None),
        (CacheOp::Put(at("k"), entry("new", Duration::from_millis(1), LONG)), Some("new")),
    ];
    for (number, (end, value)) in (1..).step_by(2).zip(ends) {
        assert_eq!(state(&store, begin("k", number)).await, FillState::Granted);
        assert_eq!(store.run("c", end.clone()).await, Reply::Done);
        assert_eq!(store.run("c", fill("k", number, "old")).await, NO, "{end:?}");
        let extend = CacheOp::Extend { at: at("k"), fill: FillId(number), lease: LONG };
        assert_eq!(store.run("c", extend).await, NO, "{end:?}");
        assert_eq!(get(&store, "k").await.and_then(|(value, _)| value).as_deref(), value, "{end:?}");
        sleep(Duration::from_millis(5)).await;
        assert_eq!(state(&store, begin("k", number + 1)).await, FillState::Granted, "{end:?}");
        store.run("c", CacheOp::Remove(at("k"))).await;
    }
}

/// Law 284: a clear removes all entries of its part, and no other ones.
// Promise: CA2
pub async fn cache_is_cleared_by_parts<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let elsewhere = EntryKey { part: 4, key: b("k") };
    for key in ["k", "l", ""] {
        store.run("c", CacheOp::Put(at(key), entry("v", LONG, LONG))).await;
    }
    store.run("c", CacheOp::Put(elsewhere.clone(), entry("v", LONG, LONG))).await;
    store.run("c", CacheOp::Clear { part: 3 }).await;
    for key in ["k", "l", ""] {
        assert_eq!(get(&store, key).await, None);
    }
    let left = store.run("c", CacheOp::Get(elsewhere)).await.cache_entry().expect("an entry");
    assert_eq!(seen(left), fresh("v"));
    store.run("c", CacheOp::Put(at("k"), entry("new", LONG, LONG))).await;
    assert_eq!((get(&store, "k").await, get(&store, "l").await), (fresh("new"), None));
}

/// Law 285: a fill ends when its lease expires. A lease is extended.
// Promise: CA1
pub async fn cache_fill_expires<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let short = |fill| CacheOp::Begin { at: at("k"), fill: FillId(fill), when: BeginWhen::Needed, lease: world.ttl() };
    assert_eq!(state(&store, short(1)).await, FillState::Granted);
    let extend = |fill, lease| CacheOp::Extend { at: at("k"), fill: FillId(fill), lease };
    assert_eq!(store.run("c", extend(1, world.ttl() * 2)).await, YES);
    sleep(world.ttl() + Duration::from_millis(50)).await;
    assert!(matches!(state(&store, short(2)).await, FillState::Runs { fill: FillId(1), .. }));
    sleep(world.ttl()).await;
    assert_eq!(store.run("c", extend(1, LONG)).await, NO);
    assert_eq!(store.run("c", fill("k", 1, "late")).await, NO);
    assert_eq!(state(&store, short(2)).await, FillState::Granted);
    assert_eq!(store.run("c", CacheOp::End { at: at("k"), fill: FillId(1) }).await, NO);
    assert_eq!(store.run("c", CacheOp::End { at: at("k"), fill: FillId(2) }).await, YES);
    assert_eq!(state(&store, short(3)).await, FillState::Granted);
}

/// Law 286: a stale entry is read while one caller has the fill, and stays if that one gives up.
pub async fn cache_stale_entry_stays_during_a_fill<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("c", CacheOp::Put(at("k"), entry("old", Duration::from_millis(1), LONG))).await;
    sleep(Duration::from_millis(20)).await;
    let (old, granted) = store.run("c", begin("k", 1)).await.fill().expect("a fill");
    assert_eq!((seen(old), granted), (Some((Some("old".into()), false)), FillState::Granted));
    let (old, other) = store.run("c", begin("k", 2)).await.fill().expect("a fill");
    assert_eq!(seen(old), Some((Some("old".into()), false)));
    assert!(matches!(other, FillState::Runs { fill: FillId(1), .. }));
    store.run("c", CacheOp::End { at: at("k"), fill: FillId(1) }).await;
    assert_eq!(get(&store, "k").await, Some((Some("old".into()), false)));
    assert_eq!(state(&store, begin("k", 2)).await, FillState::Granted);
    store.run("c", fill("k", 2, "new")).await;
    assert_eq!(get(&store, "k").await, fresh("new"));
}

/// Law 287: a fill that begins in any case ends another one, also if the entry is fresh.
pub async fn cache_fill_replaces_another<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let always = |fill| CacheOp::Begin { at: at("k"), fill: FillId(fill), when: BeginWhen::Always, lease: LONG };
    store.run("c", begin("k", 1)).await;
    assert_eq!(state(&store, always(2)).await, FillState::Granted);
    assert_eq!(store.run("c", fill("k", 1, "old")).await, NO);
    assert_eq!(store.run("c", fill("k", 2, "v")).await, YES);
    let (entry, granted) = store.run("c", always(3)).await.fill().expect("a fill");
    assert_eq!((seen(entry), granted), (fresh("v"), FillState::Granted));
    assert_eq!(store.run("c", fill("k", 3, "new")).await, YES);
    assert_eq!(get(&store, "k").await, fresh("new"));
}

/// Law 324: a fill that begins instead of an entry that cannot be used is granted to one caller, and not if the entry was
/// written again.
pub async fn cache_fill_begins_instead_of_an_entry<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("c", CacheOp::Put(at("k"), entry("bad", LONG, LONG))).await;
    let (old, _) = store.run("c", begin("k", 1)).await.fill().expect("an answer");
    let written = old.expect("the entry").written;
    let instead = |fill, written| {
        let when = BeginWhen::Instead(written);
        CacheOp::Begin { at: at("k"), fill: FillId(fill), when, lease: LONG }
    };
    assert!(matches!(state(&store, instead(2, written - 1)).await, FillState::Fresh(_)));
    assert_eq!(state(&store, instead(2, written)).await, FillState::Granted);
    assert!(matches!(state(&store, instead(3, written)).await, FillState::Runs { fill: FillId(2), .. }));
    // The clock of the store has a resolution of 1 ms.
    tokio::time::sleep(Duration::from_millis(3)).await;
    assert_eq!(store.run("c", fill("k", 2, "good")).await, YES);
    assert!(matches!(state(&store, instead(3, written)).await, FillState::Fresh(_)));
    assert_eq!(get(&store, "k").await, fresh("good"));
}

/// Law 288: subscribers are notified when a fill ends.
pub async fn cache_notifies_when_a_fill_ends<W: ObjectWorld>(world: &W) {
    let (store, other) = (Store::of(world), Store::of(world));
    let ends = [
        fill("k", 1, "v"),
        CacheOp::End { at: at("k"), fill: FillId(1) },
        CacheOp::Remove(at("k")),
        CacheOp::Put(at("k"), entry("v", LONG, LONG)),
    ];
    for end in ends {
        store.run("c", CacheOp::Remove(at("k"))).await;
        store.run("c", begin("k", 1)).await;
        let calls = Arc::new(AtomicU32::new(0));
        let counted = calls.clone();
        let notifier = Notifier::new(move || _ = counted.fetch_add(1, SeqCst));
        let subscription = other.structures().subscribe_fill(&other.key("c"), &at("k"), notifier).await;
        let subscription = subscription.expect("a subscription");
        let before = calls.load(SeqCst);
        store.run("c", end).await;
        until(|| calls.load(SeqCst) > before).await;
        drop(subscription);
    }
}

/// Law 289: keys and values are any bytes, and a cache may have the name of another object.
pub async fn cache_has_a_name_of_its_own<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("c", MapOp::Put(vec![(b("f"), b("v"))])).await;
    for key in [&b"a"[..], b"", b"\xff\0", b"21ff00", b"!ff00", b"a b"] {
        let at = EntryKey { part: 9, key: key.to_vec() };
        let value = Some([key, b"\0\xfe"].concat());
        store.run("c", CacheOp::Put(at.clone(), NewEntry { value, fresh: LONG, stale: LONG })).await;
    }
    for key in [&b"a"[..], b"", b"\xff\0", b"21ff00", b"!ff00", b"a b"] {
        let read = store.run("c", CacheOp::Get(EntryKey { part: 9, key: key.to_vec() })).await.cache_entry();
        let value = read.expect("an entry or none").and_then(|entry| entry.value);
        assert_eq!(value, Some([key, b"\0\xfe"].concat()), "{key:?}");
    }
    assert_eq!(store.run("c", MapOp::Len).await, Reply::Int(1));
}

/// Law 290: what a cache has expires, and nothing stays behind.
// Promise: CA5
pub async fn cache_leaves_nothing_behind<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let lease = world.ttl();
    store.run("c", CacheOp::Begin { at: at("a"), fill: FillId(1), when: BeginWhen::Needed, lease }).await;
    store.run("c", CacheOp::Fill { at: at("a"), fill: FillId(1), entry: entry("v", lease / 2, lease / 2) }).await;
    store.run("c", CacheOp::Begin { at: at("b"), fill: FillId(1), when: BeginWhen::Needed, lease }).await;
    store.run("c", CacheOp::Put(at("c"), entry("v", lease / 2, Duration::ZERO))).await;
    sleep(lease * 2 + Duration::from_millis(100)).await;
    for key in ["a", "b", "c"] {
        assert_eq!(get(&store, key).await, None);
    }
    let left = world.left().await;
    assert!(!left.iter().any(|key| key.contains("cache")), "{left:?}");
}

/// Law 322: a cache is in the list of objects. The sizes on all pages are the number of its entries, also beside an object of
/// the same name.
pub async fn cache_is_in_the_list_of_objects<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("c", MapOp::Put(vec![(b("f"), b("v"))])).await;
    let generation = CacheOp::Begin { at: at("fill"), fill: FillId(1), when: BeginWhen::Needed, lease: LONG };
    store.run("c", generation).await;
    for number in 0..70_u8 {
        let at = EntryKey { part: number % 64, key: vec![b'k', number] };
        store.run("c", CacheOp::Put(at, entry("v", LONG, LONG))).await;
    }
    let (mut sizes, mut from, pattern) = (BTreeMap::<_, u64>::new(), Cursor::default(), Pattern::all());
    loop {
        let (rows, next) = store.structures().objects(&pattern, &from, 10).await.expect("a page");
        for row in rows.into_iter().filter(|row| row.key == store.key("c")) {
            *sizes.entry(row.structure.name()).or_default() += row.size;
        }
        let Some(next) = next else { break };
        from = next;
    }
    assert_eq!(sizes, BTreeMap::from([("cache", 70), ("map", 1)]));
}

/// Law 323: the reports of caches are read for minutes, and removed after an hour. They are no object, and expire.
pub async fn cache_reports_are_read_for_minutes<W: ObjectWorld>(world: &W) {
    let (store, now) = (Store::of(world), Clock::system());
    let (one, two) = (ClientId::random(), ClientId::random());
    for (client, age, text) in [(one, 0, "{}"), (two, 60, "\"a b\""), (two, 10, "2"), (ClientId::random(), 600, "3")] {
        let reports = [(store.key("c d"), text.to_owned())];
        let ops = write_cache_reports(client, now.set_back(Duration::from_secs(age)), &reports).expect("operations");
        for reply in store.structures().run(&ops).await {
            reply.expect("written");
        }
    }
    let read = async |now| read_cache_reports(&**store.structures(), now).await.expect("the reports");
    let (reports, old) = read(now).await;
    let mut found: Vec<_> = reports.iter().map(|report| (report.age, report.client, &*report.json)).collect();
    found.sort_by_key(|(age, ..)| *age);
    assert!(matches!(found[..], [(_, first, "{}"), (_, second, "2")] if first == one && second == two), "{found:?}");
    assert_eq!(old, None);
    assert!(reports.iter().all(|report| report.cache == store.key("c d")));
    let (reports, old) = read(now.set_ahead(Duration::from_secs(3_100))).await;
    assert_eq!(reports, []);
    let removed = store.structures().run(&[old.expect("an old report")]).await.remove(0).expect("removed");
    assert_eq!(removed, Reply::Int(1));
    assert_eq!(read(now).await.0.len(), 2);
    let (rows, _) = store.structures().objects(&Pattern::all(), &Cursor::default(), 1_000).await.expect("a page");
    assert_eq!(rows, []);
    let key = Key::new("bandog:caches").expect("a name");
    let op = Op::new(&key, Action::Object(Structure::Map, ObjectOp::Ttl));
    let ttl = store.structures().run(&[op]).await.remove(0).expect("an answer");
    assert!(matches!(ttl, Reply::Ttl(Ttl::Left(left)) if left <= Duration::from_secs(3_600)), "{ttl:?}");
}
