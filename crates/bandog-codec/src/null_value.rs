//! The value that Spring's cache writes where there is no value.

use std::borrow::Cow;

use crate::{Codec, Composite, Corrupt, Decode, Encode, Kryo5, TaggedJson, Unencodable};

/// A codec that has bytes for the `NullValue` of Redisson's cache manager for Spring.
///
/// The other codecs of Java cannot read their own `NullValue` back.
pub trait NullValue: Codec {
    /// The bytes of an object of `org.redisson.spring.cache.NullValue`.
    fn null_value(&self) -> &'static [u8];
}

impl NullValue for Kryo5 {
    /// A class that is not registered, its name, whose last byte has the highest bit set, and no fields.
    fn null_value(&self) -> &'static [u8] {
        b"\x01\x00org.redisson.spring.cache.NullValu\xe5"
    }
}

impl NullValue for TaggedJson {
    fn null_value(&self) -> &'static [u8] {
        br#"{"@class":"org.redisson.spring.cache.NullValue"}"#
    }
}

impl<K: Codec, V: NullValue> NullValue for Composite<K, V> {
    fn null_value(&self) -> &'static [u8] {
        self.values().null_value()
    }
}

/// Values that may be missing, as Redisson's cache manager for Spring writes them: None is its `NullValue`.
///
/// The format was recorded from Redisson 3.52.0 with Spring 6.2.
///
/// ```
/// use bandog_codec::{Decode, Encode, Kryo5, OrNullValue};
///
/// let (codec, mut bytes) = (OrNullValue::of(Kryo5), Vec::new());
/// codec.encode(&None::<i32>, &mut bytes)?;
/// assert_eq!(&bytes[2..9], b"org.red");
/// assert_eq!(Decode::<Option<i32>>::decode(&codec, &bytes)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrNullValue<C>(C);

impl<C: NullValue> OrNullValue<C> {
    /// The codec of the values that are not missing.
    pub fn of(codec: C) -> Self {
        Self(codec)
    }
}

impl<C: NullValue> Codec for OrNullValue<C> {
    type Keys = C::Keys;

    fn keys(&self) -> C::Keys {
        self.0.keys()
    }

    fn name(&self) -> Cow<'static, str> {
        self.0.name()
    }
}

impl<T, C: NullValue + Encode<T>> Encode<Option<T>> for OrNullValue<C> {
    fn encode(&self, value: &Option<T>, to: &mut Vec<u8>) -> Result<(), Unencodable> {
        match value {
            Some(value) => self.0.encode(value, to),
            None => {
                to.extend_from_slice(self.0.null_value());
                Ok(())
            }
        }
    }
}

impl<T, C: NullValue + Decode<T>> Decode<Option<T>> for OrNullValue<C> {
    fn decode(&self, bytes: &[u8]) -> Result<Option<T>, Corrupt> {
        match bytes == self.0.null_value() {
            true => Ok(None),
            false => self.0.decode(bytes).map(Some),
        }
    }
}
