//! Laws of objects as a whole.

use std::time::Duration;

use bandog_core::{
    ErrorKind, Pattern,
    structures::{
        Action, BeginWhen, BitCombine, BitsOp, BloomOp, BloomSizes, CacheChanges, CacheOp, Cursor, Elements, End,
        EntryEvents, EntryKey, Expiry, FillId, JournalOp, Keep, Life, ListOp, MapChanges, MapOp, MultimapOp, NewEntry,
        ObjectOp, ObjectState, Reply, SetOp, SetTtl, SortedOp, Source, Structure, TakeEnd, TakeOp, TimedOp, Ttl,
        ValueOp, Values, Victim,
    },
};
use bandog_testkit::eventually_async;
use tokio::time::sleep;

use super::{
    ObjectWorld,
    kit::{FRONT, LONG, NO, NONE, Store, YES, all, b, int, peek, some},
};
use crate::{
    ends_itself::{EndsItself, Slot},
    kit::MAX_WAIT,
};

const BLOOM: BloomSizes = BloomSizes { bits: 100, hashes: 2, expected: 10, false_positives: 0.1 };

/// The size of this object of [`one_of_each`].
fn size_of(structure: Structure) -> u64 {
    if structure == Structure::Journal { 3 } else { 1 }
}

/// An object of each structure, with all its parts.
async fn one_of_each<W: ObjectWorld>(store: &Store<'_, W>) -> Vec<(&'static str, Structure)> {
    let multimap = |values| Action::Multimap(values, MultimapOp::Insert(b("k"), b("v")));
    store.run("value", ValueOp::Set(b("v"), SetTtl::Clear)).await;
    store.run("ids", Action::Ids { size: 5 }).await;
    store.run("map", MapOp::Put(vec![(b("f"), b("v"))])).await;
    let timed = |op| Action::Timed(Expiry::Operations, op);
    let life = Life { ttl: Some(LONG), idle: Some(LONG) };
    store.run("timed map", timed(TimedOp::Bound { entries: 5, victim: Victim::LeastRecentlyUsed })).await;
    store.run("timed map", timed(TimedOp::Entries(MapOp::Put(vec![(b("f"), b("v"))]), life))).await;
    store.run("set", SetOp::Insert(all(["m"]))).await;
    store.run("sorted", SortedOp::InsertNew(1.0, b("m"))).await;
    store.run("set multimap", multimap(Values::Set)).await;
    store.run("list multimap", multimap(Values::List)).await;
    store.run("bloom", BloomOp::Create(BLOOM)).await;
    store.run("bloom", BloomOp::Insert(BLOOM, vec![vec![1, 2]])).await;
    // A queue with an element that is ready, one that is taken, and one that was delivered before.
    store.push("list", ["a", "b", "c"]).await;
    let taken = store.take("list", FRONT, 2, LONG).await;
    store.run("list", TakeOp::Settle { from: FRONT, ids: vec![taken[0].id], end: TakeEnd::Again }).await;
    // And a journal in the same state.
    let (group, entries) = (Source::Group("g".into()), all(["a", "b", "c"]));
    store.run("journal", JournalOp::Append { entries, keep: Keep::All, once: None }).await;
    let taken = store.take("journal", group.clone(), 2, LONG).await;
    store.run("journal", TakeOp::Settle { from: group, ids: vec![taken[0].id], end: TakeEnd::Again }).await;
    vec![
        ("value", Structure::Value),
        ("ids", Structure::Ids),
        ("map", Structure::Map),
        ("timed map", Structure::TimedMap),
        ("set", Structure::Set),
        ("sorted", Structure::Sorted),
        ("set multimap", Structure::Multimap(Values::Set)),
        ("list multimap", Structure::Multimap(Values::List)),
        ("bloom", Structure::Bloom),
        ("list", Structure::List),
        ("journal", Structure::Journal),
    ]
}

