//! Journals, and the groups of programs that read them.

use std::{
    borrow::Borrow,
    future::IntoFuture,
    time::{Duration, SystemTime},
};

use bandog_codec::{Codec, Decode, Encode};
use bandog_core::{
    Error, Portions, Result,
    structures::{Action, EntryId, GroupName, GroupRow, JournalOp, Keep, Reply, Source, Start, TakeOp},
};
use futures_util::{
    future::BoxFuture,
    stream::{Stream, StreamExt, iter, unfold},
};

use crate::{
    Call, Taken,
    call::Writer,
    map::count,
    object::{Object, decode, decode_all, handle},
    pages::{PAGE, in_time},
    queue,
};

/// An entry of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<T> {
    /// Its id, which contains the time of the store at which it was appended.
    pub id: EntryId,
    /// The value.
    pub value: T,
}

handle! {
    /// Entries that stay in the order in which they were appended, as Redisson's `RStream` and `RReliableTopic`. Created by
    /// [`Grid::journal`](crate::Grid::journal).
    ///
    /// Each [`Group`] of programs gets each entry, and one program of the group works on it. An entry stays in the journal
    /// after that. Without [`Journal::keep`] or [`Journal::keep_newest`], all entries stay for ever.
    ///
    /// Of an entry that another program appended, the value is that of the field `m`, or of the first field.
    ///
    /// ```
    /// # use bandog::grid::{ClientGrid, Journal};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let grid = bandog::connect("memory:").await?.grid();
    /// let day = Duration::from_secs(86_400);
    /// let payments: Journal<String> = grid.journal("payments")?.keep(day);
    /// let billing = payments.group("billing").await?; // It is there until it is removed, also if no program runs.
    /// payments.append("order 7: 12.50").await?;
    ///
    /// if let Some(payment) = billing.take(Duration::from_secs(1)).await? {
    ///     assert_eq!(*payment, "order 7: 12.50");
    ///     payment.done().await?;
    /// }
    /// assert_eq!(payments.len().await?, 1); // Other groups can read it.
    /// # Ok(()) }
    /// ```
    Journal<T> { keep: Keep = Keep::All, is_exact: bool = false }
}

impl<T, C: Codec> Journal<T, C> {
    /// Appending through this handle removes entries that are older than this. The store may keep some older ones. An entry
    /// that a group has not taken by then is missing for the group.
    #[must_use]
    pub fn keep(self, age: Duration) -> Self {
        Self { keep: Keep::For(age), ..self }
    }

    /// Appending through this handle removes entries before the newest ones, of which this number stays. The store may keep
    /// some more. An entry that a group has not taken by then is missing for the group.
    #[must_use]
    pub fn keep_newest(self, entries: u64) -> Self {
        Self { keep: Keep::Newest(entries), ..self }
    }

    /// With this, the store remembers the appends, so an append is repeated after a lost answer, and counts once. It costs
    /// more in the store.
    #[must_use]
    pub fn exact(self) -> Self {
        Self { is_exact: true, ..self }
    }

    /// The number of entries.
    pub fn len(&self) -> Call<u64> {
        self.object.call(JournalOp::Len, count)
    }

    /// Removes exactly the entries that are older than this. Returns their number.
    pub fn trim(&self, age: Duration) -> Call<u64> {
        self.object.call(JournalOp::Trim(Keep::For(age)), count)
    }

    /// Removes exactly the entries before the newest ones, of which this number stays. Returns the number of removed entries.
    pub fn trim_to_newest(&self, entries: u64) -> Call<u64> {
        self.object.call(JournalOp::Trim(Keep::Newest(entries)), count)
    }

    /// A group, which is created when this is awaited, unless it exists. Without [`UnopenedGroup::from_oldest`] or
    /// [`UnopenedGroup::after`], a new group begins after the newest entry.
    ///
    /// The name must not be empty, and has no blanks; otherwise the error is `ErrorKind::Misused`.
    pub fn group(&self, name: impl AsRef<str>) -> UnopenedGroup<T, C> {
        UnopenedGroup { group: Group::new(self, name.as_ref()), start: Start::Newest }
    }

    /// The groups. An entry that is neither ready nor taken in a group is done there.
    pub fn groups(&self) -> Call<Vec<GroupRow>> {
        self.object.call(JournalOp::Groups, Reply::groups)
    }

