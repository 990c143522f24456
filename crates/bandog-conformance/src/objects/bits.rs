//! Laws of bit sets and Bloom filters.

use bandog_core::{
    ErrorKind,
    structures::{Action, BitCombine, BitField, BitsOp, BloomOp, BloomSizes, FieldOp, ObjectOp, Reply, Structure},
};

use super::{
    ObjectWorld,
    kit::{LONG, NONE, Store, int},
};

/// Law 240: bits that were never set are 0. The first bit is the highest one of the first byte.
pub async fn bits_are_set_and_counted<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    assert_eq!(store.run("b", BitsOp::Bytes).await, NONE);
    assert_eq!(store.run("b", BitsOp::Set(vec![1, 10, 1], true)).await, Reply::Flags(vec![false, false, true]));
    assert_eq!(store.run("b", BitsOp::Bytes).await, Reply::Bytes(Some(vec![0x40, 0x20])));
    assert_eq!(store.run("b", BitsOp::Get(vec![0, 1, 10, 999])).await, Reply::Flags(vec![false, true, true, false]));
    assert_eq!(store.run("b", BitsOp::Count).await, int(2));
    assert_eq!(store.run("b", BitsOp::Len).await, int(11));
    assert_eq!(store.run("b", BitsOp::Set(vec![10], false)).await, Reply::Flags(vec![true]));
    assert_eq!(store.run("b", BitsOp::Len).await, int(2));
    assert_eq!(store.run("absent", BitsOp::Len).await, int(0));
    for op in [BitsOp::Set(vec![1, 1 << 32], true), BitsOp::Get(vec![1 << 32])] {
        assert_eq!(store.refused("b", op).await, ErrorKind::Misused);
    }
}

/// Law 241: the end of a range of bits is excluded.
pub async fn bits_of_ranges<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    store.run("b", BitsOp::SetRange(3, 21, true)).await;
    assert_eq!(store.run("b", BitsOp::Count).await, int(18));
    assert_eq!(store.run("b", BitsOp::Get(vec![2, 3, 20, 21])).await, Reply::Flags(vec![false, true, true, false]));
    store.run("b", BitsOp::SetRange(4, 20, false)).await;
    assert_eq!(store.run("b", BitsOp::Bytes).await, Reply::Bytes(Some(vec![0x10, 0, 0x08])));
    store.run("b", BitsOp::SetRange(5, 5, true)).await;
    assert_eq!(store.run("b", BitsOp::Count).await, int(2));
    store.run("b", BitsOp::SetRange(100_000, 200_000, true)).await;
    assert_eq!(store.run("b", BitsOp::Count).await, int(100_002));
    assert_eq!(store.run("b", BitsOp::Len).await, int(200_000));
}

/// Law 242: bit sets combine into the first one, whose ttl stays.
pub async fn bits_combine<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let others = || vec![store.key("o"), store.key("p")];
    store.run("o", BitsOp::Set(vec![1, 2, 20], true)).await;
    store.run("p", BitsOp::Set(vec![2, 3], true)).await;
    for (how, expected) in [
        (BitCombine::And, vec![0x20, 0, 0]),
        (BitCombine::Or, vec![0xf0, 0, 0x08]),
        (BitCombine::Xor, vec![0xf0, 0, 0x08]),
    ] {
        store.run("b", BitsOp::SetRange(0, 9, false)).await;
        store.run("b", BitsOp::Set(vec![0, 2], true)).await;
        store.run("b", Action::Object(Structure::Bits, ObjectOp::Expire(LONG))).await;
        assert_eq!(store.run("b", BitsOp::Combine(how, others())).await, Reply::Done);
        assert_eq!(store.run("b", BitsOp::Bytes).await, Reply::Bytes(Some(expected)), "{how:?}");
        let ttl = store.run("b", Action::Object(Structure::Bits, ObjectOp::Ttl)).await;
        assert!(matches!(ttl, Reply::Ttl(bandog_core::structures::Ttl::Left(_))), "{how:?}: {ttl:?}");
        store.run("b", Action::Object(Structure::Bits, ObjectOp::Delete)).await;
    }
    store.run("o", BitsOp::Not).await;
    assert_eq!(store.run("o", BitsOp::Bytes).await, Reply::Bytes(Some(vec![0x9f, 0xff, 0xf7])));
}

