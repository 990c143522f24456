//! Sorted sets.

use std::{
    borrow::Borrow,
    ops::{Bound, RangeBounds},
    time::Duration,
};

use bandog_codec::{Decode, Encode};
use bandog_core::{
    Result,
    structures::{Action, Bytes, End, Part, Reply, Scores, SortedOp, Source},
};
use futures_util::stream::Stream;

use crate::{
    Call,
    map::count,
    object::{decode, handle},
    pages::{first, stream},
    queue,
};

handle! {
    /// Members in the order of their scores, as Redisson's `RScoredSortedSet`. Created by
    /// [`Grid::sorted_set`](crate::Grid::sorted_set). Members of one score are in the order of their encoded bytes. A score
    /// that is NaN is `ErrorKind::Misused`. Java cannot read a set with an infinite score.
    ///
    /// ```
    /// # use bandog::grid::{ClientGrid, SortedSet};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let grid = bandog::connect("memory:").await?.grid();
    /// let board: SortedSet<String> = grid.sorted_set("board")?;
    /// board.insert(7.0, "ann").await?;
    /// board.add("bob", 9.5).await?;
    /// assert_eq!(board.top(1).await?, [("bob".to_owned(), 9.5)]);
    /// assert_eq!(board.rank("ann").await?, Some(0));
    /// assert_eq!(board.pop_min().await?, Some(("ann".to_owned(), 7.0)));
    /// # Ok(()) }
    /// ```
    SortedSet<T>
}

impl<T, C: Encode<T>> SortedSet<T, C> {
    /// The number of members.
    pub fn len(&self) -> Call<u64> {
        self.object.call(SortedOp::Len, count)
    }

    /// Inserts a member, or changes its score. Returns whether it is new.
    pub fn insert<Q: ?Sized>(&self, score: f64, member: &Q) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(
            |to| Ok(SortedOp::Insert(vec![(score, to.write(&self.codec, member)?)])),
            |reply| Ok(reply.int()? > 0),
        )
    }

    /// Inserts members, or changes their scores, in one step. Returns the number of those that are new.
    pub fn insert_all<Q>(&self, members: &[(f64, Q)]) -> Call<u64>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        if members.is_empty() {
            return Call::known(Ok(0));
        }
        self.object.write(
            |to| {
                let member = |(score, member): &(f64, Q)| Ok((*score, to.write(&self.codec, member)?));
                Ok(SortedOp::Insert(members.iter().map(member).collect::<Result<_>>()?))
            },
            count,
        )
    }

    /// Inserts a member if the set does not have it. Returns whether it was inserted.
    pub fn insert_new<Q: ?Sized>(&self, score: f64, member: &Q) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(|to| Ok(SortedOp::InsertNew(score, to.write(&self.codec, member)?)), Reply::flag)
    }

    /// Adds to the score of a member, and returns the sum. A member that the set does not have is inserted with 0 before.
    pub fn add<Q: ?Sized>(&self, member: &Q, by: f64) -> Call<f64>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(|to| Ok(SortedOp::Add(to.write(&self.codec, member)?, by)), Reply::float)
    }

    /// Removes a member. Returns whether it existed.
    pub fn remove<Q: ?Sized>(&self, member: &Q) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(|to| Ok(SortedOp::Remove(vec![to.write(&self.codec, member)?])), |reply| Ok(reply.int()? > 0))
    }

    /// The score of a member.
    pub fn score<Q: ?Sized>(&self, member: &Q) -> Call<Option<f64>>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(
            |to| Ok(SortedOp::Scores(vec![to.write(&self.codec, member)?])),
            |reply| Ok(reply.scores()?.pop().flatten()),
        )
    }

    /// Whether the set has this member.
    pub fn contains<Q: ?Sized>(&self, member: &Q) -> Call<bool>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(
            |to| Ok(SortedOp::Scores(vec![to.write(&self.codec, member)?])),
            |reply| Ok(reply.scores()?.pop().flatten().is_some()),
        )
    }

    /// The position of a member. The member with the smallest score has 0.
    pub fn rank<Q: ?Sized>(&self, member: &Q) -> Call<Option<u64>>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(|to| Ok(SortedOp::Rank(to.write(&self.codec, member)?, End::Front)), Reply::index)
    }

    /// The position of a member, counted from the greatest score, which has 0.
    pub fn rank_from_top<Q: ?Sized>(&self, member: &Q) -> Call<Option<u64>>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.object.write(|to| Ok(SortedOp::Rank(to.write(&self.codec, member)?, End::Back)), Reply::index)
    }

    /// The number of members whose scores are in the range.
    pub fn count(&self, scores: impl RangeBounds<f64>) -> Call<u64> {
        match scores_of(&scores) {
            Some(scores) => self.object.call(SortedOp::Count(scores), count),
            None => Call::known(Ok(0)),
        }
    }

    /// Removes the members whose scores are in the range. Returns their number.
    pub fn remove_range(&self, scores: impl RangeBounds<f64>) -> Call<u64> {
        match scores_of(&scores) {
            Some(scores) => self.object.call(SortedOp::RemoveBetween(scores), count),
            None => Call::known(Ok(0)),
        }
    }
}

