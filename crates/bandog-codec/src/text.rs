//! Text as Java's `StringCodec`.

use std::{
    any::type_name,
    borrow::Cow,
    fmt::{Display, Write},
    str::FromStr,
};

use crate::{Codec, Corrupt, Decode, Encode, Unencodable, decimal::End};

/// UTF-8 text: `Display` writes it, `FromStr` reads it. The bytes are those of Java's `StringCodec`.
///
/// Only text, integers, `bool` and `char` have the same text in Rust and in Java; a double of Java is `1.0E10`, for which
/// [`number::java`](crate::number::java) is.
///
/// # Errors
/// [`Unencodable`] if `Display` fails. [`Corrupt`] if the bytes are not UTF-8, or `FromStr` refuses the text.
///
/// ```
/// use bandog_codec::{Decode, Encode, Text};
///
/// let mut bytes = Vec::new();
/// Text.encode(&-5, &mut bytes)?;
/// assert_eq!(bytes, b"-5");
/// assert_eq!(Decode::<i32>::decode(&Text, &bytes)?, -5);
/// assert_eq!(Decode::<String>::decode(&Text, &bytes)?, "-5");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Text;

const NAME: &str = "Text";

impl Codec for Text {
    type Keys = Self;

    fn keys(&self) -> Self {
        *self
    }

    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }
}

impl<T: Display + ?Sized> Encode<T> for Text {
    fn encode(&self, value: &T, to: &mut Vec<u8>) -> Result<(), Unencodable> {
        let before = to.len();
        write!(End(to), "{value}").map_err(|_| {
            to.truncate(before);
            Unencodable::new(NAME, format!("Display of {} has failed", type_name::<T>()))
        })
    }
}

impl<T: FromStr> Decode<T> for Text {
    fn decode(&self, bytes: &[u8]) -> Result<T, Corrupt> {
        let text = str::from_utf8(bytes).map_err(|error| {
            let corrupt = Corrupt::new(NAME, "UTF-8 text").at(error.valid_up_to());
            corrupt.advise("the writer may use another codec")
        })?;
        text.parse().map_err(|_| Corrupt::new(NAME, format!("the text of a {}", type_name::<T>())))
    }
}
