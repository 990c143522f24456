//! Laws of live objects.

use bandog_core::{
    ErrorKind,
    structures::{
        Action, Bytes, LiveChange, LiveIndex, LiveIndexKind, LiveOp, MapOp, MultimapOp, Part, Reply, Scores, SortedOp,
        Structure, ValueOp, Values,
    },
};

use super::{
    ObjectWorld,
    kit::{NO, NONE, Store, YES, all, b, some},
};

const AGES: &str = "ages";
const NAMES: &str = "names";

/// The index of the field `age`, with a number that the change writes.
fn ages<W: ObjectWorld>(store: &Store<'_, W>, age: Option<f64>) -> LiveIndex {
    LiveIndex { key: store.key(AGES), field: b("age"), kind: LiveIndexKind::Numbers(age) }
}

/// The index of the field `name`.
fn names<W: ObjectWorld>(store: &Store<'_, W>) -> LiveIndex {
    LiveIndex { key: store.key(NAMES), field: b("name"), kind: LiveIndexKind::Values }
}

fn op(member: &str, change: LiveChange, indexes: impl IntoIterator<Item = LiveIndex>) -> LiveOp {
    LiveOp { member: b(member), change, indexes: indexes.into_iter().collect() }
}

fn fields<const N: usize>(fields: [(&str, Option<&str>); N]) -> Vec<(Bytes, Option<Bytes>)> {
    fields.map(|(field, bytes)| (b(field), bytes.map(b))).to_vec()
}

fn write<const N: usize, const M: usize>(
    expected: [(&str, Option<&str>); N],
    written: [(&str, Option<&str>); M],
) -> LiveChange {
    LiveChange::Write { expected: fields(expected), fields: fields(written) }
}

/// Inserts the object `id` with this name and this age.
async fn insert<W: ObjectWorld>(store: &Store<'_, W>, id: &str, name: &str, age: u32) -> Reply {
    let values = vec![(b("name"), b(name)), (b("age"), b(&age.to_string()))];
    store.run(id, op(id, LiveChange::Insert(values), [names(store), ages(store, Some(age.into()))])).await
}

async fn with_name<W: ObjectWorld>(store: &Store<'_, W>, name: &str) -> Vec<Bytes> {
    let get = Action::Multimap(Values::Set, MultimapOp::Get(b(name)));
    let mut members = store.run(NAMES, get).await.list().expect("members");
    members.sort();
    members
}

async fn with_age<W: ObjectWorld>(store: &Store<'_, W>, min: f64, max: f64) -> Vec<Bytes> {
    let members = store.run(AGES, SortedOp::Between(Scores { min, max }, 100)).await.scored().expect("members");
    members.into_iter().map(|(member, _)| member).collect()
}

async fn get<W: ObjectWorld>(store: &Store<'_, W>, id: &str) -> Reply {
    store.run(id, MapOp::Get(all(["name", "age"]))).await
}

fn options(name: Option<&str>, age: Option<&str>) -> Reply {
    Reply::Options(vec![name.map(b), age.map(b)])
}

/// Law 370: a live object is inserted once, with its indexes.
pub async fn live_object_is_inserted_once<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(insert(&store, "1", "ann", 30).await, YES);
    assert_eq!(insert(&store, "1", "bob", 40).await, NO);
    assert_eq!(get(&store, "1").await, options(Some("ann"), Some("30")));
    assert_eq!((with_name(&store, "ann").await, with_name(&store, "bob").await), (all(["1"]), vec![]));
    assert_eq!((with_age(&store, 30.0, 30.0).await, with_age(&store, 40.0, 40.0).await), (all(["1"]), vec![]));
}

/// Law 371: a write that expects other fields changes neither the object nor an index.
// Promise: G26
pub async fn live_object_write_compares_fields<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let rename = |expected: &str| {
        let change = write([("name", Some(expected)), ("age", Some("30")), ("nick", None)], [("name", Some("eve"))]);
        op("1", change, [names(&store)])
    };
    assert_eq!(store.run("1", rename("ann")).await, NO);
    assert!(!store.exists("1", Structure::Map).await && with_name(&store, "eve").await.is_empty());
    insert(&store, "1", "ann", 30).await;
    assert_eq!(store.run("1", rename("bob")).await, NO);
    assert_eq!((with_name(&store, "eve").await, with_name(&store, "ann").await), (vec![], all(["1"])));
    assert_eq!(store.run("1", rename("ann")).await, YES);
    assert_eq!((with_name(&store, "eve").await, with_name(&store, "ann").await), (all(["1"]), vec![]));
    assert_eq!(get(&store, "1").await, options(Some("eve"), Some("30")));
    store.run("1", MapOp::Put(vec![(b("nick"), b("e"))])).await;
    assert_eq!(store.run("1", rename("eve")).await, NO, "a field that was absent is expected to be absent");
}

/// Law 372: an index has an object under its present value only, and not at all if the field is absent.
// Promise: G26
pub async fn live_object_index_has_the_present_value<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    insert(&store, "1", "ann", 30).await;
    insert(&store, "2", "ann", 20).await;
    assert_eq!((with_name(&store, "ann").await, with_age(&store, 0.0, 99.0).await), (all(["1", "2"]), all(["2", "1"])));
    let set = |change, index| op("1", change, [index]);
    assert_eq!(store.run("1", set(write([], [("age", Some("10"))]), ages(&store, Some(10.0)))).await, YES);
    assert_eq!(with_age(&store, 0.0, 99.0).await, all(["1", "2"]));
    assert_eq!(store.run("1", set(write([], [("age", None)]), ages(&store, None))).await, YES);
    assert_eq!(store.run("1", set(write([], [("name", None)]), names(&store))).await, YES);
    assert_eq!((with_name(&store, "ann").await, with_age(&store, 0.0, 99.0).await), (all(["2"]), all(["2"])));
    assert!(!store.exists("1", Structure::Map).await, "an object without fields does not exist");
    // A field that gets the bytes that it has.
    assert_eq!(store.run("2", op("2", write([], [("name", Some("ann"))]), [names(&store)])).await, YES);
    assert_eq!(with_name(&store, "ann").await, all(["2"]));
    let absent = op("3", write([], [("name", Some("eve"))]), [names(&store)]);
    assert_eq!(store.run("3", absent).await, NO);
    assert_eq!(with_name(&store, "eve").await, Vec::<Bytes>::new());
}

