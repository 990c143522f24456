//! JSON with names of classes.

use std::{borrow::Cow, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};

use super::{read, tags::Tags, write};
use crate::{Codec, Corrupt, Decode, Encode, Unencodable};

/// JSON with the names of Java classes, as Java's `JsonJacksonCodec`: for Java programs that use this codec.
///
/// | Rust | JSON | Java |
/// |---|---|---|
/// | the outermost struct or map | `{"@class":"com.acme.User","age":7}` | the class of [`of`](Self::of) |
/// | another struct | `{"@class":"com.acme.Address",…}` | its class of [`class`](Self::class) |
/// | another map | `{"@class":"java.util.HashMap",…}` | `Map` |
/// | a list or a tuple | `["java.util.ArrayList",[…]]` | `List` |
/// | `i64`, `u32`, `u64` as a field of a struct | `5` | `long` |
/// | the same as `Option`, in a list or a map, or alone | `["java.lang.Long",5]` | `Long` |
/// | a greater number | `["java.math.BigInteger",…]` | `BigInteger` |
/// | text, `bool`, floats, smaller integers, bytes, variants without data | as [`TypedJson`](crate::TypedJson) | |
/// | a newtype with a class of [`class`](Self::class) | its value with this class | `Set`, `UUID`, `Long`, … |
///
/// `@class` is written first and read anywhere. Java declares a `long` or a `Long`, and refuses the form of the other one,
/// so a `Long` of a Java class is an `Option<i64>` in Rust. Arrays of Java, such as `int[]`, have no class, and can only be
/// read.
/// With `#[serde(flatten)]` a struct is a map for serde, so only the outermost one can have it.
///
/// # Errors
/// [`Unencodable`] for a struct without a class, and for a variant with data. [`Corrupt`] as `TypedJson`, and for an object
/// of another class than the struct has: then [`Corrupt::class`] names it. This is how the `NullValue` of Spring's cache is
/// recognized.
///
/// The form was recorded from Redisson 4.7.0 with Jackson 2.21.3.
///
/// ```
/// use bandog_codec::{Decode, Encode, TaggedJson};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct User { name: String, id: i64, owner: Option<i64>, home: Address }
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct Address { city: String }
///
/// let codec = TaggedJson::of("com.acme.User").class("Address", "com.acme.Address");
/// let ann = User { name: "Ann".into(), id: 5, owner: Some(6), home: Address { city: "Ulm".into() } };
/// let mut bytes = Vec::new();
/// codec.encode(&ann, &mut bytes)?;
/// let json = [
///     r#"{"@class":"com.acme.User","home":{"@class":"com.acme.Address","city":"Ulm"},"#,
///     r#""id":5,"name":"Ann","owner":["java.lang.Long",6]}"#,
/// ];
/// assert_eq!(str::from_utf8(&bytes)?, json.concat());
/// assert_eq!(Decode::<User>::decode(&codec, &bytes)?, ann);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedJson(Arc<Tags>);

const NAME: &str = "TaggedJson";

impl TaggedJson {
    /// The Java class of the outermost struct or map. Values of other types do not need it.
    pub fn of(class: impl Into<String>) -> Self {
        Self(Arc::new(Tags { root: class.into(), classes: Vec::new() }))
    }

    /// The Java class of a struct or a newtype, by its name for serde: the name of the Rust type, unless
    /// `#[serde(rename)]` has changed it. With several classes for one name, the first is written and all are read.
    ///
    /// ```
    /// use bandog_codec::{Encode, TaggedJson};
    ///
    /// #[derive(serde::Serialize)]
    /// struct Tags(Vec<String>);
    ///
    /// let codec = TaggedJson::of("com.acme.User").class("Tags", "java.util.HashSet");
    /// let mut bytes = Vec::new();
    /// codec.encode(&Tags(vec!["a".into()]), &mut bytes)?;
    /// assert_eq!(bytes, br#"["java.util.HashSet",["a"]]"#);
    /// # Ok::<(), bandog_codec::Unencodable>(())
    /// ```
    #[must_use]
    pub fn class(mut self, name: impl Into<String>, class: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.0).classes.push((name.into(), class.into()));
        self
    }
}

impl Codec for TaggedJson {
    type Keys = Self;

    fn keys(&self) -> Self {
        self.clone()
    }

    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }
}

impl<T: Serialize + ?Sized> Encode<T> for TaggedJson {
    fn encode(&self, value: &T, to: &mut Vec<u8>) -> Result<(), Unencodable> {
        write::value(value, Some(&self.0), NAME, to)
    }
}

impl<T: DeserializeOwned> Decode<T> for TaggedJson {
    fn decode(&self, bytes: &[u8]) -> Result<T, Corrupt> {
        read::value(bytes, Some(&self.0), NAME)
    }
}
