//! The codec, and the types that it writes and reads.

use std::borrow::Cow;

use super::{
    scalar::{NAME, NULL, Scalar, Text, Unit, other, read, write},
    string,
};
use crate::{Codec, Corrupt, Decode, Encode, Unencodable};

/// Scalars as Java's `Kryo5Codec`, so a Rust program shares them with a Java program that has configured no codec.
///
/// | Rust | Java | first byte |
/// |---|---|---|
/// | `i32`, `i64`, `i16`, `i8` | `Integer`, `Long`, `Short`, `Byte` | `02`, `09`, `08`, `06` |
/// | `str`, `String` | `String` | `03` |
/// | `f64`, `f32` | `Double`, `Float` | `0a`, `04` |
/// | `bool`, `char` | `Boolean`, `Character` | `05`, `07` |
/// | `Option<T>` | the same, or `null` | `00` |
/// | [`KryoValue`](crate::KryoValue) | any of these | |
///
/// The width of an integer is a part of the bytes: 5 as an `i32` and as an `i64` are two different keys. So a value of one
/// type is not read as another type.
///
/// A value has exactly one form, with which Java compares it. Of short texts Java also reads, and never writes, a second
/// form, and so does this codec.
///
/// # Errors
/// [`Unencodable`] for a `char` that is not in the basic plane. [`Corrupt`] for other bytes; an object of Java gives an
/// error with its [class](Corrupt::class).
///
/// The format was recorded from Redisson 4.7.0 with Kryo 5.6.2.
///
/// ```
/// use bandog_codec::{Decode, Encode, Kryo5};
///
/// let (mut text, mut int, mut long) = (Vec::new(), Vec::new(), Vec::new());
/// Kryo5.encode("abc", &mut text)?;
/// Kryo5.encode(&5_i32, &mut int)?;
/// Kryo5.encode(&5_i64, &mut long)?;
/// assert_eq!((&*text, &*int, &*long), (&b"\x03ab\xe3"[..], &b"\x02\x0a"[..], &b"\x09\x0a"[..]));
/// assert_eq!(Decode::<String>::decode(&Kryo5, &text)?, "abc");
/// let error = Decode::<i64>::decode(&Kryo5, &int).unwrap_err();
/// assert_eq!(error.to_string(), "Kryo5: expected a Long (i64), and found an Integer (i32)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kryo5;

impl Codec for Kryo5 {
    type Keys = Self;

    fn keys(&self) -> Self {
        *self
    }

    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }
}

macro_rules! scalars {
    ($($scalar:ty),*) => { $(
        impl Encode<$scalar> for Kryo5 {
            fn encode(&self, value: &$scalar, to: &mut Vec<u8>) -> Result<(), Unencodable> {
                write(value, to);
                Ok(())
            }
        }

        impl Decode<$scalar> for Kryo5 {
            fn decode(&self, bytes: &[u8]) -> Result<$scalar, Corrupt> {
                read(bytes)
            }
        }
    )* };
}

scalars!(i32, i64, i16, i8, f64, f32, bool);

impl Encode<char> for Kryo5 {
    fn encode(&self, value: &char, to: &mut Vec<u8>) -> Result<(), Unencodable> {
        let unit = u16::try_from(u32::from(*value)).map_err(|_| {
            Unencodable::new(NAME, "a char of Java has 16 bits, and this one needs more; write it as a String")
        })?;
        write(&Unit(unit), to);
        Ok(())
    }
}

impl Decode<char> for Kryo5 {
    fn decode(&self, bytes: &[u8]) -> Result<char, Corrupt> {
        let Unit(unit) = read(bytes)?;
        char::from_u32(unit.into()).ok_or_else(|| Corrupt::new(NAME, Unit::TYPE).found("half of a surrogate pair"))
    }
}

impl Encode<str> for Kryo5 {
    fn encode(&self, value: &str, to: &mut Vec<u8>) -> Result<(), Unencodable> {
        to.push(Text::ID);
        string::write(Some(value), to);
        Ok(())
    }
}

impl Encode<String> for Kryo5 {
    fn encode(&self, value: &String, to: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.encode(value.as_str(), to)
    }
}

impl Decode<String> for Kryo5 {
    fn decode(&self, bytes: &[u8]) -> Result<String, Corrupt> {
        read::<Text>(bytes)?.0.ok_or_else(|| other::<Text>(&[NULL]))
    }
}

impl<T: ?Sized> Encode<&T> for Kryo5
where
    Self: Encode<T>,
{
    fn encode(&self, value: &&T, to: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.encode(*value, to)
    }
}

impl<T> Encode<Option<T>> for Kryo5
where
    Self: Encode<T>,
{
    fn encode(&self, value: &Option<T>, to: &mut Vec<u8>) -> Result<(), Unencodable> {
        match value {
            Some(value) => self.encode(value, to),
            None => {
                to.push(NULL);
                Ok(())
            }
        }
    }
}

impl<T> Decode<Option<T>> for Kryo5
where
    Self: Decode<T>,
{
    fn decode(&self, bytes: &[u8]) -> Result<Option<T>, Corrupt> {
        match bytes {
            [NULL] | string::NULL => Ok(None),
            bytes => self.decode(bytes).map(Some),
        }
    }
}
