//! Writes values of serde as JSON.

use std::{io::Write, ops::Range};

use base64::{display::Base64Display, prelude::BASE64_STANDARD};
use serde::{Serialize, Serializer, ser};

use super::{
    fault::Refusal,
    key,
    object::{self, Property},
    string::{self, Wide},
    tags::{BIG, CLASS, LIST, LONG, MAP, Tags},
};
use crate::{Unencodable, decimal};

type Result<T = (), E = Refusal> = std::result::Result<T, E>;
type Name = &'static str;

/// Number of fields of a struct that need no allocation.
const FEW: usize = 8;
/// Maximum number of fields for which memory is reserved.
const MOST: usize = 256;

/// Appends the JSON of a value. If it fails, `to` is unchanged.
pub(super) fn value<T: Serialize + ?Sized>(
    value: &T,
    tags: Option<&Tags>,
    codec: &'static str,
    to: &mut Vec<u8>,
) -> Result<(), Unencodable> {
    let before = to.len();
    let mut writer = Writer { to, tags, place: Place::Root, root: None, class: None };
    value.serialize(&mut writer).map_err(|Refusal(reason)| {
        to.truncate(before);
        Unencodable::new(codec, reason)
    })
}

/// Where the next value is. With tags, its form depends on it.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Not in an object or a list.
    Root,
    /// A field of a struct, for which Java has primitive types.
    Field,
    /// An element of a list or a map, for which Java has none.
    Element,
}

struct Writer<'w> {
    to: &'w mut Vec<u8>,
    tags: Option<&'w Tags>,
    place: Place,
    /// The name of the outermost struct.
    root: Option<Name>,
    /// The class that a newtype around the next value has.
    class: Option<&'w str>,
}

impl<'w> Writer<'w> {
    /// Writes a scalar, with the class of the newtype around it or else with its own one.
    #[inline]
    fn scalar(&mut self, own: Option<Name>, write: impl FnOnce(&mut Vec<u8>)) -> Result {
        if self.tags.is_none() {
            write(self.to);
            return Ok(());
        }
        let is_tagged = self.open_list(own);
        write(self.to);
        self.close_list(is_tagged);
        Ok(())
    }

    /// Begins `["class",` if the next value has a class.
    fn open_list(&mut self, own: Option<Name>) -> bool {
        let Some(class) = self.class.take().or(own) else { return false };
        self.to.push(b'[');
        string::write(class, Wide::Escaped, self.to);
        self.to.push(b',');
        true
    }

    fn close_list(&mut self, is_tagged: bool) {
        if is_tagged {
            self.to.push(b']');
        }
    }

    /// The class of an integer that may need more than an `int`.
    fn wide(&self, fits: bool) -> Option<Name> {
        match self.place {
            _ if !fits => Some(BIG),
            Place::Field => None,
            Place::Root | Place::Element => Some(LONG),
        }
    }

    /// Begins `{` or `{"@class":"class",`.
    fn open_object(&mut self, class: Option<&str>) {
        self.to.push(b'{');
        if let Some(class) = class {
            string::write(CLASS, Wide::Raw, self.to);
            self.to.push(b':');
            string::write(class, Wide::Escaped, self.to);
            self.to.push(b',');
        }
    }

    /// Ends an object whose properties have a comma behind them.
    #[inline]
    fn close_object(&mut self) {
        match self.to.last_mut() {
            Some(last) if *last == b',' => *last = b'}',
            _ => self.to.push(b'}'),
        }
    }

