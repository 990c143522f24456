//! Laws of taken elements.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use bandog_core::{
    Notifier,
    structures::{End, JournalOp, Keep, ListOp, Op, Reply, SetOp, SortedOp, Source, TakeEnd, TakeOp, TakenElement},
};
use tokio::time::sleep;

use super::{
    ObjectWorld,
    kit::{FRONT, LONG, Store, all, b, int, once, peek},
};
use crate::kit::until;

const BACK: Source = Source::List(End::Back);

pub(super) fn settle(from: Source, elements: &[TakenElement], end: TakeEnd) -> TakeOp {
    TakeOp::Settle { from, ids: elements.iter().map(|element| element.id).collect(), end }
}

pub(super) fn texts(elements: &[TakenElement]) -> Vec<String> {
    elements.iter().map(|element| String::from_utf8(element.bytes.clone()).expect("a text")).collect()
}

pub(super) fn queue(ready: u64, taken: u64) -> Reply {
    Reply::Queue { ready, taken }
}

/// Law 246: a taken element is in no other hands until it is done, and then it is gone.
// Promise: G6
pub async fn take_leaves_the_element_until_it_is_done<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert!(store.take("q", FRONT, 1, LONG).await.is_empty());
    store.push("q", ["a", "b", "c"]).await;
    let first = store.take("q", FRONT, 1, LONG).await;
    let last = store.take("q", BACK, 1, LONG).await;
    assert_eq!((texts(&first), texts(&last)), (vec!["a".to_owned()], vec!["c".to_owned()]));
    assert!(first[0].id < last[0].id && first[0].delivery == 1);
    assert_eq!(store.run("q", TakeOp::Count(FRONT)).await, queue(1, 2));
    assert_eq!(store.run("q", peek(FRONT, 9)).await, Reply::List(all(["b"])));
    assert_eq!(store.run("q", settle(FRONT, &first, TakeEnd::Done)).await, Reply::Flags(vec![true]));
    assert_eq!(store.run("q", settle(FRONT, &first, TakeEnd::Done)).await, Reply::Flags(vec![false]));
    assert_eq!(store.run("q", TakeOp::Count(FRONT)).await, queue(1, 1));
}

/// Law 247: a released element comes next, with the number of its deliveries.
// Promise: G10
pub async fn take_again_counts_deliveries<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.push("q", ["a", "b"]).await;
    for delivery in 1..=3 {
        let taken = store.take("q", FRONT, 1, LONG).await;
        assert_eq!((texts(&taken), taken[0].delivery), (vec!["a".to_owned()], delivery));
        assert_eq!(store.run("q", settle(FRONT, &taken, TakeEnd::Again)).await, Reply::Flags(vec![true]));
    }
    assert_eq!(store.run("q", TakeOp::Count(FRONT)).await, queue(2, 0));
    assert_eq!(store.run("q", peek(FRONT, 9)).await, Reply::List(all(["a", "b"])));
}

/// Law 248: elements that nobody received return to their end in their order.
// Promise: G10
pub async fn take_undelivered_keeps_the_order<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for (from, expected) in [(FRONT, ["a", "b"]), (BACK, ["d", "c"])] {
        store.push("q", ["a", "b", "c", "d"]).await;
        let taken = store.take("q", from.clone(), 2, LONG).await;
        assert_eq!(texts(&taken), expected);
        store.run("q", settle(from.clone(), &taken, TakeEnd::Undelivered)).await;
        assert_eq!(store.list("q").await, ["a", "b", "c", "d"]);
        assert_eq!(store.take("q", from, 1, LONG).await[0].delivery, 1);
        store.run("q", ListOp::Trim(9, 9)).await;
    }
}

/// Law 249: an element whose lease is over is available again, and its former taker has lost it.
// Promise: G7, G8, G9
pub async fn take_expires<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.push("q", ["a", "b"]).await;
    let lost = store.take("q", FRONT, 1, world.ttl()).await;
    sleep(world.ttl() + Duration::from_millis(50)).await;
    assert_eq!(store.run("q", settle(FRONT, &lost, TakeEnd::Done)).await, Reply::Flags(vec![false]));
    let extend = TakeOp::Extend { from: FRONT, ids: vec![lost[0].id], lease: LONG };
    assert_eq!(store.run("q", extend).await, Reply::Flags(vec![false]));
    let next = store.take("q", FRONT, 9, LONG).await;
    assert_eq!(texts(&next), ["a", "b"]);
    assert_eq!((next[0].delivery, next[1].delivery), (2, 1));
    assert!(next[0].id > lost[0].id);
}

