//! Writes and reads the fields of live objects with a codec. The code that `#[derive(bandog::Live)]` makes calls it.

use bandog_codec::{Codec, Decode, Encode};
use bandog_core::{Error, ErrorKind, Result, structures::Bytes};

use super::number::LiveNumber;
use crate::{call::Writer, object::decode};

/// Writes the fields of an object.
#[derive(Debug)]
pub struct FieldWriter<'a, C> {
    codec: &'a C,
    writer: &'a mut Writer,
}

/// A written field: its bytes, and its number in an index. Both are `None` if the field is absent.
#[derive(Debug, Clone, Default)]
pub struct WrittenField {
    pub(crate) bytes: Option<Bytes>,
    pub(crate) number: Option<f64>,
}

/// A written id: in the name of the object, and in indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenId {
    pub(crate) in_name: Bytes,
    pub(crate) member: Bytes,
}

impl<'a, C: Codec> FieldWriter<'a, C> {
    pub(crate) fn new(codec: &'a C, writer: &'a mut Writer) -> Self {
        Self { codec, writer }
    }

    /// The name of a field.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the codec cannot write it.
    pub fn name(&mut self, name: &str) -> Result<Bytes>
    where
        C::Keys: Encode<str>,
    {
        self.writer.write(&self.codec.keys(), name)
    }

    /// The id of an object.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the codec cannot write it.
    pub fn id<I>(&mut self, id: &I) -> Result<WrittenId>
    where
        C: Encode<I>,
        C::Keys: Encode<I>,
    {
        let in_name = self.writer.write(&self.codec.keys(), id)?;
        Ok(WrittenId { in_name, member: self.writer.write(self.codec, id)? })
    }

    /// A text that every object has as a mark.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the codec cannot write it.
    pub fn mark(&mut self, text: &str) -> Result<Bytes>
    where
        C: Encode<str>,
    {
        self.writer.write(self.codec, text)
    }

    /// A field that is no number.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the codec cannot write it.
    pub fn value<V>(&mut self, value: Option<&V>) -> Result<WrittenField>
    where
        C: Encode<V>,
    {
        let bytes = value.map(|value| self.writer.write(self.codec, value)).transpose()?;
        Ok(WrittenField { bytes, number: None })
    }

    /// A field that is a number.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the codec cannot write it.
    pub fn number<V: LiveNumber>(&mut self, value: Option<&V>) -> Result<WrittenField>
    where
        C: Encode<V>,
    {
        Ok(WrittenField { number: value.map(V::number), ..self.value(value)? })
    }
}

/// Reads the fields of an object.
#[derive(Debug)]
pub struct FieldReader<'a, C> {
    codec: &'a C,
    fields: std::vec::IntoIter<Option<Bytes>>,
}

impl<'a, C: Codec> FieldReader<'a, C> {
    pub(crate) fn new(codec: &'a C, fields: Vec<Option<Bytes>>) -> Self {
        Self { codec, fields: fields.into_iter() }
    }

    /// The next field, which may be absent.
    ///
    /// # Errors
    /// `ErrorKind::Corrupt`: the codec cannot read it.
    pub fn optional<V>(&mut self) -> Result<Option<V>>
    where
        C: Decode<V>,
    {
        self.fields.next().flatten().map(|bytes| decode(self.codec, &bytes)).transpose()
    }

    /// The next field.
    ///
    /// # Errors
    /// `ErrorKind::Corrupt`: the field is absent, or the codec cannot read it.
    pub fn required<V>(&mut self, name: &str) -> Result<V>
    where
        C: Decode<V>,
    {
        let absent = || Error::new(ErrorKind::Corrupt, format!("the live object has no field {name}"));
        self.optional()?.ok_or_else(absent)
    }

    /// An id in an index.
    ///
    /// # Errors
    /// `ErrorKind::Corrupt`: the codec cannot read it.
    pub fn member<I>(&self, bytes: &[u8]) -> Result<I>
    where
        C: Decode<I>,
    {
        decode(self.codec, bytes)
    }

    /// An id in the name of an object.
    ///
    /// # Errors
    /// `ErrorKind::Corrupt`: the codec cannot read it.
    pub fn id<I>(&self, bytes: &[u8]) -> Result<I>
    where
        C::Keys: Decode<I>,
    {
        decode(&self.codec.keys(), bytes)
    }
}
