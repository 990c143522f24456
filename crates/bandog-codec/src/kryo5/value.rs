//! A scalar whose type is known at run time only.

use std::fmt;

use super::{
    codec::Kryo5,
    scalar::{Any, NULL, Scalar, Text, Unit, other, read, write},
    string,
};
use crate::{Corrupt, Decode, Encode, Unencodable};

/// Any scalar that [`Kryo5`] can read, for tools that show values of any type. `Display` writes the value without its type.
///
/// ```
/// use bandog_codec::{Decode, Kryo5, KryoValue};
///
/// let value: KryoValue = Kryo5.decode(b"\x09\x0a")?;
/// assert_eq!(value, KryoValue::Long(5));
/// assert_eq!((value.java_type(), value.to_string()), ("Long", "5".to_owned()));
/// # Ok::<(), bandog_codec::Corrupt>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum KryoValue {
    /// `null`
    Null,
    /// `Integer`
    Integer(i32),
    /// `String`
    String(String),
    /// `Float`
    Float(f32),
    /// `Boolean`
    Boolean(bool),
    /// `Byte`
    Byte(i8),
    /// `Character`
    Character(char),
    /// `Short`
    Short(i16),
    /// `Long`
    Long(i64),
    /// `Double`
    Double(f64),
}

impl KryoValue {
    /// The name of the Java class without its package, or `null`.
    pub fn java_type(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Integer(_) => "Integer",
            Self::String(_) => "String",
            Self::Float(_) => "Float",
            Self::Boolean(_) => "Boolean",
            Self::Byte(_) => "Byte",
            Self::Character(_) => "Character",
            Self::Short(_) => "Short",
            Self::Long(_) => "Long",
            Self::Double(_) => "Double",
        }
    }
}

impl fmt::Display for KryoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Integer(value) => value.fmt(f),
            Self::String(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Boolean(value) => value.fmt(f),
            Self::Byte(value) => value.fmt(f),
            Self::Character(value) => value.fmt(f),
            Self::Short(value) => value.fmt(f),
            Self::Long(value) => value.fmt(f),
            Self::Double(value) => value.fmt(f),
        }
    }
}

impl Encode<KryoValue> for Kryo5 {
    fn encode(&self, value: &KryoValue, to: &mut Vec<u8>) -> Result<(), Unencodable> {
        match value {
            KryoValue::Null => to.push(NULL),
            KryoValue::Integer(value) => write(value, to),
            KryoValue::String(value) => return self.encode(value, to),
            KryoValue::Float(value) => write(value, to),
            KryoValue::Boolean(value) => write(value, to),
            KryoValue::Byte(value) => write(value, to),
            KryoValue::Character(value) => return self.encode(value, to),
            KryoValue::Short(value) => write(value, to),
            KryoValue::Long(value) => write(value, to),
            KryoValue::Double(value) => write(value, to),
        }
        Ok(())
    }
}

impl Decode<KryoValue> for Kryo5 {
    fn decode(&self, bytes: &[u8]) -> Result<KryoValue, Corrupt> {
        Ok(match bytes.first().copied() {
            Some(NULL) if bytes.len() == 1 => KryoValue::Null,
            Some(Text::ID) if bytes == string::NULL => KryoValue::Null,
            Some(i32::ID) => KryoValue::Integer(read(bytes)?),
            Some(Text::ID) => KryoValue::String(self.decode(bytes)?),
            Some(f32::ID) => KryoValue::Float(read(bytes)?),
            Some(bool::ID) => KryoValue::Boolean(read(bytes)?),
            Some(i8::ID) => KryoValue::Byte(read(bytes)?),
            Some(Unit::ID) => KryoValue::Character(self.decode(bytes)?),
            Some(i16::ID) => KryoValue::Short(read(bytes)?),
            Some(i64::ID) => KryoValue::Long(read(bytes)?),
            Some(f64::ID) => KryoValue::Double(read(bytes)?),
            _ => return Err(other::<Any>(bytes)),
        })
    }
}
