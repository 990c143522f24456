//! Laws of lists.

use bandog_core::{
    ClientId, OperationId,
    structures::{End, ListOp, Once, Part, Reply},
};

use super::{
    ObjectWorld,
    kit::{LONG, NO, NONE, Store, YES, all, b, int, once, some},
};

/// Law 229: elements are added one after the other at either end.
pub async fn list_pushes_at_both_ends<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let push = |end, elements| ListOp::Push { end, elements, once: None };
    assert_eq!(store.run("l", push(End::Back, all(["a", "b"]))).await, int(2));
    assert_eq!(store.run("l", push(End::Front, all(["c", "d"]))).await, int(4));
    assert_eq!(store.list("l").await, ["d", "c", "a", "b"]);
    assert_eq!(store.run("l", ListOp::Len).await, int(4));
    assert_eq!(store.run("l", ListOp::Position(b("a"))).await, Reply::Index(Some(2)));
    assert_eq!(store.run("l", ListOp::Position(b("x"))).await, Reply::Index(None));
}

/// Law 230: a negative index counts from the end, and an index that does not exist is an answer and no error.
pub async fn list_indexes_count_from_both_ends<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.push("l", ["a", "b", "c"]).await;
    for (index, expected) in [(0, some("a")), (2, some("c")), (3, NONE), (-1, some("c")), (-3, some("a")), (-4, NONE)] {
        assert_eq!(store.run("l", ListOp::Get(index)).await, expected, "{index}");
    }
    assert_eq!(store.run("l", ListOp::Set(1, b("x"))).await, some("b"));
    assert_eq!(store.run("l", ListOp::Set(-1, b("y"))).await, some("c"));
    assert_eq!(store.run("l", ListOp::Set(3, b("z"))).await, NONE);
    for (index, answer) in [(0, YES), (2, YES), (5, YES), (7, NO)] {
        assert_eq!(store.run("l", ListOp::Insert(index, b("i"))).await, answer, "{index}");
    }
    assert_eq!(store.list("l").await, ["i", "a", "i", "x", "y", "i"]);
}

/// Law 231: a removal by index or by value removes nothing else.
pub async fn list_removes_by_index_and_by_value<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.push("l", ["a", "b", "a", "c", "a"]).await;
    assert_eq!(store.run("l", ListOp::RemoveAt(1)).await, some("b"));
    assert_eq!(store.run("l", ListOp::RemoveAt(9)).await, NONE);
    assert_eq!(store.run("l", ListOp::Remove(b("a"), 2)).await, int(2));
    assert_eq!(store.list("l").await, ["c", "a"]);
    assert_eq!(store.run("l", ListOp::RemoveAt(0)).await, some("c"));
    assert_eq!(store.run("l", ListOp::Remove(b("a"), 0)).await, int(1));
    assert_eq!(world.left().await, [""; 0]);
}

/// Law 232: ranges include both ends.
pub async fn list_slices_and_trims<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.push("l", ["a", "b", "c", "d"]).await;
    for (from, to, expected) in [
        (0, 1, all(["a", "b"]).to_vec()),
        (-2, -1, all(["c", "d"]).to_vec()),
        (2, 99, all(["c", "d"]).to_vec()),
        (3, 1, vec![]),
        (9, 12, vec![]),
        (-99, 0, all(["a"]).to_vec()),
    ] {
        assert_eq!(store.run("l", ListOp::Slice(from, to)).await, Reply::List(expected), "{from} {to}");
    }
    assert_eq!(store.run("l", ListOp::Trim(1, -2)).await, Reply::Done);
    assert_eq!(store.list("l").await, ["b", "c"]);
    store.run("l", ListOp::Trim(5, 9)).await;
    assert_eq!(world.left().await, [""; 0]);
}

/// Law 233: a push with an id is applied once, however often it is sent, also if it arrives after its answer was forgotten.
// Promise: G4
pub async fn list_pushes_once_with_an_id<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let push = ListOp::Push { end: End::Back, elements: all(["a", "b"]), once: Some(once(LONG)) };
    assert_eq!(store.run("l", push.clone()).await, int(2));
    store.push("l", ["c"]).await;
    assert_eq!(Store::of(world).run("l", push).await, int(2), "the answer is remembered");
    assert_eq!(store.list("l").await, ["a", "b", "c"]);
    let client = ClientId::random();
    let push = |number, forget_before| {
        let once = Once { id: OperationId { client, number }, remember: LONG, forget_before };
        ListOp::Push { end: End::Back, elements: all(["x"]), once: Some(once) }
    };
    assert_eq!(store.run("m", push(1, 1)).await, int(1));
    assert_eq!(store.run("m", push(2, 2)).await, int(2));
    assert!(store.try_run("m", push(1, 1)).await.is_err());
    assert_eq!(store.list("m").await, ["x", "x"]);
    assert_eq!(store.run("m", push(2, 2)).await, int(2));
}

/// Law 234: the pages of a list are its elements in order.
// Promise: G14
pub async fn list_pages_contain_each_element<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let elements: Vec<_> = (0..250).map(|number| b(&number.to_string())).collect();
    store.run("l", ListOp::Push { end: End::Back, elements: elements.clone(), once: None }).await;
    let (page, pages) = store.pages("l", Part::Elements, 100).await;
    assert_eq!((page.items, pages), (elements, 3));
}
