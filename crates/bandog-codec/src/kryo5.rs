//! Scalars as Java's `Kryo5Codec`, which is the default codec of Redisson.

mod codec;
mod scalar;
mod string;
mod value;
mod varint;

pub use codec::Kryo5;
pub use value::KryoValue;
