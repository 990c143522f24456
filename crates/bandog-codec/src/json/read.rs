//! Reads values of serde from JSON.
//!
//! A reader of our own, because a class around a value, `@class` anywhere in an object, base64 and numbers in quotes depend
//! on the wanted type; and because a float is rounded correctly, and an error contains no value.

use std::{any::type_name, mem};

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::{
    bytes,
    fault::{Fault, Parts},
    key, string,
    tags::{CLASS, Tags},
};
use crate::{Corrupt, error};

type Result<T = (), E = Fault> = std::result::Result<T, E>;
type Name = &'static str;

/// Maximum number of lists and objects that contain each other.
const DEEPEST: u8 = 128;

/// The expectation of an error about bytes that are no JSON.
const JSON: &str = "JSON";

/// The value of these bytes.
pub(super) fn value<T: DeserializeOwned>(bytes: &[u8], tags: Option<&Tags>, codec: &'static str) -> Result<T, Corrupt> {
    let text = str::from_utf8(bytes).map_err(|error| {
        Corrupt::new(codec, JSON).at(error.valid_up_to()).advise("the writer may use another codec")
    })?;
    let mut reader = Reader { text, at: 0, unescaped: String::new(), depth: 0, tags, is_root: true, root: None };
    let value = T::deserialize(&mut reader).and_then(|value| {
        reader.end()?;
        Ok(value)
    });
    value.map_err(|Fault(parts)| {
        let Parts { expected, found, class, at } = *parts;
        let part = if expected == type_name::<T>() { String::new() } else { format!(" in {}", type_name::<T>()) };
        let corrupt = Corrupt::new(codec, format!("{expected}{part}")).at(at.unwrap_or(reader.at));
        match (class, found) {
            (Some(class), _) => corrupt.of_class(class).advise("if the type can read this class, add it by .class(…)"),
            (None, Some(found)) => corrupt.found(found),
            (None, None) if expected == JSON => corrupt.advise("the writer may use another codec"),
            (None, None) => corrupt,
        }
    })
}

struct Reader<'de, 't> {
    text: &'de str,
    /// The offset of the next byte.
    at: usize,
    /// The last text that had escapes.
    unescaped: String,
    depth: u8,
    tags: Option<&'t Tags>,
    /// Whether no object was read yet.
    is_root: bool,
    /// The name of the outermost struct.
    root: Option<Name>,
}

/// A number of JSON.
enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

