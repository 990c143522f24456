//! Laws of values and counters.

use std::time::Duration;

use bandog_core::{
    ErrorKind,
    structures::{Action, CounterOp, FloatOp, ObjectOp, Reply, SetTtl, Structure, Ttl, ValueOp},
};
use tokio::time::sleep;

use super::{
    ObjectWorld,
    kit::{LONG, NO, NONE, Store, YES, b, int, once, some},
};

const TTL: Action = Action::Object(Structure::Value, ObjectOp::Ttl);

/// The remaining time of a value.
async fn ttl<W: ObjectWorld>(store: &Store<'_, W>, name: &str) -> Ttl {
    store.run(name, TTL).await.ttl().expect("a ttl")
}

/// Law 201: a value is read as it was written.
pub async fn value_is_written_and_read<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("v", ValueOp::Get).await, NONE);
    for text in ["a", "", "b"] {
        assert_eq!(store.run("v", ValueOp::Set(b(text), SetTtl::Clear)).await, Reply::Done);
        assert_eq!(Store::of(world).run("v", ValueOp::Get).await, some(text));
    }
}

/// Law 202: of several writes of a new value, the first one counts.
pub async fn value_new_is_written_once<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("v", ValueOp::SetNew(b("a"), None)).await, YES);
    assert_eq!(store.run("v", ValueOp::SetNew(b("b"), Some(LONG))).await, NO);
    assert_eq!(store.run("v", ValueOp::Get).await, some("a"));
    assert_eq!(ttl(&store, "v").await, Ttl::Unlimited);
}

/// Law 203: a swap compares bytes, and "none" is a value to compare with.
pub async fn value_swap_compares_bytes<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let swap = |from: Option<&str>, to: Option<&str>| ValueOp::Swap { from: from.map(b), to: to.map(b) };
    for (from, to, answer, after) in [
        (Some("a"), Some("b"), NO, NONE),
        (Some(""), Some("b"), NO, NONE),
        (None, None, YES, NONE),
        (None, Some("a"), YES, some("a")),
        (None, Some("b"), NO, some("a")),
        (Some("A"), Some("b"), NO, some("a")),
        (Some("a"), Some("b"), YES, some("b")),
        (Some("b"), None, YES, NONE),
    ] {
        assert_eq!(store.run("v", swap(from, to)).await, answer, "{from:?} {to:?}");
        assert_eq!(store.run("v", ValueOp::Get).await, after, "{from:?} {to:?}");
    }
}

/// Law 204: the name of a write says whether it keeps the ttl.
pub async fn value_ttl_is_kept_or_cleared<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let set = |ttl| ValueOp::Set(b("a"), ttl);
    let is_long = |ttl| matches!(ttl, Ttl::Left(left) if left > LONG / 2 && left <= LONG);
    store.run("v", set(SetTtl::For(LONG))).await;
    assert!(is_long(ttl(&store, "v").await));
    store.run("v", set(SetTtl::Keep)).await;
    assert!(is_long(ttl(&store, "v").await));
    store.run("v", set(SetTtl::Clear)).await;
    assert_eq!(ttl(&store, "v").await, Ttl::Unlimited);
    store.run("v", set(SetTtl::For(LONG))).await;
    store.run("v", ValueOp::Swap { from: Some(b("a")), to: Some(b("b")) }).await;
    assert_eq!(ttl(&store, "v").await, Ttl::Unlimited);
    assert_eq!(ttl(&store, "absent").await, Ttl::Absent);
}

/// Law 205: a value with a ttl is deleted after it, and a ttl below 1 ms is not "for ever".
pub async fn value_expires<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("v", ValueOp::Set(b("a"), SetTtl::For(world.ttl()))).await;
    assert_eq!(store.run("v", ValueOp::Get).await, some("a"));
    store.run("w", ValueOp::SetNew(b("a"), Some(Duration::from_micros(1)))).await;
    sleep(world.ttl() + Duration::from_millis(50)).await;
    assert_eq!(store.run("v", ValueOp::Get).await, NONE);
    assert_eq!(store.run("w", ValueOp::Get).await, NONE);
}

/// Law 206: a value is taken by one caller.
pub async fn value_is_taken_once<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("v", ValueOp::Set(b("a"), SetTtl::Clear)).await;
    assert_eq!(store.run("v", ValueOp::Take).await, some("a"));
    assert_eq!(store.run("v", ValueOp::Take).await, NONE);
}

fn add(by: i64) -> CounterOp {
    CounterOp::Add { by, expiring: None, once: None }
}

