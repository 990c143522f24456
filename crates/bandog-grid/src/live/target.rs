//! One live object in the store.

use std::sync::Arc;

use bandog_codec::Codec;
use bandog_core::{
    Result,
    structures::{Action, Bytes, LiveChange, LiveIndex, LiveIndexKind, LiveOp, MapOp, Structure},
};

use super::{
    class::{FieldIndex, LiveClass},
    coder::{WrittenField, WrittenId},
};
use crate::{object::Object, store::Store};

/// One live object in the store.
#[derive(Debug, Clone)]
pub(crate) struct Target<C> {
    pub(crate) object: Object,
    pub(crate) codec: C,
    pub(crate) id: WrittenId,
    class: LiveClass,
    /// The encoded name of the mark that each object has, and the encoded names of the fields.
    mark: Bytes,
    names: Vec<Bytes>,
}

impl<C: Codec> Target<C> {
    pub(crate) fn new(
        store: &Arc<Store>,
        codec: C,
        class: LiveClass,
        id: WrittenId,
        (mark, names): (Bytes, Vec<Bytes>),
    ) -> Result<Self> {
        let object = Object::new(store, &class.object(&id.in_name), Structure::Map)?;
        Ok(Self { object, codec, id, class, mark, names })
    }

    /// Reads the mark and all fields.
    pub(crate) fn load(&self) -> Action {
        MapOp::Get(std::iter::once(&self.mark).chain(&self.names).cloned().collect()).into()
    }

    /// Reads one field.
    pub(crate) fn get(&self, field: usize) -> Action {
        MapOp::Get(vec![self.names[field].clone()]).into()
    }

    /// Inserts the object.
    pub(crate) fn insert(&self, mark: Bytes, fields: &[WrittenField]) -> Result<LiveOp> {
        let present =
            self.names.iter().zip(fields).filter_map(|(name, field)| Some((name.clone(), field.bytes.clone()?)));
        let values = std::iter::once((self.mark.clone(), mark)).chain(present).collect();
        let indexed = fields.iter().enumerate().filter(|(_, field)| field.bytes.is_some());
        self.op(LiveChange::Insert(values), indexed.map(|(at, field)| (at, field.number)))
    }

    /// Writes the fields that differ from `loaded`, if the object still has these.
    pub(crate) fn save(&self, loaded: &[Option<Bytes>], fields: &[WrittenField]) -> Result<LiveOp> {
        let expected = self.names.iter().cloned().zip(loaded.iter().cloned()).collect();
        let changed: Vec<_> =
            fields.iter().enumerate().filter(|(at, field)| loaded.get(*at) != Some(&field.bytes)).collect();
        let written = changed.iter().map(|(at, field)| (self.names[*at].clone(), field.bytes.clone())).collect();
        let change = LiveChange::Write { expected, fields: written };
        self.op(change, changed.iter().map(|(at, field)| (*at, field.number)))
    }

    /// Writes one field, whatever the others are.
    pub(crate) fn set(&self, field: usize, WrittenField { bytes, number }: WrittenField) -> Result<LiveOp> {
        let change = LiveChange::Write { expected: Vec::new(), fields: vec![(self.names[field].clone(), bytes)] };
        self.op(change, [(field, number)])
    }

    /// Adds to one field.
    pub(crate) fn add(&self, field: usize, by: i64, (min, max): (i64, i64)) -> Result<LiveOp> {
        self.op(LiveChange::Add { field: self.names[field].clone(), by, min, max }, [(field, None)])
    }

    /// Deletes the object.
    pub(crate) fn delete(&self) -> Result<LiveOp> {
        self.op(LiveChange::Delete, (0..self.names.len()).map(|at| (at, None)))
    }

    /// The operation with the indexes of these fields.
    fn op(&self, change: LiveChange, fields: impl IntoIterator<Item = (usize, Option<f64>)>) -> Result<LiveOp> {
        let mut indexes = Vec::new();
        for (at, number) in fields {
            let of = self.class.fields[at];
            let kind = match of.index {
                Some(FieldIndex::Numbers) => LiveIndexKind::Numbers(number),
                Some(FieldIndex::Values) => LiveIndexKind::Values,
                None => continue,
            };
            let key = self.object.store.client.key(&self.class.index(of.name))?;
            indexes.push(LiveIndex { key, field: self.names[at].clone(), kind });
        }
        Ok(LiveOp { member: self.id.member.clone(), change, indexes })
    }
}