impl<'de> Reader<'de, '_> {
    /// The next byte that is not a space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    #[inline]
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Skips this byte, if it is the next one that is not a space.
    #[inline]
    fn skip(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    #[inline]
    fn expect(&mut self, byte: u8, expected: &'static str) -> Result {
        if self.skip(byte) { Ok(()) } else { Err(self.fault(expected)) }
    }

    fn fault(&self, expected: &'static str) -> Fault {
        let mut fault = Fault::new(expected);
        fault.0.at = Some(self.at);
        if self.at >= self.text.len() {
            fault.0.found = Some("the end");
        }
        fault
    }

    fn end(&mut self) -> Result {
        if self.peek().is_none() { Ok(()) } else { Err(self.fault("nothing behind the value")) }
    }

    /// Reads `null`, `true` or `false`.
    fn word(&mut self, word: &'static str) -> Result {
        let is_next = self.text[self.at..].starts_with(word);
        if !is_next {
            return Err(self.fault(JSON));
        }
        self.at += word.len();
        Ok(())
    }

    /// Reads a list or an object, if it is not too deep.
    #[inline]
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEEPEST {
            return Err(self.fault("at most 128 lists and objects in each other"));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// The text of the number that begins here, and whether it is an integer.
    fn number_text(&mut self) -> Result<(&'de str, bool)> {
        let start = self.at;
        let mut at = start + usize::from(self.byte(start) == Some(b'-'));
        let digits = |at: usize| at + self.text.as_bytes()[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let whole = digits(at);
        if whole == at || (self.byte(at) == Some(b'0') && whole > at + 1) {
            return Err(self.fault(JSON));
        }
        at = whole;
        if self.byte(at) == Some(b'.') {
            let fraction = digits(at + 1);
            if fraction == at + 1 {
                return Err(self.fault(JSON));
            }
            at = fraction;
        }
        if matches!(self.byte(at), Some(b'e' | b'E')) {
            let first = at + 1 + usize::from(matches!(self.byte(at + 1), Some(b'+' | b'-')));
            let exponent = digits(first);
            if exponent == first {
                return Err(self.fault(JSON));
            }
            at = exponent;
        }
        self.at = at;
        Ok((&self.text[start..at], at == whole))
    }

    fn number(&mut self) -> Result<Number> {
        let (text, is_integer) = self.number_text()?;
        // A negative zero is a float, because no integer has its sign.
        if is_integer && text != "-0" {
            if let Ok(value) = text.parse() {
                return Ok(Number::Unsigned(value));
            }
            if let Ok(value) = text.parse() {
                return Ok(Number::Signed(value));
            }
        }
        self.float(text).map(Number::Float)
    }

    fn float(&self, text: &str) -> Result<f64> {
        let value = text.parse().ok().filter(|value: &f64| value.is_finite());
        value.ok_or_else(|| self.fault("a number that is not too great for a double"))
    }

    fn visit_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        match self.number()? {
            Number::Unsigned(value) => visitor.visit_u64(value),
            Number::Signed(value) => visitor.visit_i64(value),
            Number::Float(value) => visitor.visit_f64(value),
        }
    }

    /// Reads the text that begins here.
    #[inline]
    fn string(&mut self) -> Result<key::Reader<'de, '_>> {
        self.expect(b'"', "text")?;
        let start = self.at;
        self.at = self.plain();
        if self.byte(self.at) == Some(b'"') {
            self.at += 1;
            return Ok(key::Reader::Input(&self.text[start..self.at - 1]));
        }
        self.unescaped.clear();
        self.unescaped.push_str(&self.text[start..self.at]);
        loop {
            match self.byte(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    let c = self.escape()?;
                    self.unescaped.push(c);
                }
                _ => return Err(self.fault("the end of a text")),
            }
            let from = self.at;
            self.at = self.plain();
            self.unescaped.push_str(&self.text[from..self.at]);
        }
        self.at += 1;
        Ok(key::Reader::Unescaped(&self.unescaped))
    }

    /// The offset of the next byte that is a quote, a backslash or a control character.
    #[inline]
    fn plain(&self) -> usize {
        self.at + string::plain::<false>(&self.text.as_bytes()[self.at..])
    }

    /// Reads an escape.
    fn escape(&mut self) -> Result<char> {
        let letter = self.byte(self.at + 1);
        let c = match letter {
            Some(b'u') => return self.unicode_escape(),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(c @ (b'"' | b'\\' | b'/')) => c.into(),
            _ => return Err(self.fault("an escape of JSON")),
        };
        self.at += 2;
        Ok(c)
    }

    fn unicode_escape(&mut self) -> Result<char> {
        let unit = self.unit().ok_or_else(|| self.fault("an escape of JSON"))?;
        let is_high = (0xd800..0xdc00).contains(&unit);
        let low = if is_high { self.unit() } else { None };
        let c = char::decode_utf16([unit].into_iter().chain(low)).next().and_then(Result::ok);
        c.ok_or_else(|| self.fault("both halves of a surrogate pair"))
    }

    /// Reads `\uD83D`, if it is next.
    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.as_bytes().get(self.at..self.at + 6)?.strip_prefix(b"\\u")?;
        let unit = digits.iter().try_fold(0, |unit, digit| {
            let value = char::from(*digit).to_digit(16)?;
            Some(unit << 4 | u16::try_from(value).ok()?)
        })?;
        self.at += 6;
        Some(unit)
    }

    /// Reads a value of any type and drops it.
    fn ignore(&mut self) -> Result {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'[') => self.nested(|reader| {
                reader.at += 1;
                let mut is_first = true;
                while reader.has_next(b']', &mut is_first)? {
                    reader.ignore()?;
                }
                Ok(())
            }),
            Some(b'{') => self.nested(|reader| {
                reader.at += 1;
                let mut is_first = true;
                while reader.has_next(b'}', &mut is_first)? {
                    reader.string()?;
                    reader.expect(b':', "a colon")?;
                    reader.ignore()?;
                }
                Ok(())
            }),
            Some(b'n') => self.word("null"),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'-' | b'0'..=b'9') => self.number_text().map(drop),
            _ => Err(self.fault(JSON)),
        }
    }

    /// Reads what is between the elements of a list or an object. Returns false behind its end.
    #[inline]
    fn has_next(&mut self, end: u8, is_first: &mut bool) -> Result<bool> {
        let is_first = mem::take(is_first);
        if self.skip(end) {
            return Ok(false);
        }
        if !is_first {
            self.expect(b',', "a comma or the end")?;
        }
        Ok(true)
    }

    /// The first byte of a value that has a class around it, such as the 5 of `["java.lang.Long",5]`.
    fn wrapped(&mut self) -> Option<u8> {
        let spaces = [' ', '\n', '\t', '\r'];
        self.tags?;
        self.peek()?;
        let list = self.text[self.at..].strip_prefix('[')?.trim_start_matches(spaces);
        let (class, rest) = list.strip_prefix('"')?.split_once('"')?;
        let value = rest.trim_start_matches(spaces).strip_prefix(',')?.trim_start_matches(spaces);
        value.bytes().next().filter(|_| error::is_class(class))
    }

    /// Reads a value inside of its class, which is not checked.
    fn unwrap<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.at += 1;
        self.string()?;
        self.expect(b',', "a comma behind a class")?;
        self.peek();
        let value = read(self)?;
        self.expect(b']', "the end of a value with a class")?;
        Ok(value)
    }

    /// Reads a value that is no list, and that may have a class around it.
    #[inline]
    fn single<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let is_list = self.peek() == Some(b'[');
        if is_list && self.tags.is_some() { self.unwrap(read) } else { read(self) }
    }

    fn any<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        match self.peek() {
            Some(b'"') => self.string()?.visit(visitor),
            Some(b'-' | b'0'..=b'9') => self.visit_number(visitor),
            Some(b'{') => self.object(visitor, None),
            Some(b'[') => self.list(visitor),
            Some(b'n') => {
                self.word("null")?;
                visitor.visit_unit()
            }
            Some(b't') => {
                self.word("true")?;
                visitor.visit_bool(true)
            }
            Some(b'f') => {
                self.word("false")?;
                visitor.visit_bool(false)
            }
            _ => Err(self.fault(JSON)),
        }
    }

    fn list<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        self.is_root = false;
        self.nested(|reader| {
            reader.at += 1;
            let mut elements = Elements { reader, is_first: true, is_over: false };
            let value = visitor.visit_seq(&mut elements)?;
            match elements.is_over || !elements.reader.has_next(b']', &mut elements.is_first)? {
                true => Ok(value),
                false => Err(elements.reader.fault("the end of a list")),
            }
        })
    }

    /// Reads an object, which is a map or the struct with this name.
    fn object<V: Visitor<'de>>(&mut self, visitor: V, name: Option<Name>) -> Result<V::Value> {
        if mem::take(&mut self.is_root) {
            self.root = name;
        }
        self.nested(|reader| {
            reader.at += 1;
            let mut properties = Properties { reader, name, is_first: true, is_over: false };
            let value = visitor.visit_map(&mut properties)?;
            match properties.is_over || !properties.reader.has_next(b'}', &mut properties.is_first)? {
                true => Ok(value),
                false => Err(properties.reader.fault("the end of an object")),
            }
        })
    }
}