    /// The class of a struct, if classes are written.
    fn class_of(&mut self, name: Name) -> Result<Option<&'w str>> {
        let Some(tags) = self.tags else { return Ok(None) };
        let newtype = self.class.take();
        if self.place == Place::Root {
            self.root = Some(name);
        }
        let is_root = self.root == Some(name);
        let known = newtype.or_else(|| is_root.then_some(tags.root.as_str())).or_else(|| tags.of(name).next());
        let missing = || Refusal(format!("the struct {name} has no Java class; add .class({name:?}, …)").into());
        known.ok_or_else(missing).map(Some)
    }

    fn class_of_map(&mut self) -> Option<&'w str> {
        let tags = self.tags?;
        let own = if self.place == Place::Root { &tags.root } else { MAP };
        Some(self.class.take().unwrap_or(own))
    }

    fn list(&mut self) -> List<'_, 'w> {
        let is_tagged = self.tags.is_some() && self.open_list(Some(LIST));
        self.to.push(b'[');
        List { writer: self, is_tagged, is_variant: false }
    }

    #[inline]
    fn object(&mut self, class: Option<&str>, fields: usize, is_variant: bool) -> Object<'_, 'w> {
        self.open_object(class);
        Object { writer: self, fields: Fields::new(fields), is_sorted: true, is_variant }
    }

    /// Begins `{"Variant":`.
    fn open_variant(&mut self, variant: Name) -> Result {
        if self.tags.is_some() {
            return Err(Refusal("a variant with data has no form in Java; use a struct".into()));
        }
        self.to.push(b'{');
        string::write(variant, Wide::Raw, self.to);
        self.to.push(b':');
        Ok(())
    }

    /// Ends what [`open_variant`](Self::open_variant) began.
    fn close_variant(&mut self, is_variant: bool) {
        if is_variant {
            self.to.push(b'}');
        }
    }
}

macro_rules! integers {
    ($($method:ident $int:ty, |$writer:ident, $value:ident| $class:expr;)*) => { $(
        #[inline]
        fn $method(self, $value: $int) -> Result {
            let $writer = &*self;
            let class = $class;
            self.scalar(class, |to| decimal::integer($value, to))
        }
    )* };
}

impl<'a, 'w> Serializer for &'a mut Writer<'w> {
    type Ok = ();
    type Error = Refusal;
    type SerializeSeq = List<'a, 'w>;
    type SerializeTuple = List<'a, 'w>;
    type SerializeTupleStruct = List<'a, 'w>;
    type SerializeTupleVariant = List<'a, 'w>;
    type SerializeMap = Map<'a, 'w>;
    type SerializeStruct = Object<'a, 'w>;
    type SerializeStructVariant = Object<'a, 'w>;

    #[inline]
    fn serialize_bool(self, value: bool) -> Result {
        self.scalar(None, |to| to.extend_from_slice(if value { b"true" } else { b"false" }))
    }

    integers! {
        serialize_i8 i8, |_writer, value| None;
        serialize_i16 i16, |_writer, value| None;
        serialize_i32 i32, |_writer, value| None;
        serialize_i64 i64, |writer, value| writer.wide(true);
        serialize_i128 i128, |writer, value| writer.wide(i64::try_from(value).is_ok());
        serialize_u8 u8, |_writer, value| None;
        serialize_u16 u16, |_writer, value| None;
        serialize_u32 u32, |writer, value| writer.wide(true);
        serialize_u64 u64, |writer, value| writer.wide(i64::try_from(value).is_ok());
        serialize_u128 u128, |writer, value| writer.wide(i64::try_from(value).is_ok());
    }

    fn serialize_f32(self, value: f32) -> Result {
        self.scalar(None, |to| quoted_unless(value.is_finite(), to, |to| decimal::java32(value, to)))
    }

    #[inline]
    fn serialize_f64(self, value: f64) -> Result {
        self.scalar(None, |to| quoted_unless(value.is_finite(), to, |to| decimal::java64(value, to)))
    }

