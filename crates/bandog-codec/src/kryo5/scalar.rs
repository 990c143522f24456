//! The bytes of each type: an id, and what is behind it.

use super::{string, varint};
use crate::{Corrupt, error};

/// The name of the codec in errors.
pub(super) const NAME: &str = "Kryo5";
/// The id of null.
pub(super) const NULL: u8 = 0;
/// The id in front of a class that has no id of its own.
const NAMED: u8 = 1;

/// A type with an id of its own.
pub(super) trait Scalar: Sized {
    /// The first byte: the number of the class in Kryo, plus 2.
    const ID: u8;
    /// The type in errors.
    const TYPE: &'static str;

    /// Appends the bytes behind the id.
    fn write(&self, to: &mut Vec<u8>);
    /// Reads all bytes behind the id. `None` if Kryo does not write such bytes.
    fn read(bytes: &[u8]) -> Option<Self>;
}

macro_rules! scalars {
    ($($scalar:ty: $id:literal, $name:literal, |$value:ident, $to:ident| $write:expr, |$body:ident| $read:expr;)*) => { $(
        impl Scalar for $scalar {
            const ID: u8 = $id;
            const TYPE: &'static str = $name;

            fn write(&self, $to: &mut Vec<u8>) {
                let $value = *self;
                $write
            }

            fn read($body: &[u8]) -> Option<Self> {
                $read
            }
        }
    )* };
}

scalars! {
    i32: 0x02, "an Integer (i32)",
        |value, to| varint::write(u64::from((value << 1 ^ value >> 31).cast_unsigned()), to),
        |body| {
            let zigzag = u32::try_from(varint::read(body)?).ok()?;
            Some((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
        };
    f32: 0x04, "a Float (f32)",
        |value, to| to.extend(if value.is_nan() { f32::NAN } else { value }.to_le_bytes()),
        |body| body.try_into().ok().map(f32::from_le_bytes);
    bool: 0x05, "a Boolean (bool)",
        |value, to| to.push(value.into()),
        |body| match body {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        };
    i8: 0x06, "a Byte (i8)",
        |value, to| to.extend(value.to_le_bytes()),
        |body| body.try_into().ok().map(i8::from_le_bytes);
    i16: 0x08, "a Short (i16)",
        |value, to| to.extend(value.to_le_bytes()),
        |body| body.try_into().ok().map(i16::from_le_bytes);
    i64: 0x09, "a Long (i64)",
        |value, to| varint::write((value << 1 ^ value >> 63).cast_unsigned(), to),
        |body| {
            let zigzag = varint::read(body)?;
            Some((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
        };
    f64: 0x0a, "a Double (f64)",
        |value, to| to.extend(if value.is_nan() { f64::NAN } else { value }.to_le_bytes()),
        |body| body.try_into().ok().map(f64::from_le_bytes);
}

/// A `char` of Java: a unit of UTF-16.
pub(super) struct Unit(pub(super) u16);

impl Scalar for Unit {
    const ID: u8 = 0x07;
    const TYPE: &'static str = "a Character (char)";

    fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.0.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(u16::from_le_bytes).map(Self)
    }
}

/// A text that is read: `None` is the null that Kryo can write behind the id of a String.
pub(super) struct Text(pub(super) Option<String>);

impl Scalar for Text {
    const ID: u8 = 0x03;
    const TYPE: &'static str = "a String";

    fn write(&self, to: &mut Vec<u8>) {
        string::write(self.0.as_deref(), to);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        string::read(bytes).map(Self)
    }
}

/// The type of errors when any scalar is expected.
pub(super) struct Any;

impl Scalar for Any {
    const ID: u8 = NULL;
    const TYPE: &'static str = "a scalar";

    fn write(&self, _: &mut Vec<u8>) {}

    fn read(_: &[u8]) -> Option<Self> {
        None
    }
}

pub(super) fn write<T: Scalar>(value: &T, to: &mut Vec<u8>) {
    to.push(T::ID);
    value.write(to);
}

pub(super) fn read<T: Scalar>(bytes: &[u8]) -> Result<T, Corrupt> {
    match bytes.split_first() {
        Some((id, body)) if *id == T::ID => {
            let damaged = || Corrupt::new(NAME, T::TYPE).found("one that is damaged").at(1);
            T::read(body).ok_or_else(damaged)
        }
        _ => Err(other::<T>(bytes)),
    }
}

/// The error for bytes with the id of another type.
pub(super) fn other<T: Scalar>(bytes: &[u8]) -> Corrupt {
    let corrupt = Corrupt::new(NAME, T::TYPE);
    match bytes {
        [] => corrupt.found("no bytes"),
        [NULL, ..] => corrupt.found("null").advise("read it as an Option"),
        [NAMED, rest @ ..] => foreign(corrupt, rest),
        [id, ..] => match type_of(*id) {
            Some(kind) => corrupt.found(kind),
            None => corrupt.found("other bytes").advise("the writer may use another codec"),
        },
    }
}

/// The error for a value whose class is named: the number 0 of the name, the name, and then the object.
fn foreign(corrupt: Corrupt, rest: &[u8]) -> Corrupt {
    let name = rest.strip_prefix(&[0]).and_then(string::read_first).filter(|name| error::is_class(name));
    match name {
        Some(class) => corrupt
            .of_class(class)
            .advise("Kryo5 reads scalars only, so Java must write such objects with a JSON codec"),
        None => corrupt.found("other bytes").advise("the writer may use another codec"),
    }
}

/// The type with this id, in the words of errors.
fn type_of(id: u8) -> Option<&'static str> {
    let types = [
        (i32::ID, i32::TYPE),
        (Text::ID, Text::TYPE),
        (f32::ID, f32::TYPE),
        (bool::ID, bool::TYPE),
        (i8::ID, i8::TYPE),
        (Unit::ID, Unit::TYPE),
        (i16::ID, i16::TYPE),
        (i64::ID, i64::TYPE),
        (f64::ID, f64::TYPE),
    ];
    types.into_iter().find_map(|(known, name)| (known == id).then_some(name))
}