/// Law 257: the ttl of an object is that of all its parts.
// Promise: G15
pub async fn whole_object_expires_with_its_parts<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for (name, structure) in one_of_each(&store).await {
        let of = |op| Action::Object(structure, op);
        assert_eq!(store.run(name, of(ObjectOp::Ttl)).await, Reply::Ttl(Ttl::Unlimited), "{name}");
        assert_eq!(store.run(name, of(ObjectOp::Expire(world.ttl()))).await, YES, "{name}");
        let ttl = store.run(name, of(ObjectOp::Ttl)).await.ttl().expect("a ttl");
        assert!(matches!(ttl, Ttl::Left(left) if left <= world.ttl()), "{name}: {ttl:?}");
    }
    sleep(world.ttl() + Duration::from_millis(50)).await;
    assert_eq!(world.left().await, [""; 0]);
    assert_eq!(store.run("absent", Action::Object(Structure::Map, ObjectOp::Expire(LONG))).await, NO);
}

/// Law 267: an element that is taken, or that comes again, expires with its queue, also if no other element is left.
pub async fn whole_queue_expires_with_taken_elements<W: ObjectWorld>(world: &W) {
    let (store, of) = (Store::of(world), |op| Action::Object(Structure::List, op));
    for end in [None, Some(TakeEnd::Again), Some(TakeEnd::Undelivered)] {
        for has_more in [false, true] {
            store.push("q", ["a"]).await;
            if has_more {
                store.push("q", ["b"]).await;
            }
            store.run("q", of(ObjectOp::Expire(world.ttl()))).await;
            let taken = store.take("q", FRONT, 1, LONG).await;
            if let Some(end) = end {
                store.run("q", TakeOp::Settle { from: FRONT, ids: vec![taken[0].id], end }).await;
            }
            let ttl = store.run("q", of(ObjectOp::Ttl)).await.ttl().expect("a ttl");
            assert!(matches!(ttl, Ttl::Left(_)), "{end:?} {has_more}: {ttl:?}");
            sleep(world.ttl() + Duration::from_millis(50)).await;
            assert!(!store.exists("q", Structure::List).await, "{end:?} {has_more}");
            assert_eq!(store.run("q", TakeOp::Count(FRONT)).await, Reply::Queue { ready: 0, taken: 0 });
        }
    }
}

/// Law 377: an object that is used until its ttl is over ends with all its parts, also if the last use came in the last
/// millisecond.
// Promise: G15
pub async fn whole_object_in_use_expires<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let of = |structure, op| Action::Object(structure, op);
    let sources = [
        ("q", Structure::List, FRONT),
        ("s", Structure::Set, Source::Set),
        ("z", Structure::Sorted, Source::Sorted(End::Front)),
    ];
    for round in 0..24_u64 {
        let ttl = Duration::from_millis(5 + round % 10);
        store.push("q", ["a", "b"]).await;
        store.run("s", SetOp::Insert(all(["a", "b"]))).await;
        store.run("z", SortedOp::InsertNew(1.0, b("a"))).await;
        for (name, structure, from) in &sources {
            store.run(name, of(*structure, ObjectOp::Expire(ttl))).await;
            while store.exists(name, *structure).await {
                let ids = store.take(name, from.clone(), 1, LONG).await.iter().map(|taken| taken.id).collect();
                let end = if round % 2 == 0 { TakeEnd::Again } else { TakeEnd::Undelivered };
                store.run(name, TakeOp::Settle { from: from.clone(), ids, end }).await;
                sleep(Duration::from_micros(1)).await;
            }
        }
        store.run("bits", BitsOp::Set(vec![3], true)).await;
        store.run("bits", of(Structure::Bits, ObjectOp::Expire(ttl))).await;
        while store.exists("bits", Structure::Bits).await {
            store.run("bits", BitsOp::Not).await;
            store.run("bits", BitsOp::Combine(BitCombine::Or, Vec::new())).await;
            sleep(Duration::from_micros(1)).await;
        }
        // Redis keeps the last fence and the answers of a queue for a time.
        let is_kept = |key: &String| key.starts_with("bandog:fence:") || key.starts_with("bandog:ops:");
        let is_empty = async || {
            let left: Vec<_> = world.left().await.into_iter().filter(|key| !is_kept(key)).collect();
            if left.is_empty() { Ok(()) } else { Err(left) }
        };
        eventually_async(MAX_WAIT, is_empty).await;
    }
}