    fn serialize_char(self, value: char) -> Result {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result {
        self.scalar(None, |to| string::write(value, Wide::Escaped, to))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result {
        self.scalar(None, |to| {
            to.push(b'"');
            let _ = write!(to, "{}", Base64Display::new(value, &BASE64_STANDARD)); // A `Vec` accepts all bytes.
            to.push(b'"');
        })
    }

    #[inline]
    fn serialize_none(self) -> Result {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result {
        if self.place == Place::Field {
            self.place = Place::Element;
        }
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit(self) -> Result {
        self.class = None;
        self.to.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: Name) -> Result {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: Name, _: u32, variant: Name) -> Result {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: Name, value: &T) -> Result {
        if let Some(tags) = self.tags {
            self.class = self.class.or_else(|| tags.of(name).next());
        }
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(self, _: Name, _: u32, variant: Name, value: &T) -> Result {
        self.open_variant(variant)?;
        value.serialize(&mut *self)?;
        self.close_variant(true);
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a, 'w>> {
        Ok(self.list())
    }

    fn serialize_tuple(self, _: usize) -> Result<List<'a, 'w>> {
        Ok(self.list())
    }

    fn serialize_tuple_struct(self, name: Name, _: usize) -> Result<List<'a, 'w>> {
        if let Some(tags) = self.tags {
            self.class = self.class.or_else(|| tags.of(name).next());
        }
        Ok(self.list())
    }

    fn serialize_tuple_variant(self, _: Name, _: u32, variant: Name, _: usize) -> Result<List<'a, 'w>> {
        self.open_variant(variant)?;
        Ok(List { is_variant: true, ..self.list() })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Map<'a, 'w>> {
        let class = self.class_of_map();
        self.open_object(class);
        Ok(Map { writer: self, names: String::new(), entries: Vec::new(), is_sorted: true })
    }

    #[inline]
    fn serialize_struct(self, name: Name, fields: usize) -> Result<Object<'a, 'w>> {
        let class = self.class_of(name)?;
        Ok(self.object(class, fields, false))
    }

    fn serialize_struct_variant(self, _: Name, _: u32, variant: Name, fields: usize) -> Result<Object<'a, 'w>> {
        self.open_variant(variant)?;
        Ok(self.object(None, fields, true))
    }
}

fn quoted_unless(is_bare: bool, to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if is_bare {
        return write(to);
    }
    to.push(b'"');
    write(to);
    to.push(b'"');
}

/// A list that is being written.
struct List<'a, 'w> {
    writer: &'a mut Writer<'w>,
    is_tagged: bool,
    is_variant: bool,
}

impl List<'_, '_> {
    /// Writes an element with a comma behind it.
    #[inline]
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        self.writer.place = Place::Element;
        value.serialize(&mut *self.writer)?;
        self.writer.to.push(b',');
        Ok(())
    }

    fn close(self) -> Result {
        match self.writer.to.last_mut() {
            Some(last) if *last == b',' => *last = b']',
            _ => self.writer.to.push(b']'),
        }
        self.writer.close_list(self.is_tagged);
        self.writer.close_variant(self.is_variant);
        Ok(())
    }
}

macro_rules! lists {
    ($($part:ident $method:ident),*) => { $(
        impl ser::$part for List<'_, '_> {
            type Ok = ();
            type Error = Refusal;

            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
                self.push(value)
            }

            fn end(self) -> Result {
                self.close()
            }
        }
    )* };
}

lists!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

/// A struct that is being written.
struct Object<'a, 'w> {
    writer: &'a mut Writer<'w>,
    /// In the order of Java.
    fields: Fields,
    is_sorted: bool,
    is_variant: bool,
}

impl Object<'_, '_> {
    #[inline]
    fn push<T: Serialize + ?Sized>(&mut self, name: Name, value: &T) -> Result {
        let start = self.writer.to.len();
        string::write_name(name, self.writer.to);
        self.writer.place = Place::Field;
        let from = self.writer.to.len();
        value.serialize(&mut *self.writer)?;
        self.end_field(name, start, from);
        Ok(())
    }

    /// Ends a field whose name and whose value begin at these places.
    fn end_field(&mut self, name: Name, start: usize, from: usize) {
        let to = &mut *self.writer.to;
        if end_property(to, start, from) {
            let fields = self.fields.all();
            let is_earlier = |field: &Property<Name>| object::order(field.name, name).is_le();
            let place = fields.iter().rposition(is_earlier).map_or(0, |at| at + 1);
            self.is_sorted &= place == fields.len();
            self.fields.insert(place, Property { name, start, end: to.len() });
        }
    }

    fn close(self) -> Result {
        if !self.is_sorted {
            object::arrange(self.fields.all(), self.writer.to);
        }
        self.writer.close_object();
        self.writer.close_variant(self.is_variant);
        Ok(())
    }
}

/// The fields of a struct, without an allocation if there are few.
struct Fields {
    few: [Property<Name>; FEW],
    count: usize,
    many: Vec<Property<Name>>,
}

impl Fields {
    #[inline]
    fn new(fields: usize) -> Self {
        let many = if fields > FEW { Vec::with_capacity(fields.min(MOST)) } else { Vec::new() };
        Self { few: [Property { name: "", start: 0, end: 0 }; FEW], count: 0, many }
    }

    fn all(&self) -> &[Property<Name>] {
        if self.many.capacity() > 0 { &self.many } else { &self.few[..self.count] }
    }

    fn insert(&mut self, place: usize, field: Property<Name>) {
        if self.many.capacity() == 0 && self.count < FEW {
            if place < self.count {
                self.few.copy_within(place..self.count, place + 1);
            }
            self.few[place] = field;
            self.count += 1;
            return;
        }
        if self.many.is_empty() {
            self.many.extend_from_slice(&self.few[..self.count]);
        }
        self.many.insert(place, field);
    }
}

/// Writes the comma behind a property. A null is removed, with its name: then the result is false.
#[inline]
fn end_property(to: &mut Vec<u8>, start: usize, from: usize) -> bool {
    if &to[from..] == b"null" {
        to.truncate(start);
        return false;
    }
    to.push(b',');
    true
}

macro_rules! objects {
    ($($part:ident),*) => { $(
        impl ser::$part for Object<'_, '_> {
            type Ok = ();
            type Error = Refusal;

            #[inline]
            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: Name, value: &T) -> Result {
                self.push(name, value)
            }

            fn end(self) -> Result {
                self.close()
            }
        }
    )* };
}

objects!(SerializeStruct, SerializeStructVariant);

/// A map that is being written.
struct Map<'a, 'w> {
    writer: &'a mut Writer<'w>,
    /// The names of all entries, one behind the other. The last one may have no value yet.
    names: String,
    entries: Vec<Property<Range<usize>>>,
    is_sorted: bool,
}

impl ser::SerializeMap for Map<'_, '_> {
    type Ok = ();
    type Error = Refusal;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result {
        key.serialize(key::Writer(&mut self.names))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        let from = self.entries.last().map_or(0, |last| last.name.end);
        let (start, name) = (self.writer.to.len(), from..self.names.len());
        string::write(&self.names[name.clone()], Wide::Escaped, self.writer.to);
        self.writer.to.push(b':');
        self.writer.place = Place::Element;
        let value_at = self.writer.to.len();
        value.serialize(&mut *self.writer)?;
        if !end_property(self.writer.to, start, value_at) {
            self.names.truncate(from);
            return Ok(());
        }
        let is_later = |last: &Property<Range<usize>>| {
            object::order(&self.names[last.name.clone()], &self.names[name.clone()]).is_le()
        };
        self.is_sorted &= self.entries.last().is_none_or(is_later);
        self.entries.push(Property { name, start, end: self.writer.to.len() });
        Ok(())
    }

    fn end(mut self) -> Result {
        if !self.is_sorted {
            let name = |name: &Range<usize>| &self.names[name.clone()];
            self.entries.sort_by(|a, b| object::order(name(&a.name), name(&b.name)));
            object::arrange(&self.entries, self.writer.to);
        }
        self.writer.close_object();
        Ok(())
    }
}
