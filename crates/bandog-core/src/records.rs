//! Records: small texts with a version. A swap replaces the whole text, if the record still has the version that the
//! caller has read.

use std::{
    fmt,
    num::NonZeroU64,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;

use crate::{ClaimId, Error, ErrorKind, Key, Mark, Notifier, Pattern, Result, SqlStatement, Subscription};

/// Maximum length of the name of a slot ([`Line::slot`]), in bytes of UTF-8.
const MAX_SLOT_LEN: usize = 64;

/// The version of a record. At every swap, the store assigns a new version to the record. The new version is greater
/// than the present version.
///
/// No version of a record is assigned twice, even if the store fails over, or if the record is deleted and created
/// again. The only exception is a store whose clock was set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(NonZeroU64);

impl Version {
    /// The version with this number. None if the number is 0.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The version that follows the version `last`, at the store's time `now`. The result is the greater of two
    /// numbers: `last` + 1, and the microseconds from 1970 to `now`. If `last` is None, the result is the second
    /// number.
    ///
    /// ```
    /// use bandog::backend::Version;
    /// use std::time::{Duration, SystemTime};
    /// let first = Version::after(None, SystemTime::UNIX_EPOCH + Duration::from_secs(1));
    /// assert_eq!(first.get(), 1_000_000);
    /// assert_eq!(Version::after(Some(first), SystemTime::UNIX_EPOCH).get(), 1_000_001);
    /// ```
    pub fn after(last: Option<Self>, now: SystemTime) -> Self {
        let micros = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
        let now = NonZeroU64::new(u64::try_from(micros).unwrap_or(u64::MAX)).unwrap_or(NonZeroU64::MIN);
        Self(last.map_or(now, |last| last.0.saturating_add(1).max(now)))
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A record as it is in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The version of the value.
    pub version: Version,
    /// The text of the record.
    pub value: String,
}

/// A lock, and the id of a claim that holds the lock now or held it before. [`Records::read`] checks whether the claim
/// still holds the lock. With [`Swap::held`], a swap is done only if the claim still holds the lock.
///
/// No two claims have the same id. So a claim that no longer holds its lock never holds that lock again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holding {
    /// The key of the lock in the store, with the prefix of the client.
    pub key: Key,
    /// The id of the claim.
    pub id: ClaimId,
}

/// One line of a record's history. Each line has a slot, which is a name. A record has at most one line for each slot:
/// a new line replaces the line with the same slot. So a writer that reuses a fixed set of slots never has to delete
/// lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The name of the slot: 1 to 64 bytes without control characters.
    pub slot: String,
    /// The text of the line.
    pub value: String,
}

/// A request to replace or delete a whole record, if the version of the record has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// The name of the record.
    pub key: Key,
    /// The version that the record must have. None if the record must not exist.
    pub from: Option<Version>,
    /// The new value. None deletes the record and its history.
    pub to: Option<String>,
    /// Lines of the history that are written together with the value. Each line replaces the line with the same slot.
    pub lines: Vec<Line>,
    /// The earliest time of the swap, by the store's clock. Before this time, the store refuses the swap with
    /// [`Swapped::Early`]. The resolution is one millisecond.
    pub not_before: Option<SystemTime>,
    /// A claim that must hold its lock. If the claim does not hold its lock, the store refuses the swap with
    /// [`Swapped::NotHeld`].
    pub held: Option<Holding>,
    /// Whether the store notifies the subscribers of this record ([`Records::subscribe_record`]) after the swap.
    pub notifies: bool,
}

impl Swap {
    /// Creates a swap whose only condition is the version. It has no lines, and notifies no subscriber.
    pub fn new(key: Key, from: Option<Version>, to: impl Into<String>) -> Self {
        Self { key, from, to: Some(to.into()), lines: Vec::new(), not_before: None, held: None, notifies: false }
    }

    /// Checks the slots of the lines. A client calls this before it sends the swap.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Misused`] if a slot is empty, is too long, or has a control character. The message
    /// names the slot.
    ///
    /// ```
    /// use bandog::{Key, backend::{Line, Swap}};
    /// let line = Line { slot: "tab\t".into(), value: "fine".into() };
    /// let swap = Swap { lines: vec![line], ..Swap::new(Key::new("orders")?, None, "first") };
    /// assert!(swap.check().is_err());
    /// # Ok::<(), bandog::Error>(())
    /// ```
    pub fn check(&self) -> Result<()> {
        let is_wrong =
            |line: &&Line| !(1..=MAX_SLOT_LEN).contains(&line.slot.len()) || line.slot.contains(char::is_control);
        let Some(Line { slot, .. }) = self.lines.iter().find(is_wrong) else { return Ok(()) };
        Err(Error::misused(format!(
            "the slot {slot:?} of a line must have 1 to {MAX_SLOT_LEN} bytes without control characters"
        ))
        .at(&self.key))
    }
}

/// The answer to a swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swapped {
    /// The swap is done. The field is the new version of the record. None if the swap deleted the record.
    Done(Option<Version>),
    /// The record does not have the version [`Swap::from`]. The field is the present record. None if no record exists.
    Differs(Option<Record>),
    /// The store's clock has not reached [`Swap::not_before`]. The field is the remaining time.
    Early(Duration),
    /// The claim of [`Swap::held`] does not hold its lock.
    NotHeld,
}