/// Law 378: a notifier may drop its own subscription, and the store goes on.
pub async fn object_subscriptions_end_themselves<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let structures = store.structures();

    let (elements, slot) = ends_itself();
    let subscription = structures.subscribe_elements(&store.key("q"), FRONT, slot.notifier()).await;
    elements.ends(subscription.expect("elements"), async || store.push("q", ["a"]).await).await;

    let (changes, slot) = ends_itself();
    let report = MapChanges::new(move |_| slot.end());
    let subscription = structures.track_map(&store.key("m"), report).await.expect("changes of a map");
    let put = async || _ = store.run("m", MapOp::Put(vec![(b("a"), b("1"))])).await;
    changes.ends(subscription, put).await;

    let (events, slot) = ends_itself();
    let report = EntryEvents::new(move |_| slot.end());
    let subscription = structures.subscribe_entries(&store.key("t"), report).await.expect("events of a map");
    let life = Life { ttl: Some(LONG), idle: None };
    let put = TimedOp::Entries(MapOp::Put(vec![(b("a"), b("1"))]), life);
    let put = async || _ = store.run("t", Action::Timed(Expiry::Operations, put.clone())).await;
    events.ends(subscription, put).await;

    let at = EntryKey { part: 3, key: b("k") };
    let entry = || NewEntry { value: Some(b("v")), fresh: LONG, stale: LONG };
    let (fill, slot) = ends_itself();
    let subscription = structures.subscribe_fill(&store.key("c"), &at, slot.notifier()).await.expect("fills");
    let begin = || CacheOp::Begin { at: at.clone(), fill: FillId(1), when: BeginWhen::Needed, lease: LONG };
    let put = async || {
        store.run("c", CacheOp::Remove(at.clone())).await;
        store.run("c", begin()).await;
        store.run("c", CacheOp::Put(at.clone(), entry())).await;
    };
    fill.ends(subscription, put).await;

    let (changes, slot) = ends_itself();
    let report = CacheChanges::new(move |_| slot.end());
    let subscription = structures.track_cache(&store.key("c"), report).await.expect("changes of a cache");
    changes.ends(subscription, async || _ = store.run("c", CacheOp::Put(at.clone(), entry())).await).await;
}

fn ends_itself() -> (EndsItself, Slot) {
    let ends = EndsItself::new();
    let slot = ends.slot().clone();
    (ends, slot)
}

/// Law 258: an object is deleted with all its parts.
// Promise: G15
pub async fn whole_object_is_deleted_with_its_parts<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for (name, structure) in one_of_each(&store).await {
        let of = |op| Action::Object(structure, op);
        assert_eq!(store.run(name, of(ObjectOp::Exists)).await, YES, "{name}");
        assert_eq!(store.run(name, of(ObjectOp::Delete)).await, YES, "{name}");
        assert_eq!(store.run(name, of(ObjectOp::Delete)).await, NO, "{name}");
        assert_eq!(store.run(name, of(ObjectOp::Exists)).await, NO, "{name}");
        assert_eq!(store.run(name, of(ObjectOp::Ttl)).await, Reply::Ttl(Ttl::Absent), "{name}");
    }
    assert_eq!(world.left().await, [""; 0]);
}

/// Law 259: an object that persists does not expire.
// Promise: G15
pub async fn whole_object_persists<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let objects = one_of_each(&store).await;
    for (name, structure) in &objects {
        let of = |op| Action::Object(*structure, op);
        assert_eq!(store.run(name, of(ObjectOp::Persist)).await, NO, "{name}");
        store.run(name, of(ObjectOp::Expire(world.ttl()))).await;
        assert_eq!(store.run(name, of(ObjectOp::Persist)).await, YES, "{name}");
    }
    sleep(world.ttl() + Duration::from_millis(50)).await;
    for (name, structure) in &objects {
        assert!(store.exists(name, *structure).await, "{name}");
    }
    assert_eq!(store.run("list", TakeOp::Count(FRONT)).await, Reply::Queue { ready: 2, taken: 1 });
}