    /// Removes a group. Returns whether it existed. A program that takes from the group afterwards creates it again, before
    /// the oldest entry.
    pub fn remove_group(&self, name: impl AsRef<str>) -> Call<bool> {
        self.object.call(JournalOp::RemoveGroup(name.as_ref().into()), Reply::flag)
    }
}

impl<T, C: Encode<T>> Journal<T, C> {
    /// Appends an entry. Returns its id.
    pub fn append<Q: ?Sized>(&self, value: &Q) -> Call<EntryId>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.append_each([value].into_iter(), |reply| {
            let first = reply.entry_ids()?.into_iter().next();
            first.ok_or_else(|| Error::new(bandog_core::ErrorKind::Corrupt, "the store gave no id for the entry"))
        })
    }

    /// Appends entries, in one step. Returns their ids.
    pub fn append_all<Q>(&self, values: &[Q]) -> Call<Vec<EntryId>>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        match values.is_empty() {
            true => Call::known(Ok(Vec::new())),
            false => self.append_each(values.iter(), Reply::entry_ids),
        }
    }

    fn append_each<'a, Q: ?Sized + 'a, R>(
        &self,
        values: impl Iterator<Item = &'a Q>,
        read: impl FnOnce(Reply) -> Result<R> + Send + 'static,
    ) -> Call<R>
    where
        C: Encode<Q>,
    {
        let append = |to: &mut Writer| {
            let entries = values.map(|value| to.write(&self.codec, value)).collect::<Result<_>>()?;
            Ok(JournalOp::Append { entries, keep: self.keep, once: None })
        };
        let call = self.object.write(append, read);
        if self.is_exact { call.exact() } else { call }
    }
}

impl<T, C: Decode<T>> Journal<T, C> {
    /// The entries from one id to another, both included, but at most this number.
    pub fn range(&self, from: EntryId, to: EntryId, at_most: u32) -> Call<Vec<Entry<T>>> {
        let codec = self.codec.clone();
        self.object.call(JournalOp::Range { from, to, at_most, bytes: u32::MAX }, move |reply| {
            reply.entries()?.into_iter().map(|(id, bytes)| Ok(Entry { id, value: decode(&codec, &bytes)? })).collect()
        })
    }

    /// The entries after this one, in pages, until the newest one. [`EntryId::MIN`] is before all entries. An entry that
    /// cannot be read is one error, and the stream continues. An error of the store ends it.
    pub fn stream(&self, after: EntryId) -> impl Stream<Item = Result<Entry<T>>> + Send + Unpin + use<T, C>
    where
        T: Send + 'static,
    {
        let (object, codec) = (self.object.clone(), self.codec.clone());
        let pages = unfold((object, Some(after), Portions::default()), |(object, after, mut portions)| async move {
            let from = after?.next();
            let page = in_time(&mut portions, |portions| {
                let [at_most, bytes] = portions.next(PAGE).limits();
                let range = JournalOp::Range { from, to: EntryId::MAX, at_most, bytes };
                object.call(range, Reply::entries).into_future()
            });
            let page = page.await;
            let last = page.as_ref().ok().and_then(|page| page.last()).map(|(id, _)| *id);
            Some((page, (object, last, portions)))
        });
        let key = self.object.key.clone();
        let entries = pages.flat_map(move |page| {
            let read = |(id, bytes): (EntryId, Vec<u8>)| match decode(&codec, &bytes) {
                Ok(value) => Ok(Entry { id, value }),
                Err(error) => Err(error.at(&key)),
            };
            iter(match page {
                Ok(page) => page.into_iter().map(read).collect(),
                Err(error) => vec![Err(error)],
            })
        });
        Box::pin(entries)
    }
}

/// A group that is opened when this is awaited. Created by [`Journal::group`].
#[must_use = "a group does nothing until it is awaited"]
pub struct UnopenedGroup<T, C> {
    group: Result<Group<T, C>>,
    start: Start,
}

impl<T, C> UnopenedGroup<T, C> {
    /// If the group is new, it begins before the oldest entry.
    pub fn from_oldest(self) -> Self {
        Self { start: Start::Oldest, ..self }
    }

    /// If the group is new, it begins after this entry.
    pub fn after(self, entry: EntryId) -> Self {
        Self { start: Start::After(entry), ..self }
    }

    /// If the group is new, it begins with the entries that were appended at this time of the store's clock.
    pub fn since(self, time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        self.after(EntryId { millis: millis.saturating_sub(1), number: u64::MAX })
    }
}

