//! Multimaps.

use std::{borrow::Borrow, time::Duration};

use bandog_codec::{Codec, Decode, Encode};
use bandog_core::{
    Error, Result,
    structures::{Action, Bytes, MultimapOp, Part, Reply, Structure, Values},
};
use futures_util::stream::{Stream, StreamExt};

use crate::{
    Call,
    call::Writer,
    map::count,
    object::{checked_ttl, decode, decode_all, handle},
    pages::stream,
};

handle! {
    /// A map with several values for each key, as Redisson's `RSetMultimapCache` ([`Grid::set_multimap`](crate::Grid::set_multimap):
    /// each value of a key once, in no order) or `RListMultimapCache` ([`Grid::list_multimap`](crate::Grid::list_multimap):
    /// the values of a key in the order of their insertions).
    ///
    /// ```
    /// # use bandog::grid::{ClientGrid, Multimap};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let grid = bandog::connect("memory:").await?.grid();
    /// let mails: Multimap<u64, String> = grid.list_multimap("mails")?;
    /// mails.insert(&7, "hello").await?;
    /// mails.insert(&7, "again").await?;
    /// assert_eq!(mails.get(&7).await?, ["hello", "again"]);
    /// # Ok(()) }
    /// ```
    Multimap<K, V>
}

impl<K, V, C: Codec> Multimap<K, V, C> {
    fn values(&self) -> Values {
        match self.object.structure {
            Structure::Multimap(values) => values,
            _ => Values::Set,
        }
    }

    fn write<T>(
        &self,
        op: impl FnOnce(&mut Writer) -> Result<MultimapOp>,
        read: impl FnOnce(Reply) -> Result<T> + Send + 'static,
    ) -> Call<T> {
        self.object.write(|to| Ok(Action::Multimap(self.values(), op(to)?)), read)
    }

    /// A call with a key and a value.
    fn pair<Q: ?Sized, W: ?Sized>(&self, key: &Q, value: &W, op: fn(Bytes, Bytes) -> MultimapOp) -> Call<bool>
    where
        C::Keys: Encode<Q>,
        C: Encode<W>,
    {
        self.write(|to| Ok(op(to.write(&self.codec.keys(), key)?, to.write(&self.codec, value)?)), Reply::flag)
    }

    /// The number of keys.
    pub fn keys_len(&self) -> Call<u64> {
        self.write(|_| Ok(MultimapOp::KeysLen), count)
    }

    /// The number of values of all keys. The store visits each key.
    pub fn len(&self) -> Call<u64> {
        self.write(|_| Ok(MultimapOp::Len), count)
    }

    /// Adds a value to a key. Returns whether the value is new; in the form of lists it always is.
    pub fn insert<Q: ?Sized, W: ?Sized>(&self, key: &Q, value: &W) -> Call<bool>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
        V: Borrow<W>,
        C: Encode<W>,
    {
        self.pair(key, value, MultimapOp::Insert)
    }

    /// Removes a value of a key (in the form of lists: the first one that is equal). Returns whether it existed.
    pub fn remove<Q: ?Sized, W: ?Sized>(&self, key: &Q, value: &W) -> Call<bool>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
        V: Borrow<W>,
        C: Encode<W>,
    {
        self.pair(key, value, MultimapOp::Remove)
    }

    /// Whether the key has this value.
    pub fn contains<Q: ?Sized, W: ?Sized>(&self, key: &Q, value: &W) -> Call<bool>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
        V: Borrow<W>,
        C: Encode<W>,
    {
        self.pair(key, value, MultimapOp::Contains)
    }

    /// Removes a key with its values after this time. Returns whether the key exists.
    ///
    /// On Redis, a Java client sees the ttl of a key only in a `MultimapCache`, as which such a multimap is stored.
    pub fn expire_key<Q: ?Sized>(&self, key: &Q, ttl: Duration) -> Call<bool>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        self.write(|to| Ok(MultimapOp::ExpireKey(to.write(&self.codec.keys(), key)?, checked_ttl(ttl)?)), Reply::flag)
    }
}

impl<K, V, C: Decode<V>> Multimap<K, V, C> {
    /// The values of a key.
    pub fn get<Q: ?Sized>(&self, key: &Q) -> Call<Vec<V>>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        let codec = self.codec.clone();
        self.write(
            |to| Ok(MultimapOp::Get(to.write(&self.codec.keys(), key)?)),
            move |reply| decode_all(&codec, reply.list()?),
        )
    }

    /// Removes a key, and returns its values.
    pub fn remove_all<Q: ?Sized>(&self, key: &Q) -> Call<Vec<V>>
    where
        K: Borrow<Q>,
        C::Keys: Encode<Q>,
    {
        let codec = self.codec.clone();
        self.write(
            |to| Ok(MultimapOp::RemoveAll(to.write(&self.codec.keys(), key)?)),
            move |reply| decode_all(&codec, reply.list()?),
        )
    }
}

impl<K: 'static, V, C: Codec> Multimap<K, V, C>
where
    C::Keys: Decode<K>,
{
    /// All keys, in no order. A key that is inserted or removed meanwhile may be missing; each other key comes once or
    /// twice. A key that cannot be read is one error.
    pub fn keys(&self) -> impl Stream<Item = Result<K>> + Send + Unpin + use<K, V, C> {
        let codec = self.codec.keys();
        stream(&self.object, Part::Fields(Some(self.values())), move |(key, ..)| decode(&codec, &key))
    }
}

impl<K: 'static, V: 'static, C: Decode<V>> Multimap<K, V, C>
where
    C::Keys: Decode<K>,
{
    /// All keys with their values, as [`Multimap::keys`]. Each key is a request of its own.
    pub fn stream(&self) -> impl Stream<Item = Result<(K, Vec<V>)>> + Send + Unpin + use<K, V, C> {
        let (object, codec, values) = (self.object.clone(), self.codec.clone(), self.values());
        let fields = stream(&self.object, Part::Fields(Some(values)), |(key, ..)| Ok(key));
        let entries = fields.then(move |key: Result<Vec<u8>>| {
            let (object, codec) = (object.clone(), codec.clone());
            async move {
                let key = key?;
                let found = object.call(Action::Multimap(values, MultimapOp::Get(key.clone())), Reply::list).await?;
                let entry = decode(&codec.keys(), &key).and_then(|key| Ok((key, decode_all(&codec, found)?)));
                entry.map_err(|error: Error| error.at(&object.key))
            }
        });
        entries.boxed()
    }
}
