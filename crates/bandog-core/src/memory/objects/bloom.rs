//! Bloom filters.

use super::bits::Bits;
use crate::{
    Result,
    structures::{BloomOp, BloomSizes, Reply},
};

/// A Bloom filter.
#[derive(Debug)]
pub(super) struct Bloom {
    sizes: BloomSizes,
    bits: Bits,
}

pub(super) fn apply(bloom: &mut Option<Bloom>, op: &BloomOp) -> Result<Reply> {
    let sizes = |bloom: &Option<Bloom>| bloom.as_ref().map(|bloom| bloom.sizes.clone());
    Ok(match op {
        BloomOp::Create(sizes) => {
            let bloom = bloom.get_or_insert_with(|| Bloom { sizes: sizes.clone(), bits: Bits::default() });
            Reply::Bloom(Some(bloom.sizes.clone()))
        }
        BloomOp::Open => Reply::Bloom(sizes(bloom)),
        BloomOp::Insert(expected, items) => match with_sizes(bloom, expected) {
            Some(bloom) => Reply::Flags(items.iter().map(|bits| insert(&mut bloom.bits, bits)).collect::<Result<_>>()?),
            None => Reply::Bloom(sizes(bloom)),
        },
        BloomOp::Contains(expected, items) => match with_sizes(bloom, expected) {
            Some(bloom) => Reply::Flags(items.iter().map(|bits| bits.iter().all(|bit| bloom.bits.get(*bit))).collect()),
            None => Reply::Bloom(sizes(bloom)),
        },
        BloomOp::Count => Reply::Int(bloom.as_ref().map_or(0, |bloom| bloom.bits.count())),
    })
}

/// The filter, if it has this number of bits and hashes.
fn with_sizes<'a>(bloom: &'a mut Option<Bloom>, expected: &BloomSizes) -> Option<&'a mut Bloom> {
    bloom.as_mut().filter(|bloom| (bloom.sizes.bits, bloom.sizes.hashes) == (expected.bits, expected.hashes))
}

/// Sets bits, and returns whether one of them is new.
fn insert(bits: &mut Bits, item: &[u64]) -> Result<bool> {
    item.iter().try_fold(false, |is_new, bit| Ok(!bits.set(*bit, true)? || is_new))
}