/// The answers to the swaps of one call.
#[derive(Debug)]
pub struct Swaps {
    /// The store's time when the store answered.
    pub now: SystemTime,
    /// One answer for each swap, in the same order. A failure at one record does not affect the other records.
    pub each: Vec<Result<Swapped>>,
}

/// The result of [`Records::read`].
#[derive(Debug)]
pub struct Reading {
    /// The store's time when the store answered.
    pub now: SystemTime,
    /// One result for each requested record, in the same order. None for a record that does not exist.
    pub records: Vec<Result<Option<Record>>>,
    /// For each requested holding, whether the claim holds its lock, in the same order.
    pub held: Vec<Result<bool>>,
}

/// The records of a store. The scheduler keeps its jobs in records.
///
/// Records and locks have separate names: the record `orders` and the lock `orders` are independent. A backend that
/// does not support records implements none of the methods. In the default implementations, each call returns
/// [`ErrorKind::Unsupported`], and each subscription is silent (it never notifies).
///
/// One swap is atomic: the store checks the conditions, and writes the record and its lines, in one step. The swaps of
/// one call are sent in one round trip, but they are not a transaction.
///
/// How durable a swap is depends on the store. SQLite writes the swap to disk before it answers. Redis can lose the
/// swap after the answer in two cases. The first case is a failover to a replica. The second case is a crash of the
/// server, if the server's persistence settings allow such a loss.
///
/// If [`Error::maybe_applied`] is true for an error, the store might or might not have done the swap. In this case, the
/// caller repeats the swap from the same version, or reads the record. The store does a repeated swap at most once,
/// with one exception. Suppose that three things happen: a request to create a record is delayed, the repeated request
/// creates the record, and the record is deleted. When the delayed request arrives, the store creates the record again.
///
/// ```
/// use bandog::{Key, backend::{Clock, Memory, Record, Records, Swap, Swapped}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), bandog::Error> {
/// /// Adds one to a number. Concurrent additions are not lost.
/// async fn add_one(store: &impl Records, key: &Key) -> Result<u64, bandog::Error> {
///     let mut present: Option<Record> = None;
///     loop {
///         let number = present.as_ref().map_or(0, |record| record.value.parse().unwrap_or(0)) + 1;
///         let from = present.map(|record| record.version);
///         match store.swap(&[Swap::new(key.clone(), from, number.to_string())]).await?.each.remove(0)? {
///             Swapped::Differs(record) => present = record,
///             Swapped::Done(_) | Swapped::Early(_) | Swapped::NotHeld => return Ok(number),
///         }
///     }
/// }
///
/// let (store, key) = (Memory::new(Clock::system()), Key::new("visits")?);
/// assert_eq!(add_one(&store, &key).await?, 1);
/// assert_eq!(add_one(&store, &key).await?, 2);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Records: Send + Sync + 'static {
    /// Does the swaps one after the other. The store does a swap only if the conditions of that swap are met.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`], if the store answered none of the swaps. The answer to a single swap
    /// ([`Swaps::each`]) can also be an error. The kind of such an error is [`ErrorKind::Denied`] if the store has
    /// other data than a record under this name, and [`ErrorKind::Corrupt`] if the record was not written by bandog.
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let _ = swaps;
        Err(no_records("swap"))
    }

    /// Reads records, and checks holdings. If `keys` and `holdings` are empty, the result has only the store's time.
    ///
    /// Up to 512 records and holdings are read in one atomic step. Longer lists are read in several steps, as few as
    /// the store allows. The records and locks can change between two steps.
    ///
    /// # Errors
    /// As [`Records::swap`].
    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let _ = (keys, holdings);
        Err(no_records("read"))
    }

    /// The names of all records whose names match the pattern, sorted.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        let _ = pattern;
        Err(no_records("names"))
    }

    /// The lines of a record's history, sorted by slot. Empty if the record does not exist.
    ///
    /// # Errors
    /// As [`Records::swap`].
    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        Err(no_records("history").at(key))
    }

    /// Calls `notifier` after each swap of this record for which [`Swap::notifies`] is true. It does not matter which
    /// process does the swap. The calls end when the subscription is dropped.
    ///
    /// After this call has returned, the backend must notify after every such swap. The backend is also allowed to
    /// notify without a reason. If a broken connection might have dropped a notification, the backend notifies as soon
    /// as it is connected again. A notification has no data, so the subscriber must read the record.
    ///
    /// A backend returns [`Subscription::silent`] if it does not support notifications, or if the store does not allow
    /// the backend's user to subscribe. The default implementation always returns [`Subscription::silent`]. The
    /// subscriber of a silent subscription must poll.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let _ = (key, notifier);
        Ok(Subscription::silent())
    }

    /// A statement that creates a record in a transaction of the user, if the conditions of the mark are met. It locks no
    /// record that swaps write.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Unsupported`] if the store is no database in which users have transactions, as in this
    /// default implementation.
    async fn mark_sql(&self, mark: &Mark) -> Result<SqlStatement> {
        Err(no_mark_sql(mark))
    }
}

/// The error of a store without transactions of users.
pub(crate) fn no_mark_sql(mark: &Mark) -> Error {
    let message = "this store has no transactions of users";
    Error::new(ErrorKind::Unsupported, message).during("complete").at(&mark.within.0)
}

/// The error of a backend that does not support records. `verb` is the operation that failed.
#[doc(hidden)]
pub fn no_records(verb: &'static str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "this backend has no records, which elections, barriers and jobs need; use another store for them",
    )
    .during(verb)
}
