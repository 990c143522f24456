//! Laws of maps and multimaps.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog_core::{
    ErrorKind,
    structures::{Action, MapChange, MapChanges, MapOp, MultimapOp, ObjectOp, Part, Reply, Structure, Values},
};
use tokio::time::sleep;

use super::{
    ObjectWorld,
    kit::{LONG, NO, NONE, Store, YES, all, b, int, some},
};
use crate::kit::until;

fn put<const N: usize>(entries: [(&str, &str); N]) -> MapOp {
    MapOp::Put(entries.map(|(field, value)| (b(field), b(value))).to_vec())
}

fn get(fields: &[&str]) -> MapOp {
    MapOp::Get(fields.iter().map(|field| b(field)).collect())
}

/// Law 214: fields are read in the order in which they are named.
pub async fn map_writes_and_reads_fields<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("m", put([("a", "1"), ("b", "2"), ("", "")])).await, Reply::Done);
    let answer = Reply::Options(vec![Some(b("2")), None, Some(b("1")), Some(b(""))]);
    assert_eq!(store.run("m", get(&["b", "c", "a", ""])).await, answer);
    assert_eq!(store.run("m", MapOp::Len).await, int(3));
    assert_eq!(store.run("m", MapOp::Remove(all(["a", "c"]))).await, int(1));
    assert_eq!(store.run("m", MapOp::Len).await, int(2));
}

/// Law 215: an insertion answers with the former value, and a removal with the value.
pub async fn map_insert_answers_with_the_former_value<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("m", MapOp::Insert(b("a"), b("1"))).await, NONE);
    assert_eq!(store.run("m", MapOp::Insert(b("a"), b("2"))).await, some("1"));
    assert_eq!(store.run("m", MapOp::InsertNew(b("a"), b("3"))).await, NO);
    assert_eq!(store.run("m", MapOp::InsertNew(b("b"), b("3"))).await, YES);
    assert_eq!(store.run("m", MapOp::Take(b("a"))).await, some("2"));
    assert_eq!(store.run("m", MapOp::Take(b("a"))).await, NONE);
}

/// Law 216: a swap of a field compares bytes, and "none" is a value to compare with.
// Promise: G16
pub async fn map_swap_compares_bytes<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for (from, to, answer) in [
        (Some("1"), Some("2"), NO),
        (None, Some("1"), YES),
        (None, Some("2"), NO),
        (Some("1"), Some("2"), YES),
        (Some("1"), None, NO),
        (Some("2"), None, YES),
        (None, None, YES),
    ] {
        let swap = MapOp::Swap { field: b("a"), from: from.map(b), to: to.map(b) };
        assert_eq!(store.run("m", swap).await, answer, "{from:?} {to:?}");
    }
    assert!(!store.exists("m", Structure::Map).await);
}

/// Law 217: numbers in a map are texts.
pub async fn map_adds<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("m", MapOp::Add(b("a"), 5)).await, int(5));
    assert_eq!(store.run("m", MapOp::Add(b("a"), -7)).await, int(-2));
    assert_eq!(store.run("m", MapOp::AddFloat(b("f"), 0.5)).await, Reply::Float(0.5));
    assert_eq!(store.run("m", get(&["a", "f"])).await, Reply::Options(vec![Some(b("-2")), Some(b("0.5"))]));
    store.run("m", put([("t", "text")])).await;
    assert_eq!(store.refused("m", MapOp::Add(b("t"), 1)).await, ErrorKind::Denied);
    assert_eq!(store.run("m", get(&["t"])).await, Reply::Options(vec![Some(b("text"))]));
}

/// Law 321: a tracked map reports first that changes are reported from now on, and then each write, by whichever operation.
// Promise: G25
pub async fn map_reports_its_changes<W: ObjectWorld>(world: &W) {
    let (store, other) = (Store::of(world), Store::of(world));
    let changes = Arc::new(Mutex::new(Vec::new()));
    let seen = changes.clone();
    let report = MapChanges::new(move |change| seen.lock().expect("changes").push(change));
    let subscription = other.structures().track_map(&other.key("m"), report).await.expect("a subscription");
    let count = || changes.lock().expect("changes").len();
    until(|| count() > 0).await;
    assert!(matches!(changes.lock().expect("changes")[0], MapChange::Any));
    let entry = || vec![(b("a"), b("1"))];
    for action in [
        Action::Map(MapOp::Put(entry())),
        Action::Copied(MapOp::Put(entry())),
        Action::Copied(MapOp::Remove(all(["a"]))),
        Action::Map(MapOp::InsertNew(b("a"), b("1"))),
        Action::Object(Structure::Map, ObjectOp::Delete),
        Action::Copied(MapOp::Add(b("a"), 1)),
    ] {
        let (before, text) = (count(), format!("{action:?}"));
        store.run("m", action).await;
        until(|| count() > before).await;
        let is_reported = |change: &MapChange| matches!(change, MapChange::Any | MapChange::Written);
        until(|| changes.lock().expect("changes")[before..].iter().any(is_reported)).await;
        println!("{text} is reported");
    }
    drop(subscription);
}

