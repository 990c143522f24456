//! Values as the bytes of Redisson's codecs, byte for byte, so Rust and Java share maps, sets and queues in Redis.
//!
//! ```
//! use bandog_codec::{Decode, Encode, TypedJson};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, Debug, PartialEq)]
//! struct User { name: String, age: u32 }
//!
//! let mut bytes = Vec::new();
//! TypedJson.encode(&User { name: "Ann".into(), age: 7 }, &mut bytes)?;
//! assert_eq!(bytes, br#"{"age":7,"name":"Ann"}"#);
//! let ann: User = TypedJson.decode(&bytes)?;
//! # assert_eq!(ann.age, 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which codec
//!
//! | codec | in Java | choose it if |
//! |---|---|---|
//! | [`TextJson`] | `CompositeCodec` of `StringCodec` and `TypedJsonJacksonCodec` | the program is new; other tools can read keys and values |
//! | [`TypedJson`] | `TypedJsonJacksonCodec` | Java uses it for keys, too |
//! | [`Text`], [`Int`], [`Bytes`] | `StringCodec`, `LongCodec`, `ByteArrayCodec` | Java uses them |
//! | [`Kryo5`] | `Kryo5Codec`, the default of Redisson | Java has configured no codec, and values are scalars |
//! | [`TaggedJson`] | `JsonJacksonCodec` | Java uses it |
//! | [`Composite`] | `CompositeCodec` | keys have another codec than values |
//!
//! # Equal values have equal bytes
//!
//! Redis compares bytes: the keys and members, values in a compare-and-set, and what is hashed for a multimap or a Bloom
//! filter. So each codec writes a value in one form, which is the form that Java writes. What two programs compare, they
//! must also declare alike: 5 as an `i32` and as an `i64` differ in [`Kryo5`], and `1` and `1.0` in JSON.
//!
//! # Foreign bytes
//!
//! No bytes make a codec panic, or allocate much more than their own length. Bytes that a codec cannot read give
//! [`Corrupt`], which names the codec, what it expected, and a Java class if the bytes name one. Errors never contain a
//! value or a part of it.
//!
//! # Around the values
//!
//! [`hash`]: names of entries and bits of Bloom filters. [`pack`]: the layouts of `RMapCache`, `RLocalCachedMap` and
//! `RDelayedQueue`. [`number`]: texts of doubles.
//!
//! All formats were recorded from Redisson 4.7.0, and the tests compare with these records.

mod bytes;
mod codec;
mod composite;
mod decimal;
mod error;
pub mod hash;
mod int;
mod json;
mod kryo5;
mod null_value;
pub mod number;
pub mod pack;
mod text;

pub use bytes::Bytes;
pub use codec::{Codec, Decode, Encode};
pub use composite::Composite;
pub use error::{Corrupt, Unencodable};
pub use int::Int;
pub use json::{TaggedJson, TextJson, TypedJson};
pub use kryo5::{Kryo5, KryoValue};
pub use null_value::{NullValue, OrNullValue};
pub use text::Text;
