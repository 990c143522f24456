//! Integers as Java's `LongCodec` and `IntegerCodec`.

use std::borrow::Cow;

use crate::{Codec, Corrupt, Decode, Encode, Unencodable, decimal};

/// Integers as decimal text. The bytes are those of Java's `LongCodec` and `IntegerCodec`, and of Redis's `INCR`.
///
/// Types: `i8` to `i128`, `u8` to `u128`, `isize`, `usize`. Java reads what fits in its `long` or `int`.
///
/// # Errors
/// [`Corrupt`] if the bytes are not a decimal integer that fits in the type. Java reads the same: `+5` and `05`, and no
/// spaces.
///
/// ```
/// use bandog_codec::{Decode, Encode, Int};
///
/// let mut bytes = Vec::new();
/// Int.encode(&300_u64, &mut bytes)?;
/// assert_eq!(bytes, b"300");
/// assert_eq!(Decode::<i64>::decode(&Int, &bytes)?, 300);
/// let error = Decode::<u8>::decode(&Int, &bytes).unwrap_err();
/// assert_eq!(error.to_string(), "Int: expected a decimal integer that fits in u8");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Int;

const NAME: &str = "Int";

impl Codec for Int {
    type Keys = Self;

    fn keys(&self) -> Self {
        *self
    }

    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }
}

macro_rules! integers {
    ($($int:ty),*) => { $(
        impl Encode<$int> for Int {
            fn encode(&self, value: &$int, to: &mut Vec<u8>) -> Result<(), Unencodable> {
                decimal::integer(*value, to);
                Ok(())
            }
        }

        impl Decode<$int> for Int {
            fn decode(&self, bytes: &[u8]) -> Result<$int, Corrupt> {
                let value = str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
                value.ok_or_else(|| {
                    Corrupt::new(NAME, concat!("a decimal integer that fits in ", stringify!($int)))
                })
            }
        }
    )* };
}

integers!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);