/// Methods for types that any value may be offered to, because the type's own error says what it expects.
macro_rules! single {
    ($($method:ident($($name:ident: $type:ty),*))*) => { $(
        fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value> {
            self.single(|reader| reader.any(visitor))
        }
    )* };
}

/// Methods for floats, which are in quotes if they are not finite.
macro_rules! floats {
    ($($method:ident $visit:ident $float:ty;)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            self.single(|reader| match reader.peek() {
                Some(b'"') => {
                    let text = reader.string()?;
                    match text.text() {
                        "NaN" => visitor.$visit(<$float>::NAN),
                        "Infinity" | "INF" => visitor.$visit(<$float>::INFINITY),
                        "-Infinity" | "-INF" => visitor.$visit(<$float>::NEG_INFINITY),
                        _ => text.visit(visitor),
                    }
                }
                Some(b'-' | b'0'..=b'9') => {
                    let (text, _) = reader.number_text()?;
                    match text.parse::<$float>().ok().filter(|value| value.is_finite()) {
                        Some(value) => visitor.$visit(value),
                        None => Err(reader.fault(concat!("a number that is not too great for ", stringify!($float)))),
                    }
                }
                _ => reader.any(visitor),
            })
        }
    )* };
}

/// Methods for integers that may not fit in 64 bits.
macro_rules! wide {
    ($($method:ident $visit:ident $int:ty;)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            self.single(|reader| {
                let start = reader.at;
                if matches!(reader.peek(), Some(b'-' | b'0'..=b'9')) {
                    let (text, is_integer) = reader.number_text()?;
                    if let (true, Ok(value)) = (is_integer, text.parse()) {
                        return visitor.$visit(value);
                    }
                }
                reader.at = start;
                reader.any(visitor)
            })
        }
    )* };
}

impl<'de> Deserializer<'de> for &mut Reader<'de, '_> {
    type Error = Fault;

