//! Lists.

use std::borrow::Borrow;

use bandog_codec::{Decode, Encode};
use bandog_core::{
    Result,
    structures::{End, ListOp, Part, Reply},
};
use futures_util::stream::Stream;

use crate::{
    Call,
    map::count,
    object::{decode, decode_all, decode_option, handle},
    pages::{first, stream},
};

handle! {
    /// A list, as Redisson's `RList`. Created by [`Grid::list`](crate::Grid::list).
    ///
    /// Negative indexes count from the end: -1 is the last element. A list is a linked list in Redis: an index in the middle
    /// of a long list takes time in proportion to its distance from the nearer end.
    ///
    /// ```
    /// # use bandog::grid::{ClientGrid, List};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let grid = bandog::connect("memory:").await?.grid();
    /// let steps: List<String> = grid.list("steps")?;
    /// steps.push("pay").await?;
    /// steps.insert(0, "order").await?;
    /// assert_eq!(steps.get(-1).await?.as_deref(), Some("pay"));
    /// assert_eq!(steps.slice(0, -1).await?, ["order", "pay"]);
    /// # Ok(()) }
    /// ```
    List<T>
}

impl<T, C: Encode<T>> List<T, C> {
    /// The number of elements.
    pub fn len(&self) -> Call<u64> {
        self.object.call(ListOp::Len, count)
    }

    /// Adds an element at the end. Returns the number of elements.
    pub fn push<Q: ?Sized>(&self, element: &Q) -> Call<u64>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(
            |to| Ok(ListOp::Push { end: End::Back, elements: vec![to.write(&self.codec, element)?], once: None }),
            count,
        )
    }

    /// Adds elements at the end, in one step. Returns the number of elements of the list.
    pub fn push_all<Q>(&self, elements: &[Q]) -> Call<u64>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        if elements.is_empty() {
            return self.len();
        }
        self.object.write(
            |to| {
                let elements = elements.iter().map(|element| to.write(&self.codec, element)).collect::<Result<_>>()?;
                Ok(ListOp::Push { end: End::Back, elements, once: None })
            },
            count,
        )
    }

    /// Inserts an element before this index. The number of elements is allowed as the index. Returns whether the index
    /// exists.
    pub fn insert<Q: ?Sized>(&self, index: u64, element: &Q) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(|to| Ok(ListOp::Insert(index, to.write(&self.codec, element)?)), Reply::flag)
    }

    /// Removes the first elements that are equal to this, but at most this number (0: all). Returns their number. Equal
    /// elements have the same encoded bytes.
    pub fn remove_equal<Q: ?Sized>(&self, element: &Q, at_most: u32) -> Call<u64>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(|to| Ok(ListOp::Remove(to.write(&self.codec, element)?, at_most)), count)
    }

    /// Removes all elements that are not in the range. Both ends belong to it.
    pub fn trim(&self, from: i64, to: i64) -> Call<()> {
        self.object.call(ListOp::Trim(from, to), Reply::done)
    }

    /// The first index of an element that is equal to this.
    pub fn position<Q: ?Sized>(&self, element: &Q) -> Call<Option<u64>>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(|to| Ok(ListOp::Position(to.write(&self.codec, element)?)), Reply::index)
    }
}

impl<T, C: Decode<T>> List<T, C> {
    /// The element with this index.
    pub fn get(&self, index: i64) -> Call<Option<T>> {
        let codec = self.codec.clone();
        self.object.call(ListOp::Get(index), move |reply| decode_option(&codec, reply.bytes()?))
    }

    /// Replaces the element with this index, and returns the former one. `None`: the index does not exist, and nothing was
    /// written.
    pub fn set<Q: ?Sized>(&self, index: i64, element: &Q) -> Call<Option<T>>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let codec = self.codec.clone();
        self.object.write(
            |to| Ok(ListOp::Set(index, to.write(&self.codec, element)?)),
            move |reply| decode_option(&codec, reply.bytes()?),
        )
    }

    /// Removes the element with this index, and returns it.
    pub fn remove(&self, index: i64) -> Call<Option<T>> {
        let codec = self.codec.clone();
        self.object.call(ListOp::RemoveAt(index), move |reply| decode_option(&codec, reply.bytes()?))
    }

    /// The elements of a range. Both ends belong to it.
    pub fn slice(&self, from: i64, to: i64) -> Call<Vec<T>> {
        let codec = self.codec.clone();
        self.object.call(ListOp::Slice(from, to), move |reply| decode_all(&codec, reply.list()?))
    }

    /// All elements in their order. Elements that are inserted or removed meanwhile may cause others to be missing or to
    /// come twice. An element that cannot be read is one error.
    pub fn stream(&self) -> impl Stream<Item = Result<T>> + Send + Unpin + use<T, C>
    where
        T: 'static,
    {
        let codec = self.codec.clone();
        stream(&self.object, Part::Elements, move |(element, ..)| decode(&codec, &element))
    }

    /// At most this number of elements, as [`List::stream`].
    ///
    /// # Errors
    /// Those of a [`Call`]. `ErrorKind::Corrupt`: one of the elements cannot be read.
    pub async fn to_vec(&self, at_most: usize) -> Result<Vec<T>>
    where
        T: 'static,
    {
        first(self.stream(), at_most).await
    }
}
