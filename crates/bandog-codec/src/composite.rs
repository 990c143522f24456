//! One codec for keys and another one for values.

use std::borrow::Cow;

use crate::{Codec, Corrupt, Decode, Encode, Unencodable};

/// Keys by one codec, values by another one, as Java's `CompositeCodec`.
///
/// ```
/// use bandog_codec::{Codec, Composite, Encode, Int, Kryo5};
///
/// let codec = Composite::of(Int, Kryo5);
/// let (mut key, mut value) = (Vec::new(), Vec::new());
/// codec.keys().encode(&7, &mut key)?;
/// codec.encode(&7, &mut value)?;
/// assert_eq!((&*key, &*value), (&b"7"[..], &b"\x02\x0e"[..]));
/// assert_eq!(codec.name(), "Composite<Int, Kryo5>");
/// # Ok::<(), bandog_codec::Unencodable>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Composite<K, V> {
    keys: K,
    values: V,
}

impl<K: Codec, V: Codec> Composite<K, V> {
    /// The codec of keys, and the codec of values.
    pub fn of(keys: K, values: V) -> Self {
        Self { keys, values }
    }

    pub(crate) fn values(&self) -> &V {
        &self.values
    }
}

impl<K: Codec, V: Codec> Codec for Composite<K, V> {
    type Keys = K;

    fn keys(&self) -> K {
        self.keys.clone()
    }

    fn name(&self) -> Cow<'static, str> {
        format!("Composite<{}, {}>", self.keys.name(), self.values.name()).into()
    }
}

impl<T: ?Sized, K: Codec, V: Encode<T>> Encode<T> for Composite<K, V> {
    fn encode(&self, value: &T, to: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.values.encode(value, to)
    }
}

impl<T, K: Codec, V: Decode<T>> Decode<T> for Composite<K, V> {
    fn decode(&self, bytes: &[u8]) -> Result<T, Corrupt> {
        self.values.decode(bytes)
    }
}