/// Law 373: an addition changes a field and its index, and is refused if the sum is not in its range.
// Promise: G26
pub async fn live_object_adds_in_a_range<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let add = |by, min, max| op("1", LiveChange::Add { field: b("age"), by, min, max }, [ages(&store, None)]);
    assert_eq!(store.run("1", add(1, i64::MIN, i64::MAX)).await, NONE);
    assert!(!store.exists("1", Structure::Map).await && !store.exists(AGES, Structure::Sorted).await);
    insert(&store, "1", "ann", 30).await;
    assert_eq!(store.run("1", add(5, 0, 255)).await, some("35"));
    assert_eq!(store.refused("1", add(221, 0, 255)).await, ErrorKind::Denied);
    assert_eq!(store.refused("1", add(-36, 0, i64::MAX)).await, ErrorKind::Denied);
    assert_eq!(
        (get(&store, "1").await, with_age(&store, 35.0, 35.0).await),
        (options(Some("ann"), Some("35")), all(["1"]))
    );
    assert_eq!(store.run("1", add(220, 0, 255)).await, some("255"));
    assert_eq!(with_age(&store, 255.0, 255.0).await, all(["1"]));
    let exact = i64::MAX - 255;
    assert_eq!(store.run("1", add(exact, i64::MIN, i64::MAX)).await, some("9223372036854775807"));
    assert_eq!(store.refused("1", add(1, i64::MIN, i64::MAX)).await, ErrorKind::Denied);
    store.run("1", MapOp::Remove(all(["age"]))).await;
    assert_eq!(store.refused("1", add(-1, 0, 255)).await, ErrorKind::Denied);
    assert_eq!(get(&store, "1").await, options(Some("ann"), None));
    assert_eq!(store.run("1", add(7, 0, 255)).await, some("7"), "an absent field is 0");
    store.run("1", MapOp::Put(vec![(b("age"), b("old"))])).await;
    assert_eq!(store.refused("1", add(1, 0, 255)).await, ErrorKind::Denied);
}

/// Law 374: a deleted object is in no index, and leaves nothing behind.
pub async fn live_object_leaves_nothing_behind<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    insert(&store, "1", "ann", 30).await;
    insert(&store, "2", "ann", 20).await;
    let delete = |id: &str| op(id, LiveChange::Delete, [names(&store), ages(&store, None)]);
    assert_eq!(store.run("1", delete("1")).await, YES);
    assert_eq!(store.run("1", delete("1")).await, NO);
    assert_eq!((with_name(&store, "ann").await, with_age(&store, 0.0, 99.0).await), (all(["2"]), all(["2"])));
    assert_eq!(store.run("2", delete("2")).await, YES);
    assert_eq!(world.left().await, Vec::<String>::new());
}

/// Law 375: a name with other data is refused, and nothing is changed.
pub async fn live_object_refuses_other_structures<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    insert(&store, "1", "ann", 30).await;
    store.run("other", ValueOp::SetNew(b("v"), None)).await;
    let elsewhere = |kind, field: &str| LiveIndex { key: store.key("other"), field: b(field), kind };
    for index in [elsewhere(LiveIndexKind::Numbers(Some(1.0)), "age"), elsewhere(LiveIndexKind::Values, "name")] {
        let change = write([], [("age", Some("1")), ("name", Some("eve"))]);
        assert_eq!(store.refused("1", op("1", change, [names(&store), index])).await, ErrorKind::Denied);
    }
    let change = LiveChange::Insert(vec![(b("name"), b("eve"))]);
    assert_eq!(store.refused("other", op("1", change, [names(&store)])).await, ErrorKind::Denied);
    let nan = op("1", write([], [("age", Some("NaN"))]), [ages(&store, Some(f64::NAN))]);
    assert_eq!(store.refused("1", nan).await, ErrorKind::Misused);
    assert_eq!(get(&store, "1").await, options(Some("ann"), Some("30")));
    assert_eq!((with_name(&store, "ann").await, with_name(&store, "eve").await), (all(["1"]), vec![]));
}

/// Law 376: the pages of a class have the names of all its objects, and no other name.
pub async fn live_object_pages_contain_each_object<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let key = |id: &str| store.key(&format!("live:{id}:[User]"));
    for number in 0..30_u32 {
        let change = LiveChange::Insert(vec![(b("name"), b("ann"))]);
        let live = LiveOp { member: b("m"), change, indexes: Vec::new() };
        let name = format!("live:{number:04x}:[User]");
        assert_eq!(store.run(&name, live).await, YES);
    }
    for other in ["live:0x:[User]", "live:00:[User]s", "live:00:U", "a live:00:[User]"] {
        store.run(other, MapOp::Put(vec![(b("a"), b("1"))])).await;
    }
    let (page, pages) = store.pages("live:*:[User]", Part::Live, 10).await;
    let mut names = page.items;
    names.sort();
    names.dedup();
    let expected: Vec<_> =
        (0..30_u32).map(|number| key(&format!("{number:04x}")).as_str().as_bytes().to_vec()).collect();
    assert_eq!(names, expected);
    assert!(pages > 1);
}
