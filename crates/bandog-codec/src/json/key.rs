//! The keys of maps, which are text in JSON.

use serde::{
    Serialize, Serializer,
    de::{Deserializer, IntoDeserializer, Visitor, value::StrDeserializer},
    forward_to_deserialize_any,
    ser::Impossible,
};

use super::fault::{Fault, Refusal};
use crate::decimal;

type Result<T = (), E = Refusal> = std::result::Result<T, E>;

/// Appends a key as text, as Java's `toString`.
pub(super) struct Writer<'a>(pub(super) &'a mut String);

impl Writer<'_> {
    fn ascii(self, write: impl FnOnce(&mut Vec<u8>)) -> Result {
        let mut text = Vec::new();
        write(&mut text);
        self.0.extend(text.into_iter().map(char::from));
        Ok(())
    }
}

fn refused<T>() -> Result<T> {
    Err(Refusal("a key of a map is text, a number, a bool, a char or a variant without data".into()))
}

macro_rules! write {
    (integers: $($method:ident $int:ty),*; refused: $($other:ident($($type:ty),*) -> $result:ty),*) => {
        $( fn $method(self, value: $int) -> Result {
            self.ascii(|to| decimal::integer(value, to))
        } )*
        $( fn $other(self, $(_: $type),*) -> Result<$result> {
            refused()
        } )*
    };
}

type No = Impossible<(), Refusal>;
type Name = &'static str;

impl Serializer for Writer<'_> {
    type Ok = ();
    type Error = Refusal;
    type SerializeSeq = No;
    type SerializeTuple = No;
    type SerializeTupleStruct = No;
    type SerializeTupleVariant = No;
    type SerializeMap = No;
    type SerializeStruct = No;
    type SerializeStructVariant = No;

    write! {
        integers: serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64, serialize_i128 i128,
            serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_u128 u128;
        refused: serialize_bytes(&[u8]) -> (), serialize_none() -> (), serialize_unit() -> (),
            serialize_unit_struct(Name) -> (), serialize_seq(Option<usize>) -> No, serialize_tuple(usize) -> No,
            serialize_tuple_struct(Name, usize) -> No, serialize_tuple_variant(Name, u32, Name, usize) -> No,
            serialize_map(Option<usize>) -> No, serialize_struct(Name, usize) -> No,
            serialize_struct_variant(Name, u32, Name, usize) -> No
    }

    fn serialize_bool(self, value: bool) -> Result {
        self.serialize_str(if value { "true" } else { "false" })
    }

    fn serialize_f32(self, value: f32) -> Result {
        self.ascii(|to| decimal::java32(value, to))
    }

    fn serialize_f64(self, value: f64) -> Result {
        self.ascii(|to| decimal::java64(value, to))
    }

    fn serialize_char(self, value: char) -> Result {
        self.0.push(value);
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result {
        self.0.push_str(value);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: Name, _: u32, variant: Name) -> Result {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: Name, value: &T) -> Result {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(self, _: Name, _: u32, _: Name, _: &T) -> Result {
        refused()
    }
}

/// The text of a key that was read.
pub(super) enum Reader<'de, 'r> {
    /// A part of the input.
    Input(&'de str),
    /// A text that had escapes.
    Unescaped(&'r str),
}

impl<'de> Reader<'de, '_> {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Input(text) => text,
            Self::Unescaped(text) => text,
        }
    }

    pub(super) fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Self::Input(text) => visitor.visit_borrowed_str(text),
            Self::Unescaped(text) => visitor.visit_str(text),
        }
    }
}

macro_rules! parse {
    ($($method:ident $visit:ident),*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match self.text().parse() {
                Ok(value) => visitor.$visit(value),
                Err(_) => self.visit(visitor),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for Reader<'de, '_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit(visitor)
    }

    parse!(
        deserialize_i8 visit_i8, deserialize_i16 visit_i16, deserialize_i32 visit_i32, deserialize_i64 visit_i64,
        deserialize_i128 visit_i128, deserialize_u8 visit_u8, deserialize_u16 visit_u16, deserialize_u32 visit_u32,
        deserialize_u64 visit_u64, deserialize_u128 visit_u128, deserialize_f32 visit_f32, deserialize_f64 visit_f64,
        deserialize_bool visit_bool
    );

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let text: StrDeserializer<'_, Fault> = self.text().into_deserializer();
        visitor.visit_enum(text)
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
