//! Maps.

use std::{borrow::Borrow, sync::Arc};

use bandog_codec::{Codec, Decode, Encode, hash::entry_name};
use bandog_core::{
    Error, ErrorKind, Result,
    structures::{Action, Bytes, MapOp, Part, Reply},
};
use bandog_sync::Mutex;
use futures_util::stream::Stream;

use crate::{
    Call,
    call::Writer,
    object::{decode, decode_option, handle},
    pages::{first, stream, value},
    timed::Timing,
};

/// Maximum number of attempts of [`Map::update`].
const MAX_ATTEMPTS: u32 = 200;

/// What the operations of a map do beside reading and writing entries.
#[derive(Clone)]
pub(crate) enum Kind {
    Plain,
    /// Entries expire.
    Timed(Timing),
    /// Writes are reported to the programs that have copies. The function removes the copy of a field in this process.
    Copied(Arc<dyn Fn(&Bytes) + Send + Sync>),
}

handle! {
    /// A map, as Redisson's `RMap`. Created by [`Grid::map`](crate::Grid::map).
    ///
    /// The codec of the keys is the one that belongs to the codec of the values ([`Codec::Keys`]): with the default codec,
    /// a key is its text.
    ///
    /// ```
    /// # use bandog::grid::{ClientGrid, Map};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let grid = bandog::connect("memory:").await?.grid();
    /// let stock: Map<String, u32> = grid.map("stock")?;
    /// stock.put("apple", &5).await?;
    /// stock.update("apple", |left| left.map(|left| left - 1)).await?;
    /// assert_eq!(stock.get("apple").await?, Some(4));
    /// # Ok(()) }
    /// ```
    Map<K, V> { kind: Kind = Kind::Plain }
}

impl<K, V, C> Map<K, V, C> {
    pub(crate) fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The same map, with values of another type.
    pub(crate) fn of<W, D: Codec>(&self, codec: D) -> Map<K, W, D> {
        Map::new(self.object.clone(), codec).with_kind(self.kind.clone())
    }

    fn action(&self, op: MapOp) -> Action {
        match &self.kind {
            Kind::Plain => op.into(),
            Kind::Timed(timing) => timing.action(&self.object, op),
            Kind::Copied(_) => Action::Copied(op),
        }
    }

    fn write<T>(
        &self,
        op: impl FnOnce(&mut Writer) -> Result<MapOp>,
        read: impl FnOnce(Reply) -> Result<T> + Send + 'static,
    ) -> Call<T> {
        let mut written = None;
        let action = |to: &mut Writer| {
            let op = op(to)?;
            if let Kind::Copied(forget) = &self.kind {
                written = Some((forget.clone(), op.written().cloned().collect::<Vec<_>>()));
            }
            Ok(self.action(op))
        };
        let writer = self.object.prepare(action);
        self.object.send(writer, move |reply| {
            // The copies of this process are gone before the write has returned.
            if let Some((forget, fields)) = written {
                fields.iter().for_each(|field| forget(field));
            }
            read(reply)
        })
    }

    /// The part of the store with the entries, for pages.
    fn entries(&self) -> Part {
        match &self.kind {
            Kind::Timed(timing) if timing.is_by_operations() => Part::Timed,
            Kind::Plain | Kind::Timed(_) | Kind::Copied(_) => Part::Entries,
        }
    }

    /// The part of the store with the fields; those of timed entries come with their values.
    fn fields(&self) -> Part {
        match self.entries() {
            Part::Timed => Part::Timed,
            _ => Part::Fields(None),
        }
    }
}

impl<K, V, C: Codec> Map<K, V, C> {
    pub(crate) fn key<Q: ?Sized>(&self, writer: &mut Writer, key: &Q) -> Result<Bytes>
    where
        C::Keys: Encode<Q>,
    {
        writer.write(&self.codec.keys(), key)
    }

    /// The number of entries.
    pub fn len(&self) -> Call<u64> {
        self.object.call(self.action(MapOp::Len), count)
    }