    single! {
        deserialize_bool()
        deserialize_i8()
        deserialize_i16()
        deserialize_i32()
        deserialize_i64()
        deserialize_u8()
        deserialize_u16()
        deserialize_u32()
        deserialize_u64()
        deserialize_char()
        deserialize_str()
        deserialize_string()
        deserialize_unit()
        deserialize_unit_struct(_name: Name)
        deserialize_identifier()
        deserialize_map()
    }

    floats! {
        deserialize_f32 visit_f32 f32;
        deserialize_f64 visit_f64 f64;
    }

    wide! {
        deserialize_i128 visit_i128 i128;
        deserialize_u128 visit_u128 u128;
    }

    /// Of a list it is not known whether it begins with a class or with a text, unless the second element is no text: Java
    /// writes a list with elements of different types in its class.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.wrapped() {
            Some(first) if first != b'"' => self.unwrap(|reader| reader.any(visitor)),
            _ => self.any(visitor),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_byte_buf(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.peek() != Some(b'"') {
            return self.deserialize_seq(visitor);
        }
        match bytes::read(self.string()?.text()) {
            Some(bytes) => visitor.visit_byte_buf(bytes),
            None => Err(self.fault("base64")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.peek() != Some(b'n') {
            return visitor.visit_some(self);
        }
        self.word("null")?;
        visitor.visit_none()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: Name, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.wrapped() {
            Some(b'[') => self.unwrap(|reader| reader.any(visitor)),
            _ => self.any(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: Name, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(self, name: Name, _: &'static [Name], visitor: V) -> Result<V::Value> {
        self.single(|reader| match reader.peek() {
            Some(b'{') => reader.object(visitor, Some(name)),
            _ => reader.any(visitor),
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: Name, _: &'static [Name], visitor: V) -> Result<V::Value> {
        self.single(|reader| match reader.peek() {
            Some(b'{') => reader.nested(|reader| {
                reader.at += 1;
                let value = visitor.visit_enum(&mut *reader)?;
                reader.expect(b'}', "the end of a variant")?;
                Ok(value)
            }),
            Some(b'"') => reader.string()?.deserialize_enum("", &[], visitor),
            _ => Err(reader.fault("a variant")),
        })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.ignore()?;
        visitor.visit_unit()
    }
}

/// A variant with data: its name, a colon, the data.
impl<'de> EnumAccess<'de> for &mut Reader<'de, '_> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        let name = seed.deserialize(self.string()?)?;
        self.expect(b':', "a colon")?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for &mut Reader<'de, '_> {
    type Error = Fault;

    fn unit_variant(self) -> Result {
        self.peek();
        self.word("null")
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [Name], visitor: V) -> Result<V::Value> {
        self.deserialize_map(visitor)
    }
}

/// The elements of a list.
struct Elements<'r, 'de, 't> {
    reader: &'r mut Reader<'de, 't>,
    is_first: bool,
    is_over: bool,
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de, '_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        self.is_over = self.is_over || !self.reader.has_next(b']', &mut self.is_first)?;
        if self.is_over { Ok(None) } else { seed.deserialize(&mut *self.reader).map(Some) }
    }
}

/// The properties of an object.
struct Properties<'r, 'de, 't> {
    reader: &'r mut Reader<'de, 't>,
    /// The name of the struct.
    name: Option<Name>,
    is_first: bool,
    is_over: bool,
}

impl Properties<'_, '_, '_> {
    /// Reads the class of the object, which must be one of the struct.
    fn class(&mut self, tags: &Tags) -> Result {
        self.reader.expect(b':', "a colon")?;
        let root = self.reader.root;
        let class = self.reader.string()?;
        let Some(name) = self.name.filter(|name| !tags.accept(name, root == Some(name), class.text())) else {
            return Ok(());
        };
        let mut fault = Fault::new(format!("a class of {name}"));
        fault.0.class = Some(class.text().to_owned()).filter(|class| error::is_class(class));
        Err(fault)
    }
}

impl<'de> MapAccess<'de> for Properties<'_, 'de, '_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        loop {
            self.is_over = self.is_over || !self.reader.has_next(b'}', &mut self.is_first)?;
            if self.is_over {
                return Ok(None);
            }
            let tags = self.reader.tags;
            let name = self.reader.string()?;
            let Some(tags) = tags.filter(|_| name.text() == CLASS) else { return seed.deserialize(name).map(Some) };
            self.class(tags)?;
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        self.reader.expect(b':', "a colon")?;
        seed.deserialize(&mut *self.reader)
    }
}