/// Law 243: numbers of 1 to 64 bits wrap around at their limits.
pub async fn bit_fields_wrap_around<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let field = |offset, width, is_signed| BitField { offset, width, is_signed };
    let run = async |field, op| store.run("b", BitsOp::Field(field, op)).await;
    assert_eq!(run(field(3, 8, false), FieldOp::Set(300)).await, int(0));
    assert_eq!(run(field(3, 8, false), FieldOp::Get).await, int(44));
    assert_eq!(run(field(3, 8, false), FieldOp::Add(250)).await, int(38));
    assert_eq!(run(field(3, 8, true), FieldOp::Set(-3)).await, int(38));
    assert_eq!(run(field(3, 8, true), FieldOp::Add(-126)).await, int(127));
    assert_eq!(run(field(100, 64, true), FieldOp::Set(i64::MIN)).await, int(0));
    assert_eq!(run(field(100, 64, true), FieldOp::Add(-1)).await, int(i64::MAX));
    assert_eq!(run(field(200, 63, false), FieldOp::Set(-1)).await, int(0));
    assert_eq!(run(field(200, 63, false), FieldOp::Get).await, int(i64::MAX));
    assert_eq!(run(field(999, 1, false), FieldOp::Get).await, int(0));
}

fn sizes(bits: u64, hashes: u32) -> BloomSizes {
    BloomSizes { bits, hashes, expected: 1_000, false_positives: 0.03 }
}

/// The bits of an item, as a hash would give them.
fn item(number: u64) -> Vec<u64> {
    (1..6).map(|hash| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(hash * 11) % 7_298).collect()
}

/// Law 244: a Bloom filter has each item that was added.
// Promise: G18
pub async fn bloom_filter_has_no_false_negatives<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let items: Vec<_> = (0..500).map(item).collect();
    assert_eq!(store.run("f", BloomOp::Open).await, Reply::Bloom(None));
    assert_eq!(store.run("f", BloomOp::Create(sizes(7_298, 5))).await, Reply::Bloom(Some(sizes(7_298, 5))));
    let added = store.run("f", BloomOp::Insert(sizes(7_298, 5), items.clone())).await.flags().expect("flags");
    assert!(added.iter().filter(|is_new| **is_new).count() > 400 && added[0], "{added:?}");
    assert_eq!(store.run("f", BloomOp::Contains(sizes(7_298, 5), items.clone())).await, Reply::Flags(vec![true; 500]));
    let others = (10_000..10_500).map(item).collect();
    let found = store.run("f", BloomOp::Contains(sizes(7_298, 5), others)).await.flags().expect("flags");
    assert!(found.iter().filter(|found| **found).count() < 100);
    let again = store.run("f", BloomOp::Insert(sizes(7_298, 5), items)).await;
    assert_eq!(again, Reply::Flags(vec![false; 500]));
    let bits: std::collections::BTreeSet<u64> = (0..500).flat_map(item).collect();
    assert_eq!(store.run("f", BloomOp::Count).await, int(bits.len() as i64));
}

/// Law 245: a call with other sizes than those of the filter changes nothing and answers with these.
// Promise: G18
pub async fn bloom_filter_with_other_sizes_is_refused<W: ObjectWorld>(world: &W) {
    let store = Store::of(world);
    let (real, wrong) = (sizes(7_298, 5), sizes(9_000, 7));
    assert_eq!(store.run("f", BloomOp::Insert(real.clone(), vec![item(1)])).await, Reply::Bloom(None));
    store.run("f", BloomOp::Create(real.clone())).await;
    let answer = Reply::Bloom(Some(real.clone()));
    assert_eq!(store.run("f", BloomOp::Create(wrong.clone())).await, answer);
    assert_eq!(store.run("f", BloomOp::Insert(wrong.clone(), vec![item(1)])).await, answer);
    assert_eq!(store.run("f", BloomOp::Contains(wrong, vec![item(1)])).await, answer);
    assert_eq!(store.run("f", BloomOp::Count).await, int(0));
    let ttl = Action::Object(Structure::Bloom, ObjectOp::Expire(LONG));
    assert_eq!(store.run("f", ttl).await, Reply::Flag(true), "a filter without items has a ttl too");
    store.run("f", BloomOp::Insert(real, vec![item(1)])).await;
    store.run("f", Action::Object(Structure::Bloom, ObjectOp::Delete)).await;
    assert_eq!(world.left().await, [""; 0]);
}