/// Law 250: a take that is sent again has the same answer.
// Promise: G5
pub async fn take_is_exact<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.push("q", ["a", "b"]).await;
    let take =
        TakeOp::Take { from: FRONT, at_most: 1, bytes: 1 << 20, lease: LONG, once: once(LONG), done: Vec::new() };
    let first = store.run("q", take.clone()).await;
    assert_eq!(Store::of(world).run("q", take).await, first);
    assert_eq!(texts(&first.taken().expect("elements").0), ["a"]);
    assert_eq!(store.run("q", TakeOp::Count(FRONT)).await, queue(1, 1));
}

/// Law 384: a take gets no more bytes than it asks for, beside its first element.
pub async fn take_is_limited_in_bytes<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for length in [1, 1_000, 300_000] {
        let long = "e".repeat(length);
        store.push("q", [&*long, &long, "", &long, ""]).await;
        let take = async |bytes| {
            let take = TakeOp::Take { from: FRONT, at_most: 9, bytes, lease: LONG, once: once(LONG), done: Vec::new() };
            let taken = store.run("q", take).await.taken().expect("elements").0;
            store.run("q", settle(FRONT, &taken, TakeEnd::Done)).await;
            taken.iter().map(|element| element.bytes.len()).collect::<Vec<_>>()
        };
        assert_eq!(take(u32::try_from(length * 2).expect("small")).await, [length, length, 0]);
        assert_eq!(take(0).await, [length]);
        assert_eq!(take(0).await, [0]);
        assert_eq!(take(9).await, [0; 0]);
    }
}

/// Law 385: a repeated take may ask for less. Its other elements go back to their places, and were not delivered.
pub async fn take_again_gives_back_what_it_does_not_get<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    for group in [false, true] {
        let from = if group { Source::Group("g".into()) } else { FRONT };
        let name = if group { "j" } else { "q" };
        let elements = all(["aaaa", "bbbb", "cccc", "dddd"]);
        match group {
            true => store.run(name, JournalOp::Append { entries: elements, keep: Keep::All, once: None }).await,
            false => store.run(name, ListOp::Push { end: End::Back, elements, once: None }).await,
        };
        let id = once(LONG);
        let take = async |at_most, bytes| {
            let (from, once, done) = (from.clone(), id.clone(), Vec::new());
            let take = TakeOp::Take { from, at_most, bytes, lease: LONG, once, done };
            store.run(name, take).await.taken().expect("elements").0
        };
        let first = take(3, 99).await;
        assert_eq!(texts(&first), ["aaaa", "bbbb", "cccc"]);
        assert_eq!(take(3, 8).await, first[..2]);
        assert_eq!(take(3, 99).await, first[..2], "{name}: what was given back is not taken again");
        assert_eq!(take(1, 99).await, first[..1]);
        assert!(take(0, 99).await.is_empty());
        assert!(take(3, 99).await.is_empty());
        let rest = store.take(name, from, 9, LONG).await;
        assert_eq!(texts(&rest), ["aaaa", "bbbb", "cccc", "dddd"]);
        assert!(rest.iter().all(|element| element.delivery == 1), "{rest:?}");
    }
}

/// Law 251: a take confirms elements of earlier ones.
// Promise: G5
pub async fn take_confirms_earlier_ones<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.push("q", ["a", "b"]).await;
    let first = store.take("q", FRONT, 1, LONG).await;
    let done = vec![first[0].id];
    let take = TakeOp::Take { from: FRONT, at_most: 1, bytes: 1 << 20, lease: LONG, once: once(LONG), done };
    assert_eq!(texts(&store.run("q", take).await.taken().expect("elements").0), ["b"]);
    assert_eq!(store.run("q", TakeOp::Count(FRONT)).await, queue(0, 1));
}

/// Law 252: a lease that is extended does not end, and is never shortened.
// Promise: G7
pub async fn take_lease_is_extended<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.push("q", ["a"]).await;
    let taken = store.take("q", FRONT, 1, world.ttl()).await;
    let extend = |lease| TakeOp::Extend { from: FRONT, ids: vec![taken[0].id, 7], lease };
    assert_eq!(store.run("q", extend(LONG)).await, Reply::Flags(vec![true, false]));
    assert_eq!(store.run("q", extend(Duration::from_millis(1))).await, Reply::Flags(vec![true, false]));
    sleep(world.ttl() + Duration::from_millis(50)).await;
    assert_eq!(store.run("q", settle(FRONT, &taken, TakeEnd::Done)).await, Reply::Flags(vec![true]));
}

