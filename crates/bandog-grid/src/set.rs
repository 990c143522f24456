//! Sets.

use std::borrow::Borrow;

use bandog_codec::{Decode, Encode};
use bandog_core::{
    Error, Key, Result,
    structures::{Action, Combine, Part, Reply, SetOp, Source},
};
use futures_util::stream::Stream;

use crate::{
    Call,
    map::count,
    object::{decode, decode_all, handle},
    pages::{first, stream},
    queue,
};

handle! {
    /// A set, as Redisson's `RSet`. Created by [`Grid::set`](crate::Grid::set).
    ///
    /// ```
    /// # use bandog::grid::{ClientGrid, Set};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let grid = bandog::connect("memory:").await?.grid();
    /// let tags: Set<String> = grid.set("tags")?;
    /// assert!(tags.insert("new").await?);
    /// assert!(tags.contains("new").await?);
    /// assert_eq!(tags.pop().await?.as_deref(), Some("new"));
    /// # Ok(()) }
    /// ```
    Set<T>
}

impl<T, C: Encode<T>> Set<T, C> {
    /// The number of members.
    pub fn len(&self) -> Call<u64> {
        self.object.call(SetOp::Len, count)
    }

    /// Inserts a member. Returns whether it is new.
    pub fn insert<Q: ?Sized>(&self, member: &Q) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(|to| Ok(SetOp::Insert(vec![to.write(&self.codec, member)?])), |reply| Ok(reply.int()? > 0))
    }

    /// Inserts members. Returns the number of those that are new.
    pub fn insert_all<Q>(&self, members: &[Q]) -> Call<u64>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.each(members, SetOp::Insert, count)
    }

    /// Removes a member. Returns whether it existed.
    pub fn remove<Q: ?Sized>(&self, member: &Q) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(|to| Ok(SetOp::Remove(vec![to.write(&self.codec, member)?])), |reply| Ok(reply.int()? > 0))
    }

    /// Removes members. Returns the number of those that existed.
    pub fn remove_all<Q>(&self, members: &[Q]) -> Call<u64>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.each(members, SetOp::Remove, count)
    }

    /// Whether the set has this member.
    pub fn contains<Q: ?Sized>(&self, member: &Q) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let op = |to: &mut crate::call::Writer| Ok(SetOp::Contains(vec![to.write(&self.codec, member)?]));
        self.object.write(op, |reply| Ok(reply.flags()?.contains(&true)))
    }

    /// For each of these, whether the set has it.
    pub fn contains_all<Q>(&self, members: &[Q]) -> Call<Vec<bool>>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.each(members, SetOp::Contains, Reply::flags)
    }

    /// Moves a member to another set in one step. Returns whether it existed.
    pub fn move_to<Q: ?Sized>(&self, member: &Q, to: &Self) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(
            |writer| {
                let other = self.object.others([&to.object].into_iter())?.remove(0);
                Ok(SetOp::Move(writer.write(&self.codec, member)?, other))
            },
            Reply::flag,
        )
    }

    fn each<Q, A: Default + 'static>(
        &self,
        members: &[Q],
        op: impl FnOnce(Vec<Vec<u8>>) -> SetOp,
        read: impl FnOnce(Reply) -> Result<A> + Send + 'static,
    ) -> Call<A>
    where
        C: Encode<Q>,
    {
        if members.is_empty() {
            return Call::known(Ok(A::default()));
        }
        self.object.write(
            |to| Ok(op(members.iter().map(|member| to.write(&self.codec, member)).collect::<Result<_>>()?)),
            read,
        )
    }
}

impl<T, C: Decode<T>> Set<T, C> {
    /// At most this number of different members, at random.
    pub fn random(&self, at_most: u32) -> Call<Vec<T>> {
        self.members(SetOp::Random(at_most))
    }

    /// The members of this set or of any of the others.
    pub fn union(&self, others: &[&Self]) -> Call<Vec<T>> {
        self.combine(Combine::Union, others)
    }

    /// The members of this set that all others have.
    pub fn intersection(&self, others: &[&Self]) -> Call<Vec<T>> {
        self.combine(Combine::Intersection, others)
    }

    /// The members of this set that no other has.
    pub fn difference(&self, others: &[&Self]) -> Call<Vec<T>> {
        self.combine(Combine::Difference, others)
    }

    fn combine(&self, how: Combine, others: &[&Self]) -> Call<Vec<T>> {
        let keys: Result<Vec<Key>> = self.object.others(others.iter().map(|other| &other.object));
        match keys {
            Ok(keys) => self.members(SetOp::Combine(how, keys)),
            Err(error) => Call::known(Err(error)),
        }
    }

    fn members(&self, op: SetOp) -> Call<Vec<T>> {
        let codec = self.codec.clone();
        self.object.call(Action::Set(op), move |reply| decode_all(&codec, reply.list()?))
    }

    /// All members, in no order. A member that is inserted or removed meanwhile may be missing; each other member comes
    /// once or twice. A member that cannot be read is one error.
    pub fn stream(&self) -> impl Stream<Item = Result<T>> + Send + Unpin + use<T, C>
    where
        T: 'static,
    {
        let codec = self.codec.clone();
        stream(&self.object, Part::Members, move |(member, ..)| decode(&codec, &member))
    }

    /// At most this number of members, as [`Set::stream`].
    ///
    /// # Errors
    /// Those of a [`Call`]. `ErrorKind::Corrupt`: one of the members cannot be read.
    pub async fn to_vec(&self, at_most: usize) -> Result<Vec<T>>
    where
        T: 'static,
    {
        first(self.stream(), at_most).await
    }

    /// Takes a member out at random. No member is lost: see [`Queue::pop`](crate::Queue::pop).
    ///
    /// # Errors
    /// As [`Queue::pop`](crate::Queue::pop).
    ///
    /// # Cancel safety
    /// If the future is dropped, the member stays in the set or returns to it.
    pub async fn pop(&self) -> Result<Option<T>> {
        let popped = queue::pop(&self.object, Source::Set).await?;
        popped
            .map(|popped| popped.accept(|element| decode(&self.codec, &element.bytes)))
            .transpose()
            .map_err(at(&self.object.key))
    }
}

/// Adds the key to an error.
fn at(key: &Key) -> impl FnOnce(Error) -> Error {
    let key = key.clone();
    move |error| error.at(&key)
}
