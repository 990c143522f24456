//! JSON without names of classes.

use std::borrow::Cow;

use serde::{Serialize, de::DeserializeOwned};

use super::{read, write};
use crate::{Codec, Corrupt, Decode, Encode, Text, Unencodable};

/// JSON of types with serde, in the one form in which Java's `TypedJsonJacksonCodec` writes it, so equal values have equal
/// bytes in both languages.
///
/// - Properties of structs and maps are sorted as Java sorts text, and have no spaces between them. A property that is
///   `None` is left out. (Java sorts the fields of classes, but not its own maps; a `TreeMap` is sorted.)
/// - Doubles are `1.5`, `100.0`, `1.0E10`, `1.0E-5`, and `"NaN"`, `"Infinity"`, `"-Infinity"` in quotes. The digits are the
///   shortest ones, as in Java 19 and later; Java 17 writes other digits in rare cases ([`number::java`]).
/// - In texts, characters outside of the basic plane are two escapes, `"\uD83D\uDE00"`; in names of fields they are raw.
///   Control characters are `\n`, `\t`, `\b`, `\f`, `\r`, or `\u001F`. All other characters are raw.
/// - Bytes ([`serialize_bytes`]) are base64, as a `byte[]`. A `Vec<u8>` without such an attribute is a list.
/// - Enums have serde's form: a variant without data is text.
///
/// Reading is lenient: any order, spaces, escapes and number text of JSON; properties that the type does not have are
/// ignored; floats may be in quotes as above. Floats are rounded correctly.
///
/// # Errors
/// [`Unencodable`] if a key of a map is neither text, a number, `bool`, `char` nor a variant, or the type's `Serialize`
/// fails. [`Corrupt`] if the bytes are not JSON of the type; the error names the byte and what the type expects there.
///
/// The form was recorded from Redisson 4.7.0 with Jackson 2.21.3. A scalar at the top has the same bytes as in Java; a text
/// is in quotes.
///
/// [`number::java`]: crate::number::java
/// [`serialize_bytes`]: serde::Serializer::serialize_bytes
///
/// ```
/// use bandog_codec::{Decode, Encode, TypedJson};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct User { name: String, age: u32, email: Option<String>, balance: f64 }
///
/// let ann = User { name: "Ann 😀".into(), age: 7, email: None, balance: 1e10 };
/// let mut bytes = Vec::new();
/// TypedJson.encode(&ann, &mut bytes)?;
/// assert_eq!(bytes, br#"{"age":7,"balance":1.0E10,"name":"Ann \uD83D\uDE00"}"#);
/// assert_eq!(Decode::<User>::decode(&TypedJson, &bytes)?, ann);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TypedJson;

/// The default codec of the grid: keys by [`Text`], values by [`TypedJson`].
///
/// In Java it is `new CompositeCodec(StringCodec.INSTANCE, json, json)` with
/// `var json = new TypedJsonJacksonCodec(User.class)`.
///
/// ```
/// use bandog_codec::{Decode, Encode, TextJson};
///
/// let mut bytes = Vec::new();
/// TextJson.encode(&(7, "ann"), &mut bytes)?;
/// assert_eq!(bytes, b"[7,\"ann\"]");
/// let (number, name): (u32, String) = TextJson.decode(&bytes)?;
/// # assert_eq!((number, &*name), (7, "ann"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextJson;

macro_rules! codecs {
    ($($codec:ident, $name:literal, $keys:ident;)*) => { $(
        impl Codec for $codec {
            type Keys = $keys;

            fn keys(&self) -> $keys {
                $keys
            }

            fn name(&self) -> Cow<'static, str> {
                $name.into()
            }
        }

        impl<T: Serialize + ?Sized> Encode<T> for $codec {
            fn encode(&self, value: &T, to: &mut Vec<u8>) -> Result<(), Unencodable> {
                write::value(value, None, $name, to)
            }
        }

        impl<T: DeserializeOwned> Decode<T> for $codec {
            fn decode(&self, bytes: &[u8]) -> Result<T, Corrupt> {
                read::value(bytes, None, $name)
            }
        }
    )* };
}

codecs! {
    TypedJson, "TypedJson", TypedJson;
    TextJson, "TextJson", Text;
}