/// Law 260: an operation on data of another structure is refused and changes nothing.
// Promise: G2
pub async fn other_structures_are_refused<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    one_of_each(&store).await;
    let multimap = |values| Action::Multimap(values, MultimapOp::Insert(b("k"), b("v")));
    let take = |from| peek(from, 1);
    for (name, action) in [
        ("map", Action::from(ValueOp::Get)),
        ("list", ValueOp::SetNew(b("v"), None).into()),
        ("value", MapOp::Put(vec![(b("f"), b("v"))]).into()),
        ("list", SetOp::Len.into()),
        ("set", ListOp::Len.into()),
        ("set", SortedOp::Len.into()),
        ("sorted", take(FRONT).into()),
        ("value", multimap(Values::Set)),
        ("value", Action::Timed(Expiry::Operations, TimedOp::Entries(MapOp::Len, Life::default()))),
        ("list", BloomOp::Create(BLOOM).into()),
    ] {
        let text = format!("{name}: {action:?}");
        match store.try_run(name, action).await {
            Err(error) => assert!(error.kind() == ErrorKind::Denied && !error.maybe_applied(), "{text}: {error}"),
            // A new value is not written if the name has any data.
            Ok(reply) => assert_eq!(reply, NO, "{text}"),
        }
    }
    assert_eq!(store.run("value", ValueOp::Get).await, some("v"));
    assert_eq!(store.run("map", MapOp::Len).await, int(1));
}

/// Law 261: each operation of a batch has its own answer, and those on one object are applied in their order.
// Promise: G1
pub async fn a_batch_answers_each_operation<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let mut ops = Vec::new();
    for number in 0..200 {
        ops.push(store.op("v", ValueOp::Set(b(&number.to_string()), SetTtl::Clear)));
        ops.push(store.op("v", ValueOp::Get));
        ops.push(store.op("v", MapOp::Len)); // Refused.
        ops.push(store.op("m", MapOp::Add(b("f"), 1)));
    }
    let replies = store.structures().run(&ops).await;
    assert_eq!(replies.len(), ops.len());
    for (number, replies) in replies.chunks(4).enumerate() {
        let ok = |index: usize| replies[index].clone().expect("an answer");
        assert_eq!((ok(0), ok(1), ok(3)), (Reply::Done, some(&number.to_string()), int(number as i64 + 1)));
        assert_eq!(replies[2].as_ref().expect_err("another structure").kind(), ErrorKind::Denied);
    }
    assert!(store.structures().run(&[]).await.is_empty());
}

/// Law 262: objects are listed with their structure, their size and their ttl.
pub async fn objects_are_listed<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let expected = one_of_each(&store).await;
    store.run("map", Action::Object(Structure::Map, ObjectOp::Expire(LONG))).await;
    let mut expected: Vec<_> =
        expected.into_iter().map(|(name, structure)| (name, structure, size_of(structure))).collect();
    // Objects without content: a filter without items, and elements that are all taken or were delivered before.
    store.run("empty bloom", BloomOp::Create(BLOOM)).await;
    store.run("empty sorted", SortedOp::InsertNew(2.5, b("m"))).await;
    store.take("empty sorted", Source::Sorted(End::Front), 1, LONG).await;
    expected.extend([("empty bloom", Structure::Bloom, 1), ("empty sorted", Structure::Sorted, 0)]);
    for (name, again) in [("taken", 0), ("taken and again", 1), ("again", 2)] {
        store.push(name, ["a", "b"]).await;
        let ids = store.take(name, FRONT, 2, LONG).await.into_iter().take(again).map(|element| element.id).collect();
        if again > 0 {
            store.run(name, TakeOp::Settle { from: FRONT, ids, end: TakeEnd::Again }).await;
        }
        expected.push((name, Structure::List, 0));
    }
    let list = async |pattern: Pattern, about| {
        let (mut rows, mut cursor) = (Vec::new(), Some(Cursor::default()));
        while let Some(from) = cursor {
            let (page, next) = store.structures().objects(&pattern, &from, about).await.expect("a page");
            rows.extend(page);
            cursor = next;
        }
        rows
    };
    for about in [1, 3, 1000] {
        let rows = list(Pattern::all(), about).await;
        for (name, structure, size) in &expected {
            let key = store.key(name);
            let mut found = rows.iter().filter(|row| row.key == key);
            let row = found.next().unwrap_or_else(|| panic!("{name} is not listed: {rows:?}"));
            assert!(found.next().is_none(), "{name} is listed twice: {rows:?}");
            assert_eq!((row.structure, row.size, row.ttl.is_some()), (*structure, *size, *name == "map"), "{rows:?}");
        }
        assert_eq!(rows.len(), expected.len(), "{rows:?}");
    }
    let key = store.key("empty bloom");
    let one = list(Pattern::exactly(&key), 1000).await;
    assert_eq!(one.iter().map(|row| &row.key).collect::<Vec<_>>(), [&key]);
}

