//! Operations on maps.

use super::terms::Bytes;

/// Operations on a map.
#[derive(Debug, Clone, PartialEq)]
pub enum MapOp {
    /// Answer: the value of each field, in the order of the fields.
    Get(Vec<Bytes>),
    /// Writes fields and their values. Answer: nothing.
    Put(Vec<(Bytes, Bytes)>),
    /// Writes a field. Answer: its former value.
    Insert(Bytes, Bytes),
    /// Writes a field that does not exist. Answer: whether it was written.
    InsertNew(Bytes, Bytes),
    /// Removes fields. Answer: the number of those that existed.
    Remove(Vec<Bytes>),
    /// Removes a field. Answer: its value.
    Take(Bytes),
    /// Writes or removes (`to: None`) a field if its value has these bytes, or does not exist (`from: None`). Answer:
    /// whether it was.
    Swap {
        /// The field.
        field: Bytes,
        /// The expected value.
        from: Option<Bytes>,
        /// The new value.
        to: Option<Bytes>,
    },
    /// Adds to a value, which must be the text of an integer of 64 bits. A field that does not exist is 0. Answer: the sum.
    Add(Bytes, i64),
    /// Adds to a value, which must be the text of a number. A field that does not exist is 0. Answer: the sum.
    AddFloat(Bytes, f64),
    /// Answer: the number of fields.
    Len,
}

impl MapOp {
    /// The fields that the operation may write or remove.
    pub fn written(&self) -> impl Iterator<Item = &Bytes> {
        let (several, entries, one): (&[Bytes], &[(Bytes, Bytes)], _) = match self {
            Self::Get(_) | Self::Len => (&[], &[], None),
            Self::Put(entries) => (&[], entries, None),
            Self::Remove(fields) => (fields, &[], None),
            Self::Insert(field, _)
            | Self::InsertNew(field, _)
            | Self::Take(field)
            | Self::Swap { field, .. }
            | Self::Add(field, _)
            | Self::AddFloat(field, _) => (&[], &[], Some(field)),
        };
        several.iter().chain(entries.iter().map(|(field, _)| field)).chain(one)
    }
}
