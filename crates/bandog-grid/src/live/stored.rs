//! A live object that was loaded.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use bandog_codec::{Codec, TextJson};
use bandog_core::{
    Error, Result,
    structures::{Bytes, Reply},
};

use super::{
    coder::{FieldReader, FieldWriter},
    object::LiveAs,
    target::Target,
};
use crate::call::Writer;

/// A copy of a live object, which knows the fields that were loaded. It derefs to the object.
pub struct Stored<T, C = TextJson> {
    value: T,
    target: Target<C>,
    /// The bytes of the fields.
    loaded: Vec<Option<Bytes>>,
}

/// Whether an object was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the object might have been changed by another program: load it again"]
pub enum Saved {
    /// The store has the fields of this copy.
    Done,
    /// The object was changed or deleted since it was loaded. Nothing was written.
    Changed,
}

impl<T: LiveAs<C>, C: Codec> Stored<T, C> {
    /// Reads what [`Target::load`] gives. `None`: the object does not exist.
    pub(crate) fn read(target: Target<C>, id: T::Id, reply: Reply) -> Result<Option<Self>> {
        let mut fields = reply.options()?;
        if fields.iter().all(Option::is_none) {
            return Ok(None);
        }
        fields.remove(0);
        let value = T::read(id, &mut FieldReader::new(&target.codec, fields.clone()))?;
        Ok(Some(Self { value, target, loaded: fields }))
    }

    /// Writes the fields that differ from those that were loaded, and their indexes, in one step, unless a field of the object
    /// has changed since: the store compares the bytes of all fields. So a change by Java is noticed, too. A change to another
    /// value and back is not one.
    ///
    /// Afterwards the copy can be changed and saved again, if it was saved.
    ///
    /// # Errors
    /// - Those of a [`Call`](crate::Call). If the answer is lost, [`Error::maybe_applied`] is true: load the object again.
    /// - `ErrorKind::Misused`: the id of the copy was changed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the store has all old or all new fields. If it has the new ones, the next call returns
    /// [`Saved::Changed`].
    pub async fn save(&mut self) -> Result<Saved> {
        let Self { value, target, loaded } = self;
        let mut writer = Writer::new(&target.object.store);
        let mut to = FieldWriter::new(&target.codec, &mut writer);
        let at_key = |error: Error| error.at(&target.object.key);
        if T::write_id(value.id(), &mut to).map_err(at_key)? != target.id {
            let message =
                "the id of a loaded live object was changed; insert an object with the new id, and delete this one";
            return Err(at_key(Error::misused(message)));
        }
        let fields = value.write(&mut to).map_err(at_key)?;
        let op = target.save(loaded, &fields)?;
        let is_saved = target.object.send(Ok((op.into(), writer.bytes())), Reply::flag).await?;
        if !is_saved {
            return Ok(Saved::Changed);
        }
        *loaded = fields.into_iter().map(|field| field.bytes).collect();
        Ok(Saved::Done)
    }
}

impl<T, C> Stored<T, C> {
    /// The object.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T, C> Deref for Stored<T, C> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T, C> DerefMut for Stored<T, C> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: fmt::Debug, C> fmt::Debug for Stored<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stored").field(&self.value).finish()
    }
}