/// Law 253: members of a sorted set are taken by score, and those of a set in any order. They return as they were.
// Promise: G7
pub async fn take_of_sorted_sets_and_sets<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("z", SortedOp::Insert(vec![(3.0, b("c")), (1.5, b("a")), (2.0, b("b"))])).await;
    let (first, last) = (Source::Sorted(End::Front), Source::Sorted(End::Back));
    let (a, c) = (store.take("z", first.clone(), 1, LONG).await, store.take("z", last.clone(), 1, LONG).await);
    assert_eq!((a[0].bytes.clone(), a[0].score, c[0].score), (b("a"), Some(1.5), Some(3.0)));
    store.run("z", settle(first, &a, TakeEnd::Undelivered)).await;
    store.run("z", settle(last, &c, TakeEnd::Done)).await;
    let left = store.run("z", SortedOp::Range(End::Front, 0, -1)).await;
    assert_eq!(left, Reply::Scored(vec![(b("a"), 1.5), (b("b"), 2.0)]));
    store.run("s", SetOp::Insert(all(["x", "y"]))).await;
    let taken = store.take("s", Source::Set, 9, world.ttl()).await;
    assert_eq!(taken.len(), 2);
    sleep(world.ttl() + Duration::from_millis(50)).await;
    assert_eq!(store.take("s", Source::Set, 9, LONG).await.len(), 2, "an expired lease returns the members");
}

/// Law 254: no element has two takers, and each element has one.
// Promise: G1, G6
pub async fn take_of_many_takers_is_exclusive<W: ObjectWorld>(world: &W) {
    const ELEMENTS: u32 = 300;
    let store = Store::of(world);
    let elements = (0..ELEMENTS).map(|number| b(&number.to_string())).collect();
    store.run("q", ListOp::Push { end: End::Back, elements, once: None }).await;
    let takers: Vec<_> = (0..8)
        .map(|_| {
            let (structures, key) = (world.structures(), store.key("q"));
            tokio::spawn(async move {
                let mut seen = Vec::new();
                loop {
                    let take = TakeOp::Take {
                        from: FRONT,
                        at_most: 3,
                        bytes: 1 << 20,
                        lease: LONG,
                        once: once(LONG),
                        done: Vec::new(),
                    };
                    let reply = structures.run(&[Op::new(&key, take)]).await.remove(0).expect("an answer");
                    let taken = reply.taken().expect("elements").0;
                    if taken.is_empty() {
                        return seen;
                    }
                    structures.run(&[Op::new(&key, settle(FRONT, &taken, TakeEnd::Done))]).await;
                    seen.extend(taken);
                }
            })
        })
        .collect();
    let mut deliveries = BTreeMap::new();
    for taker in takers {
        for element in taker.await.expect("a taker") {
            *deliveries.entry(element.bytes).or_insert(0) += 1;
        }
    }
    assert_eq!(deliveries.len(), ELEMENTS as usize);
    assert!(deliveries.values().all(|times| *times == 1));
    assert_eq!(store.run("q", TakeOp::Count(FRONT)).await, queue(0, 0));
}

/// Law 255: a subscriber is notified after a push, and after an element has become available again.
// Promise: G11
pub async fn take_notifies_subscribers<W: ObjectWorld>(world: &W) {
    let (store, other) = (Store::of(world), Store::of(world));
    let calls = Arc::new(AtomicU32::new(0));
    let counter = calls.clone();
    let notifier = Notifier::new(move || _ = counter.fetch_add(1, SeqCst));
    let subscription = store.structures().subscribe_elements(&store.key("q"), FRONT, notifier).await.expect("one");
    let before = calls.load(SeqCst);
    other.push("q", ["a"]).await;
    until(|| calls.load(SeqCst) > before).await;
    let taken = other.take("q", FRONT, 1, LONG).await;
    let before = calls.load(SeqCst);
    other.run("q", settle(FRONT, &taken, TakeEnd::Again)).await;
    until(|| calls.load(SeqCst) > before).await;
    drop(subscription);
}

/// Law 256: elements move to another list in one step, those that were delivered before first.
pub async fn take_moves_to_another_list<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.push("q", ["a", "b", "c"]).await;
    let taken = store.take("q", FRONT, 1, LONG).await;
    store.run("q", settle(FRONT, &taken, TakeEnd::Again)).await;
    let to = |at_most| TakeOp::MoveTo { from: End::Front, to: store.key("r"), at: End::Back, at_most };
    assert_eq!(store.run("q", to(2)).await, int(2));
    assert_eq!(store.list("r").await, ["a", "b"]);
    assert_eq!(store.run("q", to(9)).await, int(1));
    assert_eq!(store.run("q", to(9)).await, int(0));
    // To itself, each element once.
    assert_eq!(store.run("r", to(2)).await, int(2));
    assert_eq!(store.list("r").await, ["c", "a", "b"]);
    assert_eq!(store.run("r", to(9)).await, int(3));
    assert_eq!(store.list("r").await, ["c", "a", "b"]);
}