    /// Removes an entry. Returns whether it existed.
    pub fn remove<Q: ?Sized>(&self, key: &Q) -> Call<bool>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        self.write(|to| Ok(MapOp::Remove(vec![self.key(to, key)?])), |reply| Ok(reply.int()? > 0))
    }

    /// Removes entries. Returns the number of those that existed.
    pub fn remove_all<Q>(&self, keys: &[Q]) -> Call<u64>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        if keys.is_empty() {
            return Call::known(Ok(0));
        }
        self.write(|to| Ok(MapOp::Remove(keys.iter().map(|key| self.key(to, key)).collect::<Result<_>>()?)), count)
    }

    /// Whether there is an entry with this key.
    pub fn contains<Q: ?Sized>(&self, key: &Q) -> Call<bool>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        self.write(
            |to| Ok(MapOp::Get(vec![self.key(to, key)?])),
            |reply| Ok(reply.options()?.into_iter().any(|found| found.is_some())),
        )
    }

    /// Adds to the value of a key, and returns the sum. A key without a value has 0. The value must be the text of an integer
    /// of 64 bits, as the codecs `TextJson`, `TypedJson`, `Text` and `Int` write it; otherwise the call is
    /// `ErrorKind::Denied`. In Java: `addAndGet`.
    pub fn add<Q: ?Sized>(&self, key: &Q, by: i64) -> Call<i64>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        self.write(|to| Ok(MapOp::Add(self.key(to, key)?, by)), Reply::int)
    }

    /// As [`Map::add`], for values that are texts of floating-point numbers.
    pub fn add_float<Q: ?Sized>(&self, key: &Q, by: f64) -> Call<f64>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        self.write(|to| Ok(MapOp::AddFloat(self.key(to, key)?, by)), Reply::float)
    }

    /// A lock for this key, which does not lock the entry: it excludes other holders of the same lock. In Java:
    /// `map.getLock(key)`.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the key cannot be encoded.
    pub fn lock<Q: ?Sized>(&self, key: &Q) -> Result<Mutex>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        let entry = entry_name(&self.key(&mut Writer::new(&self.object.store), key)?);
        // Redisson, too, adds its prefix to a name that has it already.
        let name = self.object.key.as_str();
        let name = match name.contains('{') {
            true => format!("{name}:{entry}:lock"),
            false => format!("{{{name}}}:{entry}:lock"),
        };
        Ok(self.object.store.client.mutex(&name))
    }
}

impl<K, V, C: Decode<V>> Map<K, V, C> {
    /// The value of a key.
    pub fn get<Q: ?Sized>(&self, key: &Q) -> Call<Option<V>>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        let codec = self.codec.clone();
        self.write(
            |to| Ok(MapOp::Get(vec![self.key(to, key)?])),
            move |reply| decode_option(&codec, reply.options()?.pop().flatten()),
        )
    }

    /// The values of these keys, in their order. A value that cannot be read is an error of its own.
    pub fn get_all<Q>(&self, keys: &[Q]) -> Call<Vec<Result<Option<V>>>>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        if keys.is_empty() {
            return Call::known(Ok(Vec::new()));
        }
        let codec = self.codec.clone();
        self.write(
            |to| Ok(MapOp::Get(keys.iter().map(|key| self.key(to, key)).collect::<Result<_>>()?)),
            move |reply| Ok(reply.options()?.into_iter().map(|found| decode_option(&codec, found)).collect()),
        )
    }

    /// Removes an entry, and returns its value. If its bytes cannot be read, it is removed nevertheless.
    pub fn take<Q: ?Sized>(&self, key: &Q) -> Call<Option<V>>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        let codec = self.codec.clone();
        self.write(|to| Ok(MapOp::Take(self.key(to, key)?)), move |reply| decode_option(&codec, reply.bytes()?))
    }

    /// All values, in no order. An entry that changes meanwhile may be missing or come twice; an entry that cannot be read
    /// is one error.
    pub fn values(&self) -> impl Stream<Item = Result<V>> + Send + Unpin + use<K, V, C>
    where
        V: 'static,
    {
        let codec = self.codec.clone();
        stream(&self.object, self.entries(), move |(_, bytes, _)| decode(&codec, &value(bytes)?))
    }
}

impl<K, V, C: Codec> Map<K, V, C>
where
    C::Keys: Decode<K>,
{
    /// All keys, in no order. A key that is inserted or removed meanwhile may be missing; each other key comes once or
    /// twice. A key that cannot be read is one error.
    pub fn keys(&self) -> impl Stream<Item = Result<K>> + Send + Unpin + use<K, V, C>
    where
        K: 'static,
    {
        let codec = self.codec.keys();
        stream(&self.object, self.fields(), move |(key, ..)| decode(&codec, &key))
    }
}

impl<K: 'static, V: 'static, C: Decode<V>> Map<K, V, C>
where
    C::Keys: Decode<K>,
{
    /// All entries, in no order. An entry that is inserted or removed meanwhile may be missing; each other entry comes once
    /// or twice. An entry that cannot be read is one error. It reads pages of 500 entries.
    pub fn stream(&self) -> impl Stream<Item = Result<(K, V)>> + Send + Unpin + use<K, V, C> {
        let (keys, values) = (self.codec.keys(), self.codec.clone());
        stream(&self.object, self.entries(), move |(key, bytes, _)| {
            Ok((decode(&keys, &key)?, decode(&values, &value(bytes)?)?))
        })
    }

    /// At most this number of entries, as [`Map::stream`].
    ///
    /// # Errors
    /// Those of a [`Call`]. `ErrorKind::Corrupt`: one of the entries cannot be read.
    pub async fn to_vec(&self, at_most: usize) -> Result<Vec<(K, V)>> {
        first(self.stream(), at_most).await
    }
}

