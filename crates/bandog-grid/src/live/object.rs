//! The contract of live objects, which `#[derive(bandog::Live)]` fulfils.

use bandog_codec::Codec;
use bandog_core::{Result, structures::Bytes};

use super::{
    at::LiveAt,
    class::LiveClass,
    coder::{FieldReader, FieldWriter, WrittenField, WrittenId},
};

/// A struct whose values are live objects. `#[derive(bandog::Live)]` implements it.
pub trait Live: Sized + Send + Sync + 'static {
    /// The type of the id.
    type Id: Clone + Send + Sync + 'static;
    /// The fields of one object in the store: a type with a method for each field.
    type At<C: Codec>: From<LiveAt<C>>;
    /// The class.
    const CLASS: LiveClass;

    /// The id.
    fn id(&self) -> &Self::Id;
}

/// A live object that a codec can write and read. `#[derive(bandog::Live)]` implements it for each codec that can write and
/// read each field.
pub trait LiveAs<C: Codec>: Live {
    /// Writes the name of a field.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the codec cannot write it.
    fn write_name(name: &str, to: &mut FieldWriter<'_, C>) -> Result<Bytes>;

    /// Writes the mark that each object has.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the codec cannot write it.
    fn write_mark(text: &str, to: &mut FieldWriter<'_, C>) -> Result<Bytes>;

    /// Writes the id.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the codec cannot write it.
    fn write_id(id: &Self::Id, to: &mut FieldWriter<'_, C>) -> Result<WrittenId>;

    /// Reads an id in an index.
    ///
    /// # Errors
    /// `ErrorKind::Corrupt`: the codec cannot read it.
    fn read_member(bytes: &[u8], from: &FieldReader<'_, C>) -> Result<Self::Id>;

    /// Reads an id in the name of an object.
    ///
    /// # Errors
    /// `ErrorKind::Corrupt`: the codec cannot read it.
    fn read_id(bytes: &[u8], from: &FieldReader<'_, C>) -> Result<Self::Id>;

    /// Writes the fields, in the order of the class.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the codec cannot write one.
    fn write(&self, to: &mut FieldWriter<'_, C>) -> Result<Vec<WrittenField>>;

    /// Reads the fields, in the order of the class.
    ///
    /// # Errors
    /// `ErrorKind::Corrupt`: a field is absent, or the codec cannot read it.
    fn read(id: Self::Id, from: &mut FieldReader<'_, C>) -> Result<Self>;
}
