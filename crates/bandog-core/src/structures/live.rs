//! Operations on live objects: maps whose fields have indexes.

use super::terms::Bytes;
use crate::Key;

/// An operation on a live object, which is a map. The map and its indexes change together.
///
/// An index of numbers is a sorted set: its members are objects, and the scores are the numbers. An index of values is a
/// multimap of sets: its keys are the bytes of the field, and its values are objects.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveOp {
    /// The object in its indexes.
    pub member: Bytes,
    /// The change.
    pub change: LiveChange,
    /// The indexes of the fields that may change. Those of all fields for a deletion.
    pub indexes: Vec<LiveIndex>,
}

/// A change of a live object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveChange {
    /// Writes an object that does not exist. Answer: whether it was written.
    Insert(Vec<(Bytes, Bytes)>),
    /// Writes or removes (`None`) fields of an object that exists, if each expected field has these bytes or is absent
    /// (`None`). Answer: whether it was.
    Write {
        /// The expected fields.
        expected: Vec<(Bytes, Option<Bytes>)>,
        /// The fields.
        fields: Vec<(Bytes, Option<Bytes>)>,
    },
    /// Adds to a field of an object that exists. The field must be the text of an integer of 64 bits; an absent one is 0. A
    /// sum that is not in the range is refused. Answer: the sum as text, or none if the object does not exist.
    Add {
        /// The field.
        field: Bytes,
        /// The addend.
        by: i64,
        /// The smallest sum.
        min: i64,
        /// The greatest sum.
        max: i64,
    },
    /// Deletes the object. Answer: whether it existed.
    Delete,
}

/// An index of a field of a live object.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveIndex {
    /// The name of the index.
    pub key: Key,
    /// The field.
    pub field: Bytes,
    /// What the index contains.
    pub kind: LiveIndexKind,
}

/// What an index contains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LiveIndexKind {
    /// Numbers. This is the number that the field gets by an insertion or a write, if it gets one; an addition has the sum.
    Numbers(Option<f64>),
    /// Values.
    Values,
}