/// Law 279: an object is described with its elements that can be taken and those that are taken, and nothing changes.
pub async fn an_object_is_described<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let objects = one_of_each(&store).await;
    let describe = async |name: &str| {
        let mut found = store.structures().describe(&store.key(name)).await.expect("an answer");
        assert!(found.len() < 2, "{name}: {found:?}");
        found.pop()
    };
    assert_eq!(describe("absent").await, None);
    for (name, structure) in objects {
        let ObjectState { row, elements } = describe(name).await.expect("an object");
        assert_eq!(
            (row.key, row.structure, row.size, row.ttl),
            (store.key(name), structure, size_of(structure), None),
            "{name}"
        );
        match (name, elements) {
            ("list", Some(Elements { ready: 2, taken: 1, lease: Some(lease) })) => assert!(lease <= LONG, "{lease:?}"),
            ("journal", _) => {}
            ("set" | "sorted", Some(Elements { ready: 1, taken: 0, lease: None })) => {}
            (_, elements) => assert_eq!(elements, None, "{name}"),
        }
    }
    // All elements are taken, and their leases expire.
    store.push("taken", ["a", "b"]).await;
    store.take("taken", FRONT, 2, world.ttl()).await;
    let ObjectState { row, elements } = describe("taken").await.expect("an object");
    assert_eq!((row.structure, row.size, elements.expect("elements").taken), (Structure::List, 0, 2));
    sleep(world.ttl() + Duration::from_millis(50)).await;
    let elements = describe("taken").await.expect("an object").elements;
    assert_eq!(elements, Some(Elements { ready: 2, taken: 0, lease: None }));
    store.run("filter", BloomOp::Create(BLOOM)).await;
    assert_eq!(describe("filter").await.expect("an object").row.structure, Structure::Bloom);
}

/// Law 263: names, elements and fields may have any bytes.
pub async fn any_bytes_are_kept<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let bytes: Vec<u8> = (0..=255).collect();
    store.run("v", ValueOp::Set(bytes.clone(), SetTtl::Clear)).await;
    assert_eq!(store.run("v", ValueOp::Get).await, Reply::Bytes(Some(bytes.clone())));
    for name in ["a b", "a:{b}", "ä😀", "a*?[x]\\", "'\"--%"] {
        store.run(name, MapOp::Put(vec![(bytes.clone(), bytes.clone())])).await;
        assert_eq!(store.run(name, MapOp::Get(vec![bytes.clone()])).await, Reply::Options(vec![Some(bytes.clone())]));
        store.run(name, Action::Object(Structure::Map, ObjectOp::Delete)).await;
        let insert = MultimapOp::Insert(bytes.clone(), bytes.clone());
        store.run(name, Action::Multimap(Values::Set, insert)).await;
        let get = Action::Multimap(Values::Set, MultimapOp::Get(bytes.clone()));
        assert_eq!(store.run(name, get).await, Reply::List(vec![bytes.clone()]));
        store.run(name, Action::Object(Structure::Multimap(Values::Set), ObjectOp::Delete)).await;
        store.push(name, ["e"]).await;
        let taken = store.take(name, FRONT, 1, LONG).await;
        store.run(name, TakeOp::Settle { from: FRONT, ids: vec![taken[0].id], end: TakeEnd::Done }).await;
    }
    store.run("v", Action::Object(Structure::Value, ObjectOp::Delete)).await;
    assert_eq!(store.run("v", ValueOp::Get).await, NONE);
}