impl<T, C: Decode<T>> SortedSet<T, C> {
    /// The members with the greatest scores, at most this number, the greatest first.
    pub fn top(&self, at_most: u32) -> Call<Vec<(T, f64)>> {
        self.ranked(End::Back, at_most)
    }

    /// The members with the smallest scores, at most this number, the smallest first.
    pub fn bottom(&self, at_most: u32) -> Call<Vec<(T, f64)>> {
        self.ranked(End::Front, at_most)
    }

    fn ranked(&self, end: End, at_most: u32) -> Call<Vec<(T, f64)>> {
        match at_most.checked_sub(1) {
            Some(last) => self.members(SortedOp::Range(end, 0, i64::from(last))),
            None => Call::known(Ok(Vec::new())),
        }
    }

    /// The members whose scores are in the range, at most this number, the smallest score first.
    pub fn range(&self, scores: impl RangeBounds<f64>, at_most: u32) -> Call<Vec<(T, f64)>> {
        match scores_of(&scores).filter(|_| at_most > 0) {
            Some(scores) => self.members(SortedOp::Between(scores, at_most)),
            None => Call::known(Ok(Vec::new())),
        }
    }

    fn members(&self, op: SortedOp) -> Call<Vec<(T, f64)>> {
        let codec = self.codec.clone();
        let member = move |(bytes, score): (Bytes, f64)| Ok((decode(&codec, &bytes)?, score));
        self.object.call(Action::Sorted(op), move |reply| reply.scored()?.into_iter().map(member).collect())
    }

    /// All members with their scores, the smallest score first. Members that are inserted or removed meanwhile may cause
    /// others to be missing or to come twice. A member that cannot be read is one error.
    pub fn stream(&self) -> impl Stream<Item = Result<(T, f64)>> + Send + Unpin + use<T, C>
    where
        T: 'static,
    {
        let codec = self.codec.clone();
        stream(&self.object, Part::Scored, move |(member, _, score)| {
            Ok((decode(&codec, &member)?, score.unwrap_or_default()))
        })
    }

    /// At most this number of members, as [`SortedSet::stream`].
    ///
    /// # Errors
    /// Those of a [`Call`]. `ErrorKind::Corrupt`: one of the members cannot be read.
    pub async fn to_vec(&self, at_most: usize) -> Result<Vec<(T, f64)>>
    where
        T: 'static,
    {
        first(self.stream(), at_most).await
    }

    /// Takes out the member with the smallest score. No member is lost: see [`Queue::pop`](crate::Queue::pop).
    ///
    /// # Errors
    /// As [`Queue::pop`](crate::Queue::pop).
    ///
    /// # Cancel safety
    /// If the future is dropped, the member stays in the set or returns to it.
    pub async fn pop_min(&self) -> Result<Option<(T, f64)>> {
        self.accept(queue::pop(&self.object, Source::Sorted(End::Front)).await?)
    }

    /// As [`SortedSet::pop_min`], for the greatest score.
    ///
    /// # Errors
    /// As [`Queue::pop`](crate::Queue::pop).
    ///
    /// # Cancel safety
    /// If the future is dropped, the member stays in the set or returns to it.
    pub async fn pop_max(&self) -> Result<Option<(T, f64)>> {
        self.accept(queue::pop(&self.object, Source::Sorted(End::Back)).await?)
    }

    /// As [`SortedSet::pop_min`]. If the set is empty, waits for a member for at most this time.
    ///
    /// # Errors
    /// As [`Queue::pop_wait`](crate::Queue::pop_wait).
    ///
    /// # Cancel safety
    /// If the future is dropped, the member stays in the set or returns to it.
    pub async fn pop_min_wait(&self, at_most: Duration) -> Result<Option<(T, f64)>> {
        self.accept(queue::pop_wait(&self.object, Source::Sorted(End::Front), at_most).await?)
    }

    /// As [`SortedSet::pop_min_wait`], for the greatest score.
    ///
    /// # Errors
    /// As [`Queue::pop_wait`](crate::Queue::pop_wait).
    ///
    /// # Cancel safety
    /// If the future is dropped, the member stays in the set or returns to it.
    pub async fn pop_max_wait(&self, at_most: Duration) -> Result<Option<(T, f64)>> {
        self.accept(queue::pop_wait(&self.object, Source::Sorted(End::Back), at_most).await?)
    }

    fn accept(&self, popped: Option<queue::Popped>) -> Result<Option<(T, f64)>> {
        let read = |element: &bandog_core::structures::TakenElement| {
            Ok((decode(&self.codec, &element.bytes)?, element.score.unwrap_or_default()))
        };
        let accepted = popped.map(|popped| popped.accept(read)).transpose();
        accepted.map_err(|error| error.at(&self.object.key))
    }
}

/// A range of scores with both ends. `None`: it is empty.
fn scores_of(range: &impl RangeBounds<f64>) -> Option<Scores> {
    let min = match range.start_bound() {
        Bound::Included(min) => *min,
        Bound::Excluded(min) => min.next_up(),
        Bound::Unbounded => f64::NEG_INFINITY,
    };
    let max = match range.end_bound() {
        Bound::Included(max) => *max,
        Bound::Excluded(max) => max.next_down(),
        Bound::Unbounded => f64::INFINITY,
    };
    (min <= max).then_some(Scores { min, max })
}
