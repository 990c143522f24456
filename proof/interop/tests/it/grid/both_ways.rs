//! Java writes, Rust reads and changes, and Java reads, for each object and each codec; and ttls and locks of entries.

use std::time::Duration;

use bandog::grid::{
    BitSet, Bloom, Counter, Deque, EntryId, FloatCounter, Ids, Journal, Life, List, Map, MapEvent, Multimap, Set,
    SortedSet, TimedMap, Ttl, Value, Victim,
};
use bandog_testkit::eventually_async;
use futures_util::StreamExt;

use super::side::{HOUR, Side, Texts, each_codec, s};
use crate::{neighbour::SOON, rig::settle};

/// Texts that the codecs write in different forms.
const TEXTS: &[&str] =
    &["", "a", "k1", "é", "aé", "中文", "😀 b", "q\"b\\c", "true", "5", "\u{7f}\u{2028}", LONG, LONGER];
/// The longest text that Kryo 5 writes without its length, and one more.
const LONG: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const LONGER: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A ttl that has expired soon.
const SHORT: Duration = Duration::from_millis(40);

/// Each side expires, persists and deletes the object as a whole, and the other side sees it. No key is left.
macro_rules! check_whole {
    ($side:expr, $handle:expr, $kind:expr, theirs: $theirs:expr, ours: $ours:expr) => {{
        let (side, handle, kind): (&Side, _, &str) = ($side, &$handle, $kind);
        let name = handle.name().to_owned();
        let java = |verb: &str, args: &[&str]| side.java(kind, verb, &name, args);
        handle.delete().await.unwrap();
        side.forget_locks();
        assert_eq!(side.keys_of(&name), Vec::<String>::new(), "{kind}");
        assert_eq!((handle.exists().await.unwrap(), java("exists", &[])), (false, "bfalse".into()), "{kind}");
        assert_eq!((handle.ttl().await.unwrap(), java("ttl", &[])), (Ttl::Absent, "l-2".into()), "{kind}");
        assert!(!handle.expire(HOUR).await.unwrap());
        // Ours expires theirs.
        $theirs;
        assert_eq!((handle.exists().await.unwrap(), handle.ttl().await.unwrap()), (true, Ttl::Unlimited), "{kind}");
        assert!(handle.expire(HOUR).await.unwrap());
        let left: i64 = java("ttl", &[])[1..].parse().unwrap();
        assert!((3_500_000..=3_600_000).contains(&left), "{kind}: {left}");
        for key in side.keys_of(&name) {
            assert!(side.server.pttl(&key) > 0, "{kind}: {key}");
        }
        assert_eq!(java("persist", &[]), "btrue", "{kind}");
        assert_eq!(handle.ttl().await.unwrap(), Ttl::Unlimited, "{kind}");
        assert!(handle.expire(SHORT).await.unwrap());
        eventually_async(SOON, async || java("exists", &[]) == "bfalse").await;
        assert_eq!(side.keys_of(&name), Vec::<String>::new(), "{kind}");
        // Theirs expires ours.
        $ours;
        assert_eq!((java("exists", &[]), java("ttl", &[])), ("btrue".into(), "l-1".into()), "{kind}");
        assert_eq!(java("expire", &["3600000"]), "btrue", "{kind}");
        assert!(matches!(handle.ttl().await.unwrap(), Ttl::Left(left) if left <= HOUR), "{kind}");
        assert!(handle.persist().await.unwrap());
        assert_eq!(java("ttl", &[]), "l-1", "{kind}");
        assert_eq!(java("expire", &["40"]), "btrue", "{kind}");
        eventually_async(SOON, async || !handle.exists().await.unwrap()).await;
        assert_eq!(side.keys_of(&name), Vec::<String>::new(), "{kind}");
        // Each deletes the other's.
        $theirs;
        assert!(handle.delete().await.unwrap());
        assert_eq!(java("exists", &[]), "bfalse", "{kind}");
        assert_eq!(side.keys_of(&name), Vec::<String>::new(), "{kind}");
        $ours;
        assert_eq!(java("delete", &[]), "btrue", "{kind}");
        assert!(!handle.exists().await.unwrap(), "{kind}");
        assert_eq!(side.keys_of(&name), Vec::<String>::new(), "{kind}");
    }};
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_go_both_ways() {
    let side = Side::start(1).await;
    each_codec!(&side, values);
}

async fn values<C: Texts>(side: &Side, codec: &str, c: C) {
    let (kind, name) = (&*format!("bucket {codec}"), &*format!("value-{codec}"));
    let value: Value<String, C> = side.grid().value(name).unwrap().codec(c);
    for text in TEXTS {
        side.java(kind, "set", name, &[&s(text)]);
        assert_eq!(value.get().await.unwrap().as_deref(), Some(*text), "{kind}");
        // The bytes of both sides are equal.
        assert!(value.swap(Some(*text), Some("x")).await.unwrap(), "{kind} {text}");
        assert_eq!(side.java(kind, "get", name, &[]), "sx");
        value.set(*text).await.unwrap();
        assert_eq!(side.java(kind, "get", name, &[]), s(text));
        assert_eq!(side.java(kind, "cas", name, &[&s(text), "sy"]), "btrue", "{kind} {text}");
        assert_eq!(value.take().await.unwrap().as_deref(), Some("y"));
        assert_eq!(side.java(kind, "set-new", name, &["sz"]), "btrue");
        assert!(!value.set_new("n").await.unwrap());
    }
    check_whole!(side, value, kind,
        theirs: side.java(kind, "set", name, &["sa"]), ours: value.set("b").await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_go_both_ways() {
    let side = Side::start(1).await;
    let number: Counter = side.grid().counter("long").unwrap();
    for each in [0, -1, 5, i64::MAX, i64::MIN] {
        side.java("long", "set", "long", &[&each.to_string()]);
        assert_eq!(number.get().await.unwrap(), each);
        assert!(number.swap(each, 1).await.unwrap());
        assert_eq!(side.java("long", "add", "long", &["2"]), "l3");
        number.set(each).await.unwrap();
        assert_eq!(side.java("long", "cas", "long", &[&each.to_string(), "7"]), "btrue");
        assert_eq!(number.add(1).await.unwrap(), 8);
    }
    check_whole!(&side, number, "long",
        theirs: side.java("long", "add", "long", &["1"]), ours: number.add(1).await.unwrap());
    // A number that does not exist is 0 for both.
    assert!(number.swap(0, 4).await.unwrap());
    assert_eq!(side.java("long", "get", "long", &[]), "l4");

    let number: FloatCounter = side.grid().float_counter("double").unwrap();
    for each in [0.0, -2.25, 1e10, 1e-7, 0.1, 100.0, 1e15, 123.456] {
        let word = each.to_string();
        side.java("double", "set", "double", &[&word]);
        assert_eq!(number.get().await.unwrap(), each);
        assert!(number.swap(each, 1.5).await.unwrap(), "{each}");
        assert_eq!(side.java("double", "add", "double", &["0.25"]), "d1.75");
        number.set(each).await.unwrap();
        assert_eq!(side.java("double", "cas", "double", &[&word, "0.5"]), "btrue", "{each}");
        assert_eq!(number.add(0.25).await.unwrap(), 0.75);
    }
    check_whole!(&side, number, "double",
        theirs: side.java("double", "add", "double", &["1"]), ours: number.add(1.0).await.unwrap());

    let ids: Ids = side.grid().ids("ids").unwrap();
    assert_eq!(side.java("ids", "init", "ids", &["1", "10"]), "btrue");
    let mut all = Vec::new();
    for _ in 0..25 {
        all.push(ids.next().await.unwrap());
        all.push(side.java("ids", "next", "ids", &[])[1..].parse().unwrap());
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!((all.len(), all[0]), (50, 1));
    let new: Ids = side.grid().ids("ours").unwrap().block(3);
    assert_eq!(new.next().await.unwrap(), 1);
    assert_eq!(side.java("ids", "init", "ours", &["1", "10"]), "bfalse");
    assert_eq!(side.java("ids", "next", "ours", &[]), "l4");
    assert!(ids.expire(HOUR).await.unwrap());
    assert!(side.java("ids", "ttl", "ids", &[]).len() > 6);
    assert!(ids.delete().await.unwrap());
    assert_eq!(side.keys_of("ids"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maps_go_both_ways() {
    let side = Side::start(1).await;
    each_codec!(&side, maps);
}

async fn maps<C: Texts>(side: &Side, codec: &str, c: C) {
    let (kind, name) = (&*format!("map {codec}"), &*format!("map-{codec}"));
    let map: Map<String, String, C> = side.grid().map(name).unwrap().codec(c);
    for text in TEXTS {
        assert_eq!(side.java(kind, "put", name, &[&s(text), &s(text)]), "null");
        assert_eq!(map.get(*text).await.unwrap().as_deref(), Some(*text), "{kind}");
        map.update(*text, |old| old.map(|old| old + "+")).await.unwrap();
        assert_eq!(side.java(kind, "get", name, &[&s(text)]), format!("s{text}+"));
        assert_eq!(side.java(kind, "replace", name, &[&s(text), &format!("s{text}+"), "sz"]), "btrue", "{kind} {text}");
        assert_eq!(map.insert(*text, *text).await.unwrap().as_deref(), Some("z"));
    }
    let mut ours = map.to_vec(100).await.unwrap();
    ours.sort();
    let theirs = side.java_texts(kind, "all", name, &[]);
    let mut theirs: Vec<_> = theirs.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    theirs.sort();
    assert_eq!((ours.len(), &ours), (TEXTS.len(), &theirs));
    assert_eq!(side.java(kind, "remove", name, &["s5"]), "s5");
    assert!(map.remove("k1").await.unwrap());
    assert_eq!((map.contains("5").await.unwrap(), side.java(kind, "get", name, &["sk1"])), (false, "null".into()));
    for text in TEXTS {
        locks_of_entries(side, kind, &map, text).await;
    }
    check_whole!(side, map, kind,
        theirs: side.java(kind, "put", name, &["sa", "sb"]), ours: map.put("a", "b").await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timed_maps_go_both_ways() {
    let side = Side::start(1).await;
    each_codec!(&side, timed_maps);
    no_subscriptions(side);
}

async fn timed_maps<C: Texts>(side: &Side, codec: &str, c: C) {
    let (kind, name) = (&*format!("timed {codec}"), &*format!("timed-{codec}"));
    let map: TimedMap<String, String, C> = side.grid().timed_map(name).unwrap().codec(c);
    let left = |key: &str| side.java(kind, "left", name, &[&s(key)])[1..].parse::<i64>().unwrap();
    for text in TEXTS {
        assert_eq!(side.java(kind, "put-for", name, &[&s(text), &s(text), "3600000", "0"]), "null");
        assert_eq!(map.get(*text).await.unwrap().as_deref(), Some(*text), "{kind}");
        assert!(matches!(map.left(*text).await.unwrap(), Ttl::Left(left) if left <= HOUR), "{kind}");
        map.update(*text, |old| old.map(|old| old + "+")).await.unwrap();
        assert_eq!(side.java(kind, "get", name, &[&s(text)]), format!("s{text}+"));
        assert!((3_000_000..=3_600_000).contains(&left(text)), "{kind}: the entry keeps its life");
        assert_eq!(side.java(kind, "replace", name, &[&s(text), &format!("s{text}+"), "sz"]), "btrue", "{kind} {text}");
        let idle = Life { ttl: None, idle: Some(HOUR) };
        assert_eq!(map.insert_for(*text, *text, idle).await.unwrap().as_deref(), Some("z"));
        assert!((3_000_000..=3_600_000).contains(&left(text)), "{kind}: the idle time");
        map.put(*text, *text).await.unwrap();
        assert_eq!((left(text), map.left(*text).await.unwrap()), (-1, Ttl::Unlimited), "a write without a life");
    }
    let mut ours = map.to_vec(100).await.unwrap();
    ours.sort();
    let theirs = side.java_texts(kind, "all", name, &[]);
    let mut theirs: Vec<_> = theirs.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    theirs.sort();
    assert_eq!((ours.len(), &ours), (TEXTS.len(), &theirs));
    assert_eq!(side.java(kind, "remove", name, &["s5"]), "s5");
    assert!(map.remove("k1").await.unwrap());
    assert_eq!((map.contains("5").await.unwrap(), side.java(kind, "get", name, &["sk1"])), (false, "null".into()));
    locks_of_entries(side, kind, &map, "a").await;
    check_whole!(side, map, kind,
        theirs: side.java(kind, "put-for", name, &["sa", "sb", "3600000", "3600000"]),
        ours: map.put_for("a", "b", Life { ttl: Some(HOUR), idle: Some(HOUR) }).await.unwrap());
    check_whole!(side, map, kind,
        theirs: side.java(kind, "put", name, &["sa", "sb"]), ours: map.put("a", "b").await.unwrap());
    entries_end(side, kind, &map).await;
    bounds(side, kind, &map).await;
    assert_eq!(side.java(kind, "leave", name, &[]), "left");
}

/// An entry of each side ends for both, and both sides hear it once.
async fn entries_end<C: Texts>(side: &Side, kind: &str, map: &TimedMap<String, String, C>) {
    let name = map.name();
    assert_eq!(side.java(kind, "listen", name, &[]), "listening");
    let mut events = map.events().await.unwrap();
    side.java(kind, "put-for", name, &["stheirs", "s1", "40", "0"]);
    map.put_for("ours", "1", Life::idle(SHORT)).await.unwrap();
    map.put("ever", "1").await.unwrap();
    side.java(kind, "put", name, &["sever", "s2"]);
    map.remove("ever").await.unwrap();
    tokio::time::sleep(SHORT * 2).await; // Reads would begin the idle time again.
    assert_eq!((side.java(kind, "get", name, &["sours"]), map.get("theirs").await.unwrap()), ("null".into(), None));
    let expected =
        ["+theirs=1", "+ours=1", "+ever=1", "~ever=1>2", "-ever=2", "!ours=1", "!theirs=1"].map(str::to_owned);
    let mut ours = Vec::new();
    while ours.len() < expected.len() {
        let event = tokio::time::timeout(SOON, events.next()).await.expect("an event in time").expect("an open stream");
        ours.push(match event {
            MapEvent::Created { key, value } => format!("+{key}={value}"),
            MapEvent::Updated { key, value, old } => format!("~{key}={old}>{value}"),
            MapEvent::Removed { key, value } => format!("-{key}={value}"),
            MapEvent::Expired { key, value } => format!("!{key}={value}"),
            other => panic!("{other:?}"),
        });
    }
    // The two ends have no order, and Java may hear of several entries in another order.
    let sorted = |mut events: Vec<String>| {
        events.sort();
        events
    };
    assert_eq!(sorted(ours), sorted(expected.to_vec()), "{kind}");
    eventually_async(SOON, async || {
        let theirs = sorted(side.java_texts(kind, "events", name, &[]));
        if theirs == sorted(expected.to_vec()) { Ok(()) } else { Err(theirs) }
    })
    .await;
    map.delete().await.unwrap();
}

/// A bound of each side holds for the other.
async fn bounds<C: Texts>(side: &Side, kind: &str, map: &TimedMap<String, String, C>) {
    let name = map.name();
    for (bound, mode) in [("2", "LRU"), ("2", "LFU")] {
        side.java(kind, "bound", name, &[bound, mode]);
        for number in 0..5 {
            map.put(&*number.to_string(), "1").await.unwrap();
        }
        assert_eq!(map.len().await.unwrap(), 2, "{kind} {mode}");
    }
    map.bound(3, Victim::LeastRecentlyUsed).await.unwrap();
    for number in 0..5 {
        side.java(kind, "put", name, &[&s(&number.to_string()), "s1"]);
    }
    assert_eq!(map.len().await.unwrap(), 3, "{kind}");
    assert!(map.contains("4").await.unwrap());
    map.delete().await.unwrap();
}

/// Copies of both sides agree after writes of each, and Java's call that clears all copies gets its answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_of_both_sides_agree() {
    let side = Side::start(2).await;
    each_codec!(&side, copies);
    no_subscriptions(side);
}

/// Checks that the JVMs have none when the clients of bandog have gone: other tests use them, and count.
fn no_subscriptions(mut side: Side) {
    side.grids.clear();
    settle(&side.server);
}

async fn copies<C: Texts>(side: &Side, codec: &str, c: C) {
    for sync in ["invalidate", "update"] {
        let (kind, name) = (&*format!("local-{sync} {codec}"), &*format!("copies-{sync}-{codec}"));
        let near = |grid: usize| {
            let map: Map<String, String, C> = side.grids[grid].map(name).unwrap().codec(c.clone());
            map.near(100).max_age(HOUR)
        };
        let (one, two) = (near(0), near(1));
        let all_read = async |key: &str, value: Option<&str>| {
            let word = value.map_or("null".to_owned(), s);
            let theirs = side.java(kind, "get", name, &[&s(key)]) == word;
            let ours = one.read(key).await.unwrap().map(|value| (*value).clone());
            let others = two.read(key).await.unwrap().map(|value| (*value).clone());
            theirs && ours.as_deref() == value && others.as_deref() == value
        };
        for text in TEXTS {
            side.java(kind, "fast-put", name, &[&s(text), "s1"]);
            eventually_async(SOON, async || all_read(text, Some("1")).await).await;
            one.put(*text, "2").await.unwrap();
            eventually_async(SOON, async || all_read(text, Some("2")).await).await;
            assert_eq!(side.java(kind, "replace", name, &[&s(text), "s2", "s3"]), "btrue");
            eventually_async(SOON, async || all_read(text, Some("3")).await).await;
            one.update(*text, |old| old.map(|old| old + "+")).await.unwrap();
            eventually_async(SOON, async || all_read(text, Some("3+")).await).await;
            assert_eq!(side.java(kind, "remove", name, &[&s(text)]), "s3+");
            eventually_async(SOON, async || all_read(text, None).await).await;
            two.put(*text, "4").await.unwrap();
            eventually_async(SOON, async || all_read(text, Some("4")).await).await;
            assert!(one.remove(*text).await.unwrap());
            eventually_async(SOON, async || all_read(text, None).await).await;
        }
        one.put("k", "v").await.unwrap();
        let begin = std::time::Instant::now();
        assert_eq!(side.java(kind, "clear-copies", name, &[]), "cleared");
        assert!(begin.elapsed() < Duration::from_secs(20), "it waits for 40 s if an answer is missing");
        assert_eq!(side.java(kind, "copy", name, &["sk"]), "null");
        eventually_async(SOON, async || all_read("k", Some("v")).await).await;
        one.delete().await.unwrap();
        assert_eq!(side.java(kind, "leave", name, &[]), "left");
    }
}

/// A lock that one side holds for a key is busy for the other.
async fn locks_of_entries<C: Texts>(side: &Side, kind: &str, map: &Map<String, String, C>, key: &str) {
    let name = map.name();
    let lock = map.lock(key).unwrap();
    let guard = lock.try_lock().await.unwrap().expect("free");
    assert_eq!(side.java(kind, "lock", name, &[&s(key)]), "bfalse", "{kind} {key}");
    guard.release().await.unwrap();
    assert_eq!(side.java(kind, "lock", name, &[&s(key)]), "btrue", "{kind} {key}");
    assert!(lock.try_lock().await.unwrap().is_none(), "{kind} {key}");
    assert!(map.lock("other").unwrap().try_lock().await.unwrap().is_some());
    assert_eq!(side.java(kind, "unlock", name, &[&s(key)]), "freed");
    lock.try_lock().await.unwrap().expect("free").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_maps_go_both_ways() {
    let side = Side::start(1).await;
    let map: Map<String, i64> = side.grid().map("numbers").unwrap();
    assert_eq!(map.add("k", 5).await.unwrap(), 5);
    assert!(["i7", "l7"].contains(&&*side.java("map text-json", "add", "numbers", &["sk", "l2"])));
    assert_eq!(map.update("k", |old| old.map(|old| old * 2)).await.unwrap(), Some(14));
    assert_eq!(side.java("map text-json", "get", "numbers", &["sk"]), "i14");
    let floats: Map<String, f64> = side.grid().map("floats").unwrap();
    assert_eq!(side.java("map text-json", "put", "floats", &["sk", "d1.5"]), "null");
    assert_eq!(floats.add_float("k", 0.25).await.unwrap(), 1.75);
    assert_eq!(side.java("map text-json", "get", "floats", &["sk"]), "d1.75");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_go_both_ways() {
    let side = Side::start(1).await;
    each_codec!(&side, sets);
}

async fn sets<C: Texts>(side: &Side, codec: &str, c: C) {
    let (kind, name) = (&*format!("set {codec}"), &*format!("set-{codec}"));
    let set: Set<String, C> = side.grid().set(name).unwrap().codec(c);
    for text in TEXTS {
        assert_eq!(side.java(kind, "add", name, &[&s(text)]), "btrue");
        assert!(!set.insert(*text).await.unwrap(), "{kind} {text}");
        assert!(set.remove(*text).await.unwrap());
        assert!(set.insert(*text).await.unwrap());
        assert_eq!(side.java(kind, "contains", name, &[&s(text)]), "btrue", "{kind} {text}");
    }
    let (mut ours, mut theirs) = (set.to_vec(100).await.unwrap(), side.java_texts(kind, "all", name, &[]));
    ours.sort();
    theirs.sort();
    assert_eq!((ours.len(), &ours), (TEXTS.len(), &theirs));
    let (popped, polled) = (set.pop().await.unwrap().expect("a member"), side.java(kind, "pop", name, &[]));
    assert_ne!(s(&popped), polled);
    assert!(ours.contains(&popped) && ours.contains(&polled[1..].to_owned()));
    assert_eq!(set.len().await.unwrap(), TEXTS.len() as u64 - 2);
    check_whole!(side, set, kind,
        theirs: side.java(kind, "add", name, &["sa"]), ours: set.insert("b").await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_go_both_ways() {
    let side = Side::start(1).await;
    each_codec!(&side, lists);
}

async fn lists<C: Texts>(side: &Side, codec: &str, c: C) {
    let (kind, name) = (&*format!("list {codec}"), &*format!("list-{codec}"));
    let list: List<String, C> = side.grid().list(name).unwrap().codec(c);
    for (at, text) in TEXTS.iter().enumerate() {
        if at % 2 == 0 {
            list.push(*text).await.unwrap();
        } else {
            assert_eq!(side.java(kind, "add", name, &[&s(text)]), "btrue");
        }
        assert_eq!(side.java(kind, "index", name, &[&s(text)]), format!("i{at}"), "{kind} {text}");
        assert_eq!(list.position(*text).await.unwrap(), Some(at as u64), "{kind} {text}");
    }
    assert_eq!(list.slice(0, -1).await.unwrap(), side.java_texts_with_empty(kind, name));
    assert_eq!(list.to_vec(100).await.unwrap(), TEXTS);
    // Each removes and inserts by index, and the other sees it.
    assert_eq!(side.java(kind, "remove-at", name, &["2"]), s(TEXTS[2]));
    assert_eq!(list.remove(3).await.unwrap().as_deref(), Some(TEXTS[4]));
    assert!(list.insert(2, "new").await.unwrap());
    assert_eq!(side.java(kind, "set", name, &["2", "sother"]), "snew");
    assert_eq!(list.set(2, "third").await.unwrap().as_deref(), Some("other"));
    side.java(kind, "insert", name, &["3", "sfourth"]);
    assert_eq!(list.slice(1, 4).await.unwrap(), [TEXTS[1], "third", "fourth", TEXTS[3]]);
    assert_eq!(side.java(kind, "remove", name, &["sthird"]), "btrue");
    assert_eq!(list.remove_equal("fourth", 0).await.unwrap(), 1);
    assert_eq!(list.len().await.unwrap(), TEXTS.len() as u64 - 2);
    check_whole!(side, list, kind,
        theirs: side.java(kind, "add", name, &["sa"]), ours: list.push("b").await.unwrap());
}

impl Side {
    /// All elements of a list of Java, of which some may be empty.
    fn java_texts_with_empty(&self, kind: &str, name: &str) -> Vec<String> {
        self.java(kind, "all", name, &[]).split('\t').map(|word| word[1..].to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sorted_sets_go_both_ways() {
    let side = Side::start(1).await;
    each_codec!(&side, sorted_sets);
}

async fn sorted_sets<C: Texts>(side: &Side, codec: &str, c: C) {
    let (kind, name) = (&*format!("sorted {codec}"), &*format!("sorted-{codec}"));
    let set: SortedSet<String, C> = side.grid().sorted_set(name).unwrap().codec(c);
    for (at, text) in TEXTS.iter().enumerate() {
        let score = at as f64 + 0.5;
        assert_eq!(side.java(kind, "add", name, &[&score.to_string(), &s(text)]), "btrue");
        assert_eq!(set.score(*text).await.unwrap(), Some(score), "{kind} {text}");
        assert_eq!(set.add(*text, 0.25).await.unwrap(), score + 0.25);
        assert_eq!(side.java(kind, "add-score", name, &[&s(text), "0.25"]), format!("d{:?}", score + 0.5));
        assert!(!set.insert(score, *text).await.unwrap());
        assert_eq!(side.java(kind, "score", name, &[&s(text)]), format!("d{score:?}"));
        assert_eq!(side.java(kind, "rank", name, &[&s(text)]), format!("i{at}"), "{kind} {text}");
    }
    let ours = set.to_vec(100).await.unwrap();
    let theirs = side.java(kind, "all", name, &[]);
    let ours = ours.iter().map(|(member, score)| format!("s{member}\td{score:?}")).collect::<Vec<_>>().join("\t");
    assert_eq!(ours, theirs);
    assert_eq!(side.java(kind, "poll-first", name, &[]), s(TEXTS[0]));
    assert_eq!(set.pop_min().await.unwrap(), Some((TEXTS[1].to_owned(), 1.5)));
    assert_eq!(set.pop_max().await.unwrap().map(|(member, _)| member).as_deref(), TEXTS.last().copied());
    for score in [1e300, 1e-300, 0.1, 1e16] {
        set.insert(score, "a").await.unwrap();
        let read = side.java(kind, "score", name, &["sa"]);
        let read: f64 = read[1..].parse().unwrap_or_else(|_| panic!("{score}: {read}"));
        assert_eq!(read, score);
    }
    // Java neither writes nor reads an infinite score.
    set.insert(f64::INFINITY, "a").await.unwrap();
    assert!(side.java(kind, "score", name, &["sa"]).starts_with("error "));
    assert!(side.java(kind, "all", name, &[]).starts_with("error "));
    assert!(side.java(kind, "add", name, &["Infinity", "sa"]).starts_with("error "));
    check_whole!(side, set, kind,
        theirs: side.java(kind, "add", name, &["1", "sa"]), ours: set.insert(2.0, "b").await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multimaps_go_both_ways() {
    let side = Side::start(1).await;
    each_codec!(&side, multimaps);
}

async fn multimaps<C: Texts>(side: &Side, codec: &str, c: C) {
    for (form, is_set) in [("set", true), ("list", false)] {
        for cache in ["", "cache"] {
            let (kind, name) =
                (&*format!("{form}multimap{cache} {codec}"), &*format!("multimap-{form}{cache}-{codec}"));
            let grid = side.grid();
            let map: Multimap<String, String, C> =
                if is_set { grid.set_multimap(name) } else { grid.list_multimap(name) }.unwrap().codec(c.clone());
            for text in TEXTS {
                assert_eq!(side.java(kind, "put", name, &[&s(text), "sa"]), "btrue");
                assert_eq!(map.insert(*text, "a").await.unwrap(), !is_set, "{kind} {text}");
                map.insert(*text, *text).await.unwrap();
                assert_eq!(side.java(kind, "contains", name, &[&s(text), &s(text)]), "btrue", "{kind} {text}");
                assert!(map.contains(*text, "a").await.unwrap());
                assert_eq!(map.get(*text).await.unwrap().len(), side.java_values(kind, name, text).len());
            }
            assert_eq!(map.keys_len().await.unwrap(), TEXTS.len() as u64);
            assert_eq!(side.java(kind, "key-size", name, &[]), format!("i{}", TEXTS.len()));
            assert_eq!(format!("i{}", map.len().await.unwrap()), side.java(kind, "size", name, &[]));
            // The last value takes its key with it, on either side.
            for text in TEXTS {
                while map.remove(*text, "a").await.unwrap() {}
                while side.java(kind, "remove", name, &[&s(text), &s(text)]) == "btrue" {}
                assert_eq!(map.get(*text).await.unwrap(), Vec::<String>::new());
            }
            assert_eq!(side.keys_of(name), Vec::<String>::new(), "{kind}");
            map.insert("k", "a").await.unwrap();
            assert_eq!(side.java(kind, "remove-all", name, &["sk"]), "sa");
            side.java(kind, "put", name, &["sk", "sb"]);
            assert_eq!(map.remove_all("k").await.unwrap(), ["b"]);
            if cache == "cache" {
                ttls_of_keys(side, kind, &map).await;
            }
            check_whole!(side, map, kind,
                theirs: side.java(kind, "put", name, &["sa", "sb"]), ours: map.insert("a", "b").await.unwrap());
        }
    }
}

impl Side {
    fn java_values(&self, kind: &str, name: &str, key: &str) -> Vec<String> {
        self.java(kind, "all", name, &[&s(key)]).split('\t').map(str::to_owned).collect()
    }
}

/// A key that one side expires is gone for the other.
async fn ttls_of_keys<C: Texts>(side: &Side, kind: &str, map: &Multimap<String, String, C>) {
    let name = map.name();
    map.insert("kept", "a").await.unwrap();
    side.java(kind, "put", name, &["sk", "sa"]);
    assert!(map.expire_key("k", SHORT).await.unwrap());
    eventually_async(SOON, async || side.java(kind, "all", name, &["sk"]).is_empty()).await;
    map.insert("k", "b").await.unwrap();
    assert_eq!(side.java(kind, "all", name, &["sk"]), "sb", "{kind}");
    assert_eq!(side.java(kind, "expire-key", name, &["sk", "40"]), "btrue", "{kind}");
    eventually_async(SOON, async || map.get("k").await.unwrap().is_empty()).await;
    assert!(!map.contains("k", "b").await.unwrap());
    assert_eq!(side.java(kind, "all", name, &["skept"]), "sa", "{kind}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bits_go_both_ways() {
    let side = Side::start(1).await;
    let bits: BitSet = side.grid().bits("bits").unwrap();
    let java = |verb: &str, args: &[&str]| side.java("bits", verb, "bits", args);
    for bit in [0, 7, 8, 100, 4_001] {
        assert_eq!(java("set", &[&bit.to_string(), "true"]), "bfalse");
        assert!(bits.set(bit, true).await.unwrap());
        assert!(!bits.set(bit + 2, true).await.unwrap());
        assert_eq!(java("get", &[&(bit + 2).to_string()]), "btrue");
    }
    bits.set_range(200..300, true).await.unwrap();
    java("set-range", &["250", "350"]);
    assert_eq!(format!("l{}", bits.count().await.unwrap()), java("count", &[]));
    assert_eq!((format!("l{}", bits.len().await.unwrap()), java("length", &[])), ("l4004".into(), "l4004".into()));
    let hex: String = bits.to_vec().await.unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(java("bytes", &[]), hex);
    assert_eq!(bits.unsigned(1_000, 13).set(5_000).await.unwrap(), 0);
    assert_eq!(java("set-unsigned", &["13", "1000", "4999"]), "l5000");
    assert_eq!(bits.signed(1_000, 13).get().await.unwrap(), 4_999 - 8_192);
    assert_eq!(java("get-signed", &["13", "1000"]), "l-3193");
    check_whole!(&side, bits, "bits", theirs: java("set", &["5", "true"]), ours: bits.set(6, true).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bloom_filters_go_both_ways() {
    let side = Side::start(1).await;
    each_codec!(&side, bloom_filters);
}

async fn bloom_filters<C: Texts>(side: &Side, codec: &str, c: C) {
    let (kind, name) = (&*format!("bloom {codec}"), &*format!("bloom-{codec}"));
    let grid = side.grid();
    assert_eq!(side.java(kind, "init", name, &["1000", "0.03"]), "btrue");
    let bloom: Bloom<String, C> = grid.bloom(name).unwrap().codec(c.clone()).create_or_open(1_000, 0.03).await.unwrap();
    let sizes = bloom.sizes();
    let ours = format!("{}\t{}\t{}\t{}", sizes.bits, sizes.hashes, sizes.expected, sizes.false_positives);
    assert_eq!(side.java(kind, "sizes", name, &[]), ours);
    for (at, text) in TEXTS.iter().enumerate() {
        if at % 2 == 0 {
            assert!(bloom.insert(*text).await.unwrap());
            assert_eq!(side.java(kind, "contains", name, &[&s(text)]), "btrue", "{kind} {text}");
            assert_eq!(side.java(kind, "add", name, &[&s(text)]), "bfalse", "{kind} {text}");
        } else {
            assert_eq!(side.java(kind, "add", name, &[&s(text)]), "btrue", "{kind} {text}");
            assert!(bloom.contains(*text).await.unwrap(), "{kind} {text}");
            assert!(!bloom.insert(*text).await.unwrap(), "{kind} {text}");
        }
    }
    assert_eq!(side.java(kind, "count", name, &[]), format!("l{}", bloom.count().await.unwrap()));
    check_whole!(side, bloom, kind,
    theirs: {
        side.java(kind, "init", name, &["1000", "0.03"]);
        side.java(kind, "add", name, &["sa"])
    },
    ours: {
        grid.bloom::<String>(name).unwrap().codec(c.clone()).create_or_open(1_000, 0.03).await.unwrap();
        bloom.insert("b").await.unwrap()
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_go_both_ways() {
    let side = Side::start(1).await;
    each_codec!(&side, queues);
}

async fn queues<C: Texts>(side: &Side, codec: &str, c: C) {
    let (kind, name) = (&*format!("queue {codec}"), &*format!("queue-{codec}"));
    let queue: Deque<String, C> = side.grid().deque(name).unwrap().codec(c);
    let java = |verb: &str, args: &[&str]| side.java(kind, verb, name, args);
    for text in TEXTS {
        assert_eq!(java("offer", &[&s(text)]), "btrue");
        assert_eq!(queue.pop().await.unwrap().as_deref(), Some(*text));
        queue.push(*text).await.unwrap();
        assert_eq!(java("poll", &[]), s(text), "{kind}");
        queue.push_front(*text).await.unwrap();
        assert_eq!(java("offer-first", &["sfirst"]), "btrue");
        assert_eq!(queue.pop_back().await.unwrap().as_deref(), Some(*text));
        let taken = queue.take(SOON).await.unwrap().expect("an element");
        assert_eq!(
            (taken.as_str(), java("poll", &[])),
            ("first", "null".into()),
            "a taken element is not there for Java"
        );
        taken.done().await.unwrap();
    }
    // Each wakes the other.
    let polls = side.send(kind, "poll-for", name, &["20000"]);
    queue.push("a").await.unwrap();
    assert_eq!(polls.answer(SOON), "sa");
    let waits = tokio::spawn({
        let queue = queue.clone();
        async move { queue.pop_wait(SOON).await }
    });
    java("offer", &["sb"]);
    assert_eq!(waits.await.unwrap().unwrap().as_deref(), Some("b"));
    assert_eq!((queue.len().await.unwrap(), java("size", &[])), (0, "i0".into()));
    check_whole!(side, queue, kind, theirs: java("offer", &["sa"]), ours: queue.push("b").await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journals_go_both_ways() {
    let side = Side::start(1).await;
    each_codec!(&side, journals);
}

async fn journals<C: Texts>(side: &Side, codec: &str, c: C) {
    let name = &*format!("journal-{codec}");
    let journal: Journal<String, C> = side.grid().journal(name).unwrap().codec(c);
    // The names of the fields of a Java stream are written with its codec, or with a codec of their own.
    let (plain, fields) = (&*format!("stream {codec}"), &*format!("fields {codec}"));
    let group = journal.group("ours").await.unwrap();
    assert_eq!(side.java(fields, "create-group", name, &["theirs"]), "created");
    for text in TEXTS {
        for kind in [plain, fields] {
            let id: EntryId = side.java(kind, "add", name, &[&s(text)]).parse().unwrap();
            let found = journal.range(id, id, 9).await.unwrap();
            assert_eq!((found.len(), found[0].id, found[0].value.as_str()), (1, id, *text), "{kind}");
            let taken = group.take(SOON).await.unwrap().expect("an entry");
            assert_eq!((taken.as_str(), taken.entry()), (*text, Some(id)), "{kind}");
            taken.done().await.unwrap();
        }
    }
    side.java(fields, "add-fields", name, &["sother", "svalue"]);
    assert_eq!(*group.take(SOON).await.unwrap().expect("an entry"), "value");
    assert!(journal.trim_to_newest(0).await.unwrap() > 0);
    let mut expected = Vec::new();
    for text in TEXTS {
        let id = journal.append(*text).await.unwrap();
        expected.push(format!("{id}\t{}", s(text)));
        assert_eq!(
            side.java(fields, "read-group", name, &["theirs", "one", "1"]),
            expected[expected.len() - 1],
            "{fields}"
        );
        assert_eq!(side.java(fields, "ack", name, &["theirs", &id.to_string()]), "l1");
    }
    assert_eq!(side.java(fields, "range", name, &[]), expected.join("\t"));
    let is_read = side.java(plain, "range", name, &[]) == expected.join("\t");
    assert_eq!(is_read, codec.starts_with("text"), "the name of our field is plain text");
    let mut stream = journal.stream(EntryId::MIN);
    let mut ours = Vec::new();
    while let Some(entry) = stream.next().await {
        ours.push(entry.unwrap().value);
    }
    assert_eq!(ours, TEXTS);
    assert_eq!(
        (journal.len().await.unwrap(), side.java(plain, "trim", name, &["2"])),
        (TEXTS.len() as u64, format!("l{}", TEXTS.len() - 2))
    );
    assert_eq!((journal.len().await.unwrap(), side.java(plain, "size", name, &[])), (2, "l2".into()));
    check_whole!(side, journal, fields,
        theirs: side.java(fields, "add", name, &["sa"]), ours: journal.append("b").await.unwrap());
}