/// Law 218: the pages of a map contain each entry that stays.
// Promise: G14
pub async fn map_pages_contain_each_entry<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let entries: Vec<_> = (0..1_500).map(|number| (b(&format!("field {number}")), b(&number.to_string()))).collect();
    store.run("m", MapOp::Put(entries.clone())).await;
    let (page, pages) = store.pages("m", Part::Entries, 100).await;
    let read: BTreeSet<_> = page.items.chunks(2).map(|entry| (entry[0].clone(), entry[1].clone())).collect();
    assert_eq!(read, entries.iter().cloned().collect());
    assert!(pages > 1, "one page has all entries");
    let (page, _) = store.pages("m", Part::Fields(None), 100).await;
    let fields: BTreeSet<_> = entries.into_iter().map(|(field, _)| field).collect();
    assert_eq!(page.items.into_iter().collect::<BTreeSet<_>>(), fields);
    assert_eq!(store.pages("absent", Part::Entries, 100).await.0.items, all([]));
}

/// Law 219: a map without fields does not exist.
pub async fn map_without_fields_does_not_exist<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("m", put([("a", "1")])).await;
    assert!(store.exists("m", Structure::Map).await);
    store.run("m", MapOp::Remove(all(["a"]))).await;
    assert!(!store.exists("m", Structure::Map).await);
    assert_eq!(world.left().await, [""; 0]);
}

fn insert(values: Values, key: &str, value: &str) -> Action {
    Action::Multimap(values, MultimapOp::Insert(b(key), b(value)))
}

/// Law 220: with values as sets, each value of a key exists once.
pub async fn multimap_of_sets_keeps_each_value_once<W: ObjectWorld>(world: &W) {
    let (store, of) = (Store::of(world), |op| Action::Multimap(Values::Set, op));
    assert_eq!(store.run("m", insert(Values::Set, "k", "a")).await, YES);
    assert_eq!(store.run("m", insert(Values::Set, "k", "a")).await, NO);
    assert_eq!(store.run("m", insert(Values::Set, "k", "b")).await, YES);
    assert_eq!(store.run("m", insert(Values::Set, "l", "a")).await, YES);
    assert_eq!(store.run("m", of(MultimapOp::Len)).await, int(3));
    assert_eq!(store.run("m", of(MultimapOp::KeysLen)).await, int(2));
    let mut values = store.run("m", of(MultimapOp::Get(b("k")))).await.list().expect("values");
    values.sort();
    assert_eq!(values, all(["a", "b"]));
    assert_eq!(store.run("m", of(MultimapOp::Contains(b("k"), b("b")))).await, YES);
    assert_eq!(store.run("m", of(MultimapOp::Contains(b("l"), b("b")))).await, NO);
    let (page, _) = store.pages("m", Part::Fields(Some(Values::Set)), 10).await;
    assert_eq!(page.items.into_iter().collect::<BTreeSet<_>>(), all(["k", "l"]).into_iter().collect());
}

/// Law 221: with values as lists, values keep their order and may be equal.
pub async fn multimap_of_lists_keeps_the_order<W: ObjectWorld>(world: &W) {
    let (store, of) = (Store::of(world), |op| Action::Multimap(Values::List, op));
    for value in ["b", "a", "b"] {
        assert_eq!(store.run("m", insert(Values::List, "k", value)).await, YES);
    }
    assert_eq!(store.run("m", of(MultimapOp::Get(b("k")))).await, Reply::List(all(["b", "a", "b"])));
    assert_eq!(store.run("m", of(MultimapOp::Remove(b("k"), b("b")))).await, YES);
    assert_eq!(store.run("m", of(MultimapOp::Get(b("k")))).await, Reply::List(all(["a", "b"])));
    assert_eq!(store.run("m", of(MultimapOp::Contains(b("k"), b("b")))).await, YES);
    assert_eq!(store.run("m", of(MultimapOp::Contains(b("k"), b("c")))).await, NO);
    assert_eq!(store.run("m", of(MultimapOp::RemoveAll(b("k")))).await, Reply::List(all(["a", "b"])));
    assert_eq!(store.run("m", of(MultimapOp::Len)).await, int(0));
}