impl<K, V, C: Encode<V>> Map<K, V, C> {
    /// Writes an entry.
    pub fn put<Q: ?Sized, W: ?Sized>(&self, key: &Q, value: &W) -> Call<()>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
        V: Borrow<W>,
        C: Encode<W>,
    {
        self.write(|to| Ok(MapOp::Put(vec![(self.key(to, key)?, to.write(&self.codec, value)?)])), Reply::done)
    }

    /// Writes entries in one step.
    pub fn put_all<Q, W>(&self, entries: &[(Q, W)]) -> Call<()>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
        V: Borrow<W>,
        C: Encode<W>,
    {
        if entries.is_empty() {
            return Call::known(Ok(()));
        }
        let entry = |to: &mut Writer, (key, value): &(Q, W)| Ok((self.key(to, key)?, to.write(&self.codec, value)?));
        self.write(|to| Ok(MapOp::Put(entries.iter().map(|each| entry(to, each)).collect::<Result<_>>()?)), Reply::done)
    }

    /// Writes an entry if the key has none. Returns whether it was written.
    pub fn insert_new<Q: ?Sized, W: ?Sized>(&self, key: &Q, value: &W) -> Call<bool>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
        V: Borrow<W>,
        C: Encode<W>,
    {
        self.write(|to| Ok(MapOp::InsertNew(self.key(to, key)?, to.write(&self.codec, value)?)), Reply::flag)
    }

    /// Writes `to` if the value of the key is `from`; `None` is a key without an entry. Returns whether it was written. The
    /// store compares the encoded bytes.
    pub fn swap<Q: ?Sized, W: ?Sized>(&self, key: &Q, from: Option<&W>, to: Option<&W>) -> Call<bool>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
        V: Borrow<W>,
        C: Encode<W>,
    {
        let write =
            |writer: &mut Writer, value: Option<&W>| value.map(|value| writer.write(&self.codec, value)).transpose();
        self.write(
            |writer| {
                let field = self.key(writer, key)?;
                Ok(MapOp::Swap { field, from: write(writer, from)?, to: write(writer, to)? })
            },
            Reply::flag,
        )
    }
}

impl<K, V, C: Encode<V> + Decode<V>> Map<K, V, C> {
    /// Writes an entry, and returns the former value.
    pub fn insert<Q: ?Sized, W: ?Sized>(&self, key: &Q, value: &W) -> Call<Option<V>>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
        V: Borrow<W>,
        C: Encode<W>,
    {
        let codec = self.codec.clone();
        self.write(
            |to| Ok(MapOp::Insert(self.key(to, key)?, to.write(&self.codec, value)?)),
            move |reply| decode_option(&codec, reply.bytes()?),
        )
    }

    /// Replaces a value by what `change` makes of it, and returns the new value. `None` is a key without an entry.
    ///
    /// There is no lock: the new value is written if the entry still has the bytes that were read. Otherwise, `change` is
    /// called again with the present value. It must have no effects of its own.
    ///
    /// # Errors
    /// - Those of a [`Call`]. If the answer to the write is lost, [`Error::maybe_applied`] is true.
    /// - `ErrorKind::Overloaded`: others have changed the entry during each of 200 attempts.
    ///
    /// # Cancel safety
    /// If the future is dropped, the entry has the old or the new value.
    pub async fn update<Q: ?Sized + Sync>(
        &self,
        key: &Q,
        mut change: impl FnMut(Option<V>) -> Option<V> + Send,
    ) -> Result<Option<V>>
    where
        K: Borrow<Q>,
        V: Send,
        C::Keys: Encode<Q>,
    {
        let object = &self.object;
        let field = self.key(&mut Writer::new(&object.store), key).map_err(|error| error.at(&object.key))?;
        for attempt in 0..MAX_ATTEMPTS {
            let found =
                object.call(self.action(MapOp::Get(vec![field.clone()])), Reply::options).await?.pop().flatten();
            let old = decode_option(&self.codec, found.clone()).map_err(|error| error.at(&object.key))?;
            let new = change(old);
            let call = self.write(
                |to| {
                    let to = new.as_ref().map(|new| to.write(&self.codec, new)).transpose()?;
                    Ok(MapOp::Swap { field: field.clone(), from: found, to })
                },
                Reply::flag,
            );
            if call.await? {
                return Ok(new);
            }
            // Others change the same entry: the pause is a random part of a time that grows with the attempts.
            let micros = fastrand::u64(0..=100 * u64::from(attempt.min(50)));
            tokio::time::sleep(std::time::Duration::from_micros(micros)).await;
        }
        let message = "others have changed the entry during each of 200 attempts; use a lock for this key (Map::lock)";
        Err(Error::new(ErrorKind::Overloaded, message).at(&object.key))
    }
}

/// A number of elements.
pub(crate) fn count(reply: Reply) -> Result<u64> {
    let number = reply.int()?;
    u64::try_from(number)
        .map_err(|_| Error::new(ErrorKind::Corrupt, "the store has given a negative number of elements"))
}
