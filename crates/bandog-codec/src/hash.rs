//! Hashes of encoded bytes: names of entries, and bits of Bloom filters.
//!
//! The hash is HighwayHash with 128 bits (<https://github.com/google/highwayhash>), under the key of Redisson. It hashes
//! *encoded* bytes, so 5 as an `Integer` and as a `Long` of Kryo, and `k` as text and as JSON, are different.

mod bloom;

use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use highway::{HighwayHash, HighwayHasher, Key};

pub use bloom::Bloom;

/// The key of Redisson (`org.redisson.misc.Hash`).
const KEY: Key = Key([0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834, 0x1082_276b_f3a2_7251, 0xf86c_6a11_d0c1_8e95]);

/// The two words of the hash.
///
/// ```
/// assert_eq!(bandog_codec::hash::h128(b"k1"), [0xf6c0_bc2a_9320_f05f, 0x0a05_bc60_1e7a_69d7]);
/// ```
pub fn h128(bytes: &[u8]) -> [u64; 2] {
    HighwayHasher::new(KEY).hash128(bytes)
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
    BASE64_STANDARD_NO_PAD.encode(h128_bytes(bytes))
}
