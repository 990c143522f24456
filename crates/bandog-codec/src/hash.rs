//! Hashes of encoded bytes: names of entries, and bits of Bloom filters.
//!
//! The hash is HighwayHash with 128 bits (<https://github.com/google/highwayhash>), under the key of Redisson. It hashes
//! *encoded* bytes, so 5 as an `Integer` and as a `Long` of Kryo, and `k` as text and as JSON, are different.

mod bloom;
mod highway;

use crate::base64;

pub use bloom::Bloom;

/// The two words of the hash.
///
/// ```
/// assert_eq!(bandog_codec::hash::h128(b"k1"), [0xf6c0_bc2a_9320_f05f, 0x0a05_bc60_1e7a_69d7]);
/// ```
pub fn h128(bytes: &[u8]) -> [u64; 2] {
    highway::h128(bytes)
}

/// The hash as `RLocalCachedMap` sends it in messages: the two words, big-endian.
pub fn h128_bytes(bytes: &[u8]) -> [u8; 16] {
    let [first, second] = h128(bytes);
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

/// The 22 characters by which Redisson names the values of a multimap's key, and the locks of an entry: the hash in base64
/// without padding.
///
/// ```
/// // The values of the key k1 of a multimap `tags` with text keys are in `{tags}:9sC8KpMg8F8KBbxgHnpp1w`.
/// assert_eq!(bandog_codec::hash::entry_name(b"k1"), "9sC8KpMg8F8KBbxgHnpp1w");
/// ```
pub fn entry_name(bytes: &[u8]) -> String {
    let mut name = Vec::with_capacity(22);
    base64::write(&h128_bytes(bytes), &mut name);
    String::from_utf8(name).unwrap_or_default()
}
