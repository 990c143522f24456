//! The fields of one live object in the store.

use std::{borrow::Borrow, fmt, marker::PhantomData};

use bandog_codec::{Codec, Decode, Encode};
use bandog_core::{
    Error, ErrorKind, Result,
    structures::{LiveOp, Reply},
};

use super::{
    coder::WrittenField,
    number::{LiveInteger, LiveNumber},
    target::Target,
};
use crate::{Call, call::Writer, object::decode_option};

/// The fields of one live object in the store. The type that [`LiveObjects::at`](crate::LiveObjects::at) returns has a method
/// for each field.
#[derive(Debug, Clone)]
pub struct LiveAt<C>(Result<Target<C>>);

/// A field that each object has.
#[derive(Debug, Clone, Copy)]
pub enum Required {}

/// A field that may be absent: an `Option`.
#[derive(Debug, Clone, Copy)]
pub enum Optional {}

impl<C: Codec> LiveAt<C> {
    pub(crate) fn new(target: Result<Target<C>>) -> Self {
        Self(target)
    }

    /// The field with this position.
    pub fn field<V, P>(&self, field: usize) -> FieldAt<V, C, P> {
        FieldAt { target: self.0.clone(), field, types: PhantomData }
    }

    /// The number with this position.
    pub fn number<V, P>(&self, field: usize) -> NumberAt<V, C, P> {
        NumberAt(self.field(field))
    }
}

/// One field of a live object in the store.
pub struct FieldAt<V, C, P = Required> {
    target: Result<Target<C>>,
    field: usize,
    types: PhantomData<fn() -> (V, P)>,
}

impl<V, C: Codec, P> FieldAt<V, C, P> {
    fn write<T>(
        &self,
        op: impl FnOnce(&Target<C>, &mut Writer) -> Result<LiveOp>,
        read: impl FnOnce(Reply) -> Result<T> + Send + 'static,
    ) -> Call<T> {
        match &self.target {
            Ok(target) => target.object.write(|to| op(target, to), read),
            Err(error) => Call::known(Err(error.clone())),
        }
    }

    /// The value. `None`: the object does not exist, or the field is absent.
    pub fn get(&self) -> Call<Option<V>>
    where
        C: Decode<V>,
    {
        match &self.target {
            Ok(target) => {
                let codec = target.codec.clone();
                let read = move |reply: Reply| decode_option(&codec, reply.options()?.pop().flatten());
                target.object.call(target.get(self.field), read)
            }
            Err(error) => Call::known(Err(error.clone())),
        }
    }

    /// Writes the field and its index in one step. Returns whether the object exists; otherwise, nothing is written.
    pub fn set<Q: ?Sized>(&self, value: &Q) -> Call<bool>
    where
        V: Borrow<Q>,
        C: Encode<Q>,
    {
        self.set_as(value, None)
    }

    fn set_as<Q: ?Sized>(&self, value: &Q, number: Option<f64>) -> Call<bool>
    where
        C: Encode<Q>,
    {
        let written = |target: &Target<C>, to: &mut Writer| {
            let bytes = Some(to.write(&target.codec, value)?);
            target.set(self.field, WrittenField { bytes, number })
        };
        self.write(written, Reply::flag)
    }
}

impl<V, C: Codec> FieldAt<V, C, Optional> {
    /// Removes the field, also from its index. Returns whether the object exists.
    pub fn clear(&self) -> Call<bool> {
        self.write(|target, _| target.set(self.field, WrittenField::default()), Reply::flag)
    }
}

impl<V, C: Clone, P> Clone for FieldAt<V, C, P> {
    fn clone(&self) -> Self {
        Self { target: self.target.clone(), field: self.field, types: PhantomData }
    }
}

impl<V, C: fmt::Debug, P> fmt::Debug for FieldAt<V, C, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.target.as_ref().map(|target| &target.object.key);
        f.debug_struct("FieldAt").field("key", &key).field("field", &self.field).finish_non_exhaustive()
    }
}

/// One field of a live object in the store, which is a number.
pub struct NumberAt<V, C, P = Required>(FieldAt<V, C, P>);

impl<V: LiveNumber, C: Codec, P> NumberAt<V, C, P> {
    /// The number. `None`: the object does not exist, or the field is absent.
    pub fn get(&self) -> Call<Option<V>>
    where
        C: Decode<V>,
    {
        self.0.get()
    }

    /// Writes the field and its index in one step. Returns whether the object exists; otherwise, nothing is written.
    pub fn set(&self, value: &V) -> Call<bool>
    where
        C: Encode<V>,
    {
        self.0.set_as(value, Some(value.number()))
    }

    /// Adds to the field and changes its index in one step. An absent field is 0. Returns the sum; `None`: the object does not
    /// exist.
    ///
    /// `ErrorKind::Denied`: the type cannot have the sum, or the field is not the text of an integer, as the codecs `TextJson`,
    /// `TypedJson`, `TaggedJson` and `Text` write it. Nothing was changed.
    pub fn add(&self, by: i64) -> Call<Option<V>>
    where
        V: LiveInteger,
        C: Decode<V>,
    {
        let read = |reply: Reply| {
            let Some(sum) = reply.bytes()? else { return Ok(None) };
            let sum = std::str::from_utf8(&sum).ok().and_then(|sum| sum.parse::<i64>().ok());
            let sum = sum.and_then(|sum| V::try_from(sum).ok());
            sum.map(Some).ok_or_else(|| Error::new(ErrorKind::Corrupt, "the store has given a sum that is no number"))
        };
        self.0.write(|target, _| target.add(self.0.field, by, (V::LEAST, V::GREATEST)), read)
    }
}

impl<V: LiveNumber, C: Codec> NumberAt<V, C, Optional> {
    /// Removes the field, also from its index. Returns whether the object exists.
    pub fn clear(&self) -> Call<bool> {
        self.0.clear()
    }
}

impl<V, C: Clone, P> Clone for NumberAt<V, C, P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V, C: fmt::Debug, P> fmt::Debug for NumberAt<V, C, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NumberAt").field(&self.0).finish()
    }
}
