//! The maps of the engine.

use std::collections::HashMap;

/// A map with a fast hash, because each call uses several lookups. The hash has a random seed, like the hash of the
/// standard library.
pub(in crate::engine) type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;