/// Law 222: a key of a multimap expires with its values, and the others stay.
pub async fn multimap_keys_expire<W: ObjectWorld>(world: &W) {
    for values in [Values::Set, Values::List] {
        let (store, of, name) = (Store::of(world), |op| Action::Multimap(values, op), format!("m {values:?}"));
        store.run(&name, insert(values, "k", "a")).await;
        store.run(&name, insert(values, "l", "a")).await;
        assert_eq!(store.run(&name, of(MultimapOp::ExpireKey(b("none"), LONG))).await, NO);
        assert_eq!(store.run(&name, of(MultimapOp::ExpireKey(b("l"), LONG))).await, YES);
        assert_eq!(store.run(&name, of(MultimapOp::ExpireKey(b("k"), world.ttl()))).await, YES);
        assert_eq!(store.run(&name, of(MultimapOp::Get(b("k")))).await, Reply::List(all(["a"])));
        sleep(world.ttl() + Duration::from_millis(50)).await;
        assert_eq!(store.run(&name, of(MultimapOp::Get(b("k")))).await, Reply::List(all([])));
        assert_eq!(store.run(&name, of(MultimapOp::Contains(b("k"), b("a")))).await, NO);
        assert_eq!(store.run(&name, of(MultimapOp::Get(b("l")))).await, Reply::List(all(["a"])));
        // A key that expired is new.
        assert_eq!(store.run(&name, insert(values, "k", "b")).await, YES);
        assert_eq!(store.run(&name, of(MultimapOp::Get(b("k")))).await, Reply::List(all(["b"])));
    }
}

/// Law 265: keys that have expired leave nothing behind, also if nobody uses them again.
pub async fn multimap_removes_expired_keys<W: ObjectWorld>(world: &W) {
    for values in [Values::Set, Values::List] {
        let (store, of) = (Store::of(world), |op| Action::Multimap(values, op));
        for key in ["a", "b", "c"] {
            store.run("m", insert(values, key, "v")).await;
            store.run("m", of(MultimapOp::ExpireKey(b(key), world.ttl()))).await;
        }
        sleep(world.ttl() + Duration::from_millis(50)).await;
        assert_eq!(store.run("m", of(MultimapOp::KeysLen)).await, int(0));
        store.run("m", insert(values, "d", "v")).await;
        store.run("m", of(MultimapOp::RemoveAll(b("d")))).await;
        assert_eq!(world.left().await, [""; 0], "{values:?}");
    }
}

/// Law 223: the last value of a key takes the key along, and the last key takes the multimap along.
pub async fn multimap_leaves_nothing_behind<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for values in [Values::Set, Values::List] {
        let of = |op| Action::Multimap(values, op);
        store.run("m", insert(values, "k", "a")).await;
        store.run("m", of(MultimapOp::ExpireKey(b("k"), LONG))).await;
        assert_eq!(store.run("m", of(MultimapOp::Remove(b("k"), b("none")))).await, NO);
        assert_eq!(store.run("m", of(MultimapOp::Remove(b("k"), b("a")))).await, YES);
        assert_eq!(store.run("m", of(MultimapOp::KeysLen)).await, int(0));
        assert_eq!(world.left().await, [""; 0]);
        store.run("m", insert(values, "k", "a")).await;
        store.run("m", of(MultimapOp::RemoveAll(b("k")))).await;
        assert_eq!(world.left().await, [""; 0]);
    }
}

/// Law 266: a key that is made after the multimap has got a ttl expires with it, and nothing of it comes back.
pub async fn multimap_keys_made_later_expire_with_it<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for values in [Values::Set, Values::List] {
        let of = |op| Action::Multimap(values, op);
        store.run("m", insert(values, "k", "old")).await;
        store.run("m", Action::Object(Structure::Multimap(values), ObjectOp::Expire(world.ttl()))).await;
        store.run("m", insert(values, "l", "old")).await;
        store.run("m", of(MultimapOp::ExpireKey(b("l"), world.ttl() * 2))).await;
        sleep(world.ttl() + Duration::from_millis(50)).await;
        assert_eq!(world.left().await, [""; 0], "{values:?}");
        store.run("m", insert(values, "l", "new")).await;
        assert_eq!(store.run("m", of(MultimapOp::Get(b("l")))).await, Reply::List(all(["new"])));
        sleep(world.ttl() + Duration::from_millis(50)).await;
        assert_eq!(store.run("m", of(MultimapOp::Get(b("l")))).await, Reply::List(all(["new"])));
        store.run("m", of(MultimapOp::RemoveAll(b("l")))).await;
    }
}
