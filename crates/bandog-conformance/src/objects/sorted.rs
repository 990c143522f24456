//! Laws of sorted sets.

use bandog_core::structures::{End, Part, Reply, Scores, SortedOp};

use super::{
    ObjectWorld,
    kit::{NO, Store, YES, all, b, int},
};

fn insert<const N: usize>(members: [(f64, &str); N]) -> SortedOp {
    SortedOp::Insert(members.map(|(score, member)| (score, b(member))).to_vec())
}

fn scored<const N: usize>(members: [(&str, f64); N]) -> Reply {
    Reply::Scored(members.map(|(member, score)| (b(member), score)).to_vec())
}

/// Law 235: members are ordered by score, and those of one score by their bytes.
pub async fn sorted_set_orders_by_score<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("z", insert([(2.5, "b"), (-1.0, "c"), (2.5, "a")])).await, int(3));
    assert_eq!(store.run("z", insert([(9.0, "c"), (0.1, "d")])).await, int(1));
    let order = scored([("d", 0.1), ("a", 2.5), ("b", 2.5), ("c", 9.0)]);
    assert_eq!(store.run("z", SortedOp::Range(End::Front, 0, -1)).await, order);
    assert_eq!(store.run("z", SortedOp::Range(End::Back, 0, 1)).await, scored([("c", 9.0), ("b", 2.5)]));
    assert_eq!(store.run("z", SortedOp::InsertNew(0.0, b("a"))).await, NO);
    assert_eq!(store.run("z", SortedOp::InsertNew(0.0, b("e"))).await, YES);
    let scores = store.run("z", SortedOp::Scores(all(["a", "x", "e"]))).await;
    assert_eq!(scores, Reply::Scores(vec![Some(2.5), None, Some(0.0)]));
    assert_eq!(store.run("z", SortedOp::Remove(all(["a", "x"]))).await, int(1));
    assert_eq!(store.run("z", SortedOp::Len).await, int(4));
    let (page, pages) = store.pages("z", Part::Scored, 3).await;
    assert_eq!((page.items, page.scores, pages), (all(["e", "d", "b", "c"]), vec![0.0, 0.1, 2.5, 9.0], 2));
}

/// Law 236: the rank of a member counts from either end.
pub async fn sorted_set_ranks_from_both_ends<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("z", insert([(1.0, "a"), (2.0, "b"), (3.0, "c")])).await;
    assert_eq!(store.run("z", SortedOp::Rank(b("a"), End::Front)).await, Reply::Index(Some(0)));
    assert_eq!(store.run("z", SortedOp::Rank(b("a"), End::Back)).await, Reply::Index(Some(2)));
    assert_eq!(store.run("z", SortedOp::Rank(b("x"), End::Back)).await, Reply::Index(None));
}

/// Law 237: ranges of scores include their ends.
pub async fn sorted_set_ranges_of_scores_include_their_ends<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("z", insert([(1.0, "a"), (2.0, "b"), (3.0, "c")])).await;
    let (middle, all_scores) = (Scores { min: 2.0, max: 3.0 }, Scores { min: f64::NEG_INFINITY, max: f64::INFINITY });
    assert_eq!(store.run("z", SortedOp::Between(middle, 9)).await, scored([("b", 2.0), ("c", 3.0)]));
    assert_eq!(store.run("z", SortedOp::Between(all_scores, 2)).await, scored([("a", 1.0), ("b", 2.0)]));
    assert_eq!(store.run("z", SortedOp::Count(middle)).await, int(2));
    assert_eq!(store.run("z", SortedOp::Count(all_scores)).await, int(3));
    assert_eq!(store.run("z", SortedOp::RemoveBetween(middle)).await, int(2));
    assert_eq!(store.run("z", SortedOp::Len).await, int(1));
}

/// Law 238: an addition to a score answers with the sum. A new member has 0.
pub async fn sorted_set_adds_to_scores<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("z", SortedOp::Add(b("a"), 0.1)).await, Reply::Float(0.1));
    assert_eq!(store.run("z", SortedOp::Add(b("a"), 0.2)).await, Reply::Float(0.1 + 0.2));
    assert_eq!(store.run("z", SortedOp::Scores(all(["a"]))).await, Reply::Scores(vec![Some(0.1 + 0.2)]));
}

/// Law 239: scores may be infinite, but not NaN.
pub async fn sorted_set_keeps_infinite_scores_and_refuses_nan<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
    store.run("z", insert([(high, "b"), (low, "a"), (5e-324, "c"), (f64::MAX, "d")])).await;
    let order = scored([("a", low), ("c", 5e-324), ("d", f64::MAX), ("b", high)]);
    assert_eq!(store.run("z", SortedOp::Range(End::Front, 0, -1)).await, order);
    store.refused("z", insert([(f64::NAN, "e")])).await;
    store.refused("z", SortedOp::Add(b("b"), low)).await;
    assert_eq!(store.run("z", SortedOp::Len).await, int(4));
}
