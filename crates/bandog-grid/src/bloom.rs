//! Bloom filters.

use std::{borrow::Borrow, fmt, marker::PhantomData};

use bandog_codec::{Codec, Encode, TextJson, hash};
use bandog_core::{
    Error, Key, Result,
    structures::{BloomOp, BloomSizes, Reply},
};

use crate::{
    Call,
    map::count,
    object::{Object, handle},
};

handle! {
    /// A Bloom filter that is not open yet. Created by [`Grid::bloom`](crate::Grid::bloom).
    UnopenedBloom<T>
}

impl<T, C: Codec> UnopenedBloom<T, C> {
    /// Opens the filter. If it does not exist, creates it for this number of items, of which `false_positives` (more than 0,
    /// less than 1) is the share of absent items that it reports as present once it has that number of items.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the numbers are not allowed, or the filter exists with other sizes.
    /// - Those of a [`Call`].
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the filter might be created nevertheless.
    pub async fn create_or_open(&self, items: u64, false_positives: f64) -> Result<Bloom<T, C>> {
        let key = &self.object.key;
        let shape = hash::Bloom::expecting(items, false_positives).ok_or_else(|| {
            Error::misused(format!(
                "a filter for {items} items with a share of {false_positives} false positives cannot be made: the share \
                 must be between 0 and 1, and the filter must have between 1 and 4,294,967,294 bits"
            ))
            .at(key)
        })?;
        let (bits, hashes) = (shape.size(), shape.iterations());
        let asked = BloomSizes { bits, hashes, expected: items, false_positives };
        let found = self.object.call(BloomOp::Create(asked.clone()), Reply::bloom).await?;
        let found = found.unwrap_or_else(|| asked.clone());
        if (found.bits, found.hashes) != (bits, hashes) {
            return Err(other_sizes(&asked, &found).at(key));
        }
        self.with(found)
    }

    /// Opens the filter, if it exists.
    ///
    /// # Errors
    /// Those of a [`Call`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn open(&self) -> Result<Option<Bloom<T, C>>> {
        let found = self.object.call(BloomOp::Open, Reply::bloom).await?;
        found.map(|sizes| self.with(sizes)).transpose()
    }

    fn with(&self, sizes: BloomSizes) -> Result<Bloom<T, C>> {
        let shape = hash::Bloom::with(sizes.bits, sizes.hashes).ok_or_else(|| {
            Error::new(bandog_core::ErrorKind::Corrupt, "the sizes of the filter in the store are not allowed")
                .at(&self.object.key)
        })?;
        Ok(Bloom { object: self.object.clone(), codec: self.codec.clone(), shape, sizes, types: PhantomData })
    }
}

/// A set that may report an absent item as present, and never the reverse, in little memory: as Redisson's
/// `RBloomFilter`. Items cannot be removed.
///
/// ```
/// # use bandog::grid::ClientGrid;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let grid = bandog::connect("memory:").await?.grid();
/// let seen = grid.bloom::<String>("seen")?.create_or_open(1_000_000, 0.01).await?;
/// assert!(seen.insert("ann").await?);
/// assert!(seen.contains("ann").await?);
/// assert_eq!(seen.count().await?, 1);
/// # Ok(()) }
/// ```
pub struct Bloom<T, C = TextJson> {
    object: Object,
    codec: C,
    shape: hash::Bloom,
    sizes: BloomSizes,
    types: PhantomData<fn() -> T>,
}

impl<T, C: Clone> Clone for Bloom<T, C> {
    fn clone(&self) -> Self {
        let (object, codec, sizes) = (self.object.clone(), self.codec.clone(), self.sizes.clone());
        Self { object, codec, shape: self.shape, sizes, types: PhantomData }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for Bloom<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bloom").field("key", &self.object.key).field("sizes", &self.sizes).finish_non_exhaustive()
    }
}

impl<T, C: Codec> Bloom<T, C> {
    crate::object::whole_object!();

    /// The sizes, which never change while the filter exists.
    pub fn sizes(&self) -> &BloomSizes {
        &self.sizes
    }

    /// Inserts an item. Returns whether it is new: `false` may also be a false positive.
    ///
    /// `ErrorKind::Misused`: the filter was deleted, or was created again with other sizes.
    pub fn insert<Q: ?Sized>(&self, item: &Q) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.one(item, BloomOp::Insert)
    }

    /// Inserts items in one step. Returns for each whether it is new, as [`Bloom::insert`].
    pub fn insert_all<Q>(&self, items: &[Q]) -> Call<Vec<bool>>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.each(items, BloomOp::Insert)
    }

    /// Whether the filter may have this item. If not, it was never inserted.
    ///
    /// `ErrorKind::Misused`: the filter was deleted, or was created again with other sizes.
    pub fn contains<Q: ?Sized>(&self, item: &Q) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.one(item, BloomOp::Contains)
    }

    /// As [`Bloom::contains`], for each of these.
    pub fn contains_all<Q>(&self, items: &[Q]) -> Call<Vec<bool>>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.each(items, BloomOp::Contains)
    }

    /// An estimate of the number of items, from the number of bits that are set.
    pub fn count(&self) -> Call<u64> {
        let shape = self.shape;
        self.object.call(BloomOp::Count, move |reply| Ok(shape.count(count(reply)?)))
    }

    fn one<Q: ?Sized>(&self, item: &Q, op: impl FnOnce(BloomSizes, Vec<Vec<u64>>) -> BloomOp) -> Call<bool>
    where
        C: Encode<Q>,
    {
        let read = self.read();
        self.object.write(
            |to| Ok(op(self.sizes.clone(), vec![self.shape.bits(&to.write(&self.codec, item)?).collect()])),
            move |reply| Ok(read(reply)?.contains(&true)),
        )
    }

    fn each<Q>(&self, items: &[Q], op: impl FnOnce(BloomSizes, Vec<Vec<u64>>) -> BloomOp) -> Call<Vec<bool>>
    where
        C: Encode<Q>,
    {
        if items.is_empty() {
            return Call::known(Ok(Vec::new()));
        }
        self.object.write(
            |to| {
                let bits = |item: &Q| Ok(self.shape.bits(&to.write(&self.codec, item)?).collect());
                Ok(op(self.sizes.clone(), items.iter().map(bits).collect::<Result<_>>()?))
            },
            self.read(),
        )
    }

    /// Reads the flags of items, or the sizes that the store has instead.
    fn read(&self) -> impl FnOnce(Reply) -> Result<Vec<bool>> + Send + 'static {
        let (own, key): (BloomSizes, Key) = (self.sizes.clone(), self.object.key.clone());
        move |reply| match reply {
            Reply::Bloom(Some(found)) => Err(other_sizes(&own, &found).at(&key)),
            Reply::Bloom(None) => {
                Err(Error::misused("the filter does not exist any more; create it again with create_or_open").at(&key))
            }
            reply => reply.flags(),
        }
    }
}

/// The error of a filter with other sizes.
fn other_sizes(own: &BloomSizes, found: &BloomSizes) -> Error {
    let text = |sizes: &BloomSizes| {
        format!(
            "{} bits and {} hashes (for {} items with a share of {} false positives)",
            sizes.bits, sizes.hashes, sizes.expected, sizes.false_positives
        )
    };
    Error::misused(format!("the filter has {}, and not {}", text(found), text(own)))
}
