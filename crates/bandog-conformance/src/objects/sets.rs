//! Laws of sets.

use std::collections::BTreeSet;

use bandog_core::structures::{Bytes, Combine, Part, Reply, SetOp};

use super::{
    ObjectWorld,
    kit::{NO, Store, YES, all, b, int},
};

/// The members of an answer, in order.
fn members(reply: Reply) -> Vec<Bytes> {
    let mut members = reply.list().expect("members");
    members.sort();
    members
}

/// Law 224: a member exists once.
pub async fn set_inserts_and_removes<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("s", SetOp::Insert(all(["a", "b", "a", ""]))).await, int(3));
    assert_eq!(store.run("s", SetOp::Insert(all(["a"]))).await, int(0));
    let contains = store.run("s", SetOp::Contains(all(["b", "c", ""]))).await;
    assert_eq!(contains, Reply::Flags(vec![true, false, true]));
    assert_eq!(store.run("s", SetOp::Remove(all(["a", "c"]))).await, int(1));
    assert_eq!(store.run("s", SetOp::Len).await, int(2));
}

/// Law 225: random members are different ones, and stay.
pub async fn set_random_members_are_different<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("s", SetOp::Insert(all(["a", "b", "c"]))).await;
    assert_eq!(members(store.run("s", SetOp::Random(9)).await), all(["a", "b", "c"]));
    let mut seen = BTreeSet::new();
    while seen.len() < 3 {
        let two = members(store.run("s", SetOp::Random(2)).await);
        assert!(two.len() == 2 && two[0] != two[1], "{two:?}");
        seen.extend(two);
    }
    assert_eq!(store.run("s", SetOp::Len).await, int(3));
    assert_eq!(store.run("absent", SetOp::Random(2)).await, Reply::List(all([])));
}

/// Law 226: sets are combined without a change.
pub async fn set_combines_with_others<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("s", SetOp::Insert(all(["a", "b", "c"]))).await;
    store.run("t", SetOp::Insert(all(["b", "c", "d"]))).await;
    store.run("u", SetOp::Insert(all(["c"]))).await;
    let others = vec![store.key("t"), store.key("u")];
    for (how, expected) in [
        (Combine::Union, all(["a", "b", "c", "d"])),
        (Combine::Intersection, all(["c"])),
        (Combine::Difference, all(["a"])),
    ] {
        assert_eq!(members(store.run("s", SetOp::Combine(how, others.clone())).await), expected, "{how:?}");
    }
    let absent = SetOp::Combine(Combine::Intersection, vec![store.key("absent")]);
    assert_eq!(store.run("s", absent).await, Reply::List(all([])));
    assert_eq!(store.run("s", SetOp::Len).await, int(3));
}

/// Law 227: a member moves in one step.
pub async fn set_moves_members<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("s", SetOp::Insert(all(["a"]))).await;
    let to_t = |member| SetOp::Move(b(member), store.key("t"));
    assert_eq!(store.run("s", to_t("b")).await, NO);
    assert_eq!(store.run("s", to_t("a")).await, YES);
    assert_eq!(store.run("s", to_t("a")).await, NO);
    assert_eq!(store.run("t", SetOp::Contains(all(["a"]))).await, Reply::Flags(vec![true]));
    assert_eq!(store.run("s", SetOp::Len).await, int(0));
}

/// Law 228: the pages of a set contain each member that stays.
// Promise: G14
pub async fn set_pages_contain_each_member<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let expected: BTreeSet<Bytes> = (0..1_500).map(|number| b(&format!("member {number}"))).collect();
    store.run("s", SetOp::Insert(expected.iter().cloned().collect())).await;
    let (page, pages) = store.pages("s", Part::Members, 100).await;
    assert_eq!(page.items.into_iter().collect::<BTreeSet<_>>(), expected);
    assert!(pages > 1, "one page has all members");
}