impl<T: 'static, C: Codec> IntoFuture for UnopenedGroup<T, C> {
    type Output = Result<Group<T, C>>;
    type IntoFuture = BoxFuture<'static, Result<Group<T, C>>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let group = self.group?;
            group.object.call(JournalOp::OpenGroup(group.name.clone(), self.start), Reply::flag).await?;
            Ok(group)
        })
    }
}

impl<T, C> std::fmt::Debug for UnopenedGroup<T, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnopenedGroup").field("start", &self.start).finish_non_exhaustive()
    }
}

/// Programs that share the entries of a journal: each entry is taken by one of them. Created by [`Journal::group`]. Clones
/// are the same group.
///
/// A group exists in the store until [`Journal::remove_group`], and remembers which entries are done. If it is missing,
/// because the store has lost its data, taking creates it again, before the oldest entry: entries may come twice then, but
/// none is missing.
pub struct Group<T, C = bandog_codec::TextJson> {
    object: Object,
    codec: C,
    name: GroupName,
    lease: Duration,
    types: std::marker::PhantomData<fn() -> T>,
}

impl<T, C: Codec> Group<T, C> {
    fn new(journal: &Journal<T, C>, name: &str) -> Result<Self> {
        if name.is_empty() || name.contains(|char: char| char.is_whitespace() || char.is_control()) {
            let message = format!("the name of a group is {name:?}; it must not be empty, and has no blanks");
            return Err(Error::misused(message).at(&journal.object.key));
        }
        let (object, codec, lease) = (journal.object.clone(), journal.codec.clone(), queue::DEFAULT_LEASE);
        Ok(Self { object, codec, name: name.into(), lease, types: std::marker::PhantomData })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The time after which an entry of [`Self::take`] becomes available again if its program has died. Default: 30 s. It
    /// must be between 1 s and 1 day.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// The number of entries that can be taken. It is exact below 100. Redis may count at most 10,000, and may include
    /// entries that were removed before the group had taken them.
    pub fn len(&self) -> Call<u64> {
        self.object.call(Action::Take(TakeOp::Count(self.source())), |reply| Ok(reply.queue()?.0))
    }

    /// The number of entries that are taken and not done.
    pub fn taken_len(&self) -> Call<u64> {
        self.object.call(Action::Take(TakeOp::Count(self.source())), |reply| Ok(reply.queue()?.1))
    }

    fn source(&self) -> Source {
        Source::Group(self.name.clone())
    }
}

impl<T, C: Decode<T>> Group<T, C> {
    /// The next entries, at most this number. They stay where they are.
    pub fn peek(&self, at_most: u32) -> Call<Vec<T>> {
        let codec = self.codec.clone();
        let op = Action::Take(TakeOp::Peek { from: self.source(), skip: 0, at_most, bytes: u32::MAX });
        self.object.call(op, move |reply: Reply| decode_all(&codec, reply.list()?))
    }

    /// Takes the next entry, with a lease. If there is none, waits for at most this time.
    ///
    /// The entry belongs to the caller until [`Taken::done`]. Meanwhile the lease is renewed. If the program dies, the entry
    /// becomes available again when the lease is over. A dropped [`Taken`] becomes available again at once. Entries that were
    /// taken before come first, the others in their order.
    ///
    /// # Errors
    /// - `ErrorKind::Unavailable`: the store has not answered in time.
    /// - `ErrorKind::Denied`: the name has data of another type, or the user lacks a right.
    /// - `ErrorKind::Corrupt`: the entry cannot be read. It stays the next entry of the group.
    ///
    /// # Cancel safety
    /// If the future is dropped, the entry stays available to the group.
    pub async fn take(&self, at_most: Duration) -> Result<Option<Taken<T>>> {
        let taken = queue::take(&self.object, self.source(), self.lease, at_most).await?;
        let read = |popped| Taken::read(popped, |bytes| decode(&self.codec, bytes));
        taken.map(read).transpose().map_err(|error| error.at(&self.object.key))
    }
}

impl<T, C: Clone> Clone for Group<T, C> {
    fn clone(&self) -> Self {
        let (object, codec, name) = (self.object.clone(), self.codec.clone(), self.name.clone());
        Self { object, codec, name, lease: self.lease, types: std::marker::PhantomData }
    }
}

impl<T, C: std::fmt::Debug> std::fmt::Debug for Group<T, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("journal", &self.object.key).field("name", &self.name).finish_non_exhaustive()
    }
}