/// Law 207: a counter begins with 0.
pub async fn counter_adds<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("c", CounterOp::Get).await, int(0));
    assert_eq!(store.run("c", add(5)).await, int(5));
    assert_eq!(store.run("c", add(-7)).await, int(-2));
    assert_eq!(store.run("c", CounterOp::Get).await, int(-2));
    store.run("c", CounterOp::Set(i64::MAX)).await;
    assert_eq!(store.run("c", CounterOp::Get).await, int(i64::MAX));
    assert_eq!(store.run("c", ValueOp::Get).await, some("9223372036854775807"), "it is a text");
}

/// Law 208: an addition that would overflow, and one to a text, changes nothing.
// Promise: G2
pub async fn counter_refuses_overflow_and_text<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("c", CounterOp::Set(i64::MAX - 1)).await;
    assert_eq!(store.refused("c", add(2)).await, ErrorKind::Denied);
    assert_eq!(store.run("c", CounterOp::Get).await, int(i64::MAX - 1));
    store.run("t", ValueOp::Set(b("text"), SetTtl::Clear)).await;
    assert_eq!(store.refused("t", add(1)).await, ErrorKind::Denied);
    assert_eq!(store.refused("t", CounterOp::Get).await, ErrorKind::Denied);
    assert_eq!(store.run("t", ValueOp::Get).await, some("text"));
}

/// Law 209: the ttl of a counter begins with its first addition. Later ones do not change it.
pub async fn counter_ttl_begins_with_the_first_addition<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let add = |ttl| CounterOp::Add { by: 1, expiring: Some(ttl), once: None };
    assert_eq!(store.run("c", add(world.ttl())).await, int(1));
    assert_eq!(store.run("c", add(LONG)).await, int(2));
    assert!(matches!(ttl(&store, "c").await, Ttl::Left(left) if left <= world.ttl()));
    sleep(world.ttl() + Duration::from_millis(50)).await;
    assert_eq!(store.run("c", add(LONG)).await, int(1));
}

/// Law 210: a counter is swapped if it has the expected number. An absent one is 0.
pub async fn counter_swaps<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("c", CounterOp::Swap(1, 2)).await, NO);
    assert_eq!(store.run("c", CounterOp::Swap(0, 2)).await, YES);
    assert_eq!(store.run("c", CounterOp::Swap(2, -3)).await, YES);
    assert_eq!(store.run("c", CounterOp::Get).await, int(-3));
}

/// Law 211: an addition with an id counts once, however often it is sent.
// Promise: G4
pub async fn counter_adds_once_with_an_id<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let add = |by| CounterOp::Add { by, expiring: None, once: Some(once(LONG)) };
    let (first, second) = (add(1), add(10));
    assert_eq!(store.run("c", first.clone()).await, int(1));
    assert_eq!(store.run("c", second.clone()).await, int(11));
    assert_eq!(Store::of(world).run("c", first).await, int(1), "the answer is remembered");
    assert_eq!(store.run("c", second).await, int(11));
    assert_eq!(store.run("c", CounterOp::Get).await, int(11));
}

/// Law 212: a floating-point counter is a plain decimal text.
pub async fn float_counter_adds_and_prints_plain_decimals<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let add = |by| FloatOp::Add { by, expiring: None, once: None };
    assert_eq!(store.run("f", FloatOp::Get).await, Reply::Float(0.0));
    assert_eq!(store.run("f", add(1.5)).await, Reply::Float(1.5));
    assert_eq!(store.run("f", add(-0.25)).await, Reply::Float(1.25));
    assert_eq!(store.run("f", ValueOp::Get).await, some("1.25"));
    store.run("f", FloatOp::Set(1e20)).await;
    assert_eq!(store.run("f", ValueOp::Get).await, some("100000000000000000000"));
    store.run("f", FloatOp::Set(1e-7)).await;
    assert_eq!(store.run("f", FloatOp::Get).await, Reply::Float(1e-7));
    assert_eq!(store.run("f", FloatOp::Swap(1e-7, 2.0)).await, YES);
    assert_eq!(store.run("f", FloatOp::Swap(1e-7, 3.0)).await, NO);
    for number in [f64::NAN, f64::INFINITY] {
        store.refused("f", FloatOp::Set(number)).await;
        store.refused("f", add(number)).await;
    }
    assert_eq!(store.run("f", FloatOp::Get).await, Reply::Float(2.0));
}

/// Law 213: blocks of ids are disjoint, and have the size of the first one.
// Promise: G17
pub async fn ids_come_in_blocks<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let next = async |size| store.run("i", Action::Ids { size }).await.block().expect("a block");
    assert_eq!(next(10).await, (1, 10));
    assert_eq!(next(10).await, (11, 10));
    assert_eq!(next(99).await, (21, 10));
}
