//! Records: small texts with a version, swapped whole, for what has a state of its own beside locks.

use std::{
    fmt,
    num::NonZeroU64,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;

use crate::{ClaimId, Error, ErrorKind, Key, Notifier, Pattern, Result, Subscription};

/// The longest name of a slot, in bytes of UTF-8.
const MAX_SLOT_LEN: usize = 64;

/// Which writing of a record this is. The store makes it: it grows with every swap, and no version comes twice, not
/// even after a failover or when a record was deleted and made again, unless the store's clock is set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(NonZeroU64);

impl Version {
    /// The version of this number; none of 0.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The version that follows this one, or the first: the greater of the last one's successor and the store's time
    /// in microseconds since 1970.
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

/// What a store has under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Which writing this is.
    pub version: Version,
    /// What was written.
    pub value: String,
}

/// A lock and the claim that holds it, or once did. A claim's id never comes twice, so a holding that has ended has
/// ended for ever.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holding {
    /// The lock.
    pub key: Key,
    /// The claim.
    pub id: ClaimId,
}

/// One line of a record's history. A record has at most one of each slot, so whoever takes turns through a fixed number
/// of slots keeps as many lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where it stands: 1 to 64 bytes without control characters.
    pub slot: String,
    /// What it says.
    pub value: String,
}

/// A record to be replaced whole, if it is still as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// Which record.
    pub key: Key,
    /// The version that it must have; none: there must be no such record.
    pub from: Option<Version>,
    /// What is written; none deletes the record and its history.
    pub to: Option<String>,
    /// Lines that are written beside it, each instead of what its slot had.
    pub lines: Vec<Line>,
    /// The store refuses the swap while its own clock shows an earlier time, to the millisecond.
    pub not_before: Option<SystemTime>,
    /// The store refuses the swap unless this claim holds its lock.
    pub held: Option<Holding>,
    /// Whether those who hear this record ([`Records::subscribe_record`]) are rung once the swap is done.
    pub notifies: bool,
}

impl Swap {
    /// A swap without conditions beside the version, of which nobody is rung.
    pub fn new(key: Key, from: Option<Version>, to: impl Into<String>) -> Self {
        Self { key, from, to: Some(to.into()), lines: Vec::new(), not_before: None, held: None, notifies: false }
    }

    /// Checks what its types do not: the slots of its lines. A client does so before it asks the store.
    ///
    /// # Errors
    /// `Misused` with the slot and what is allowed.
    ///
    /// ```
    /// use bandog::{Key, backend::{Line, Swap}};
    /// let line = Line { slot: "tab\t".into(), value: "fine".into() };
    /// let swap = Swap { lines: vec![line], ..Swap::new(Key::new("orders")?, None, "first") };
    /// assert!(swap.check().is_err());
    /// # Ok::<(), bandog::Error>(())
    /// ```
    pub fn check(&self) -> Result<()> {
        let wrong =
            |line: &&Line| !(1..=MAX_SLOT_LEN).contains(&line.slot.len()) || line.slot.contains(char::is_control);
        let Some(Line { slot, .. }) = self.lines.iter().find(wrong) else { return Ok(()) };
        Err(Error::misused(format!(
            "the slot {slot:?} of a line is not allowed: it has 1 to {MAX_SLOT_LEN} bytes without control characters"
        ))
        .at(&self.key))
    }
}

/// What became of a swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swapped {
    /// It was done; the record has this version now, which is none when it was deleted.
    Done(Option<Version>),
    /// The record is another one, or there is none.
    Differs(Option<Record>),
    /// The store's clock has not reached `not_before`: so much is missing.
    Early(Duration),
    /// The claim does not hold its lock, or not any more.
    NotHeld,
}

/// The answers to many swaps.
#[derive(Debug)]
pub struct Swaps {
    /// The store's time when it answered.
    pub now: SystemTime,
    /// One answer each, in their order; one bad record never fails the others.
    pub each: Vec<Result<Swapped>>,
}

/// What was read.
#[derive(Debug)]
pub struct Reading {
    /// The store's time when it answered.
    pub now: SystemTime,
    /// The records, in the order of their names.
    pub records: Vec<Result<Option<Record>>>,
    /// Whether each of the holdings stands, in their order.
    pub held: Vec<Result<bool>>,
}

/// Records of a store: what jobs, latches and counters are made of.
///
/// Names of records and of locks do not meet: the record `orders` and the lock `orders` are two things. A backend that
/// keeps no records implements nothing; all of it is `Unsupported` then.
///
/// A swap is one atomic step: its record, its lines and its conditions. Several swaps are sent in one round trip, and
/// are no transaction. What was answered is as durable as the store can make it: SQLite has it on its disk, and what Redis
/// loses by its settings, or when it fails over to a replica, it loses here too.
///
/// An `Err` means that nobody knows whether it was done, if it says so ([`Error::maybe_applied`]): swap again from the
/// same version, which is done once at most, or read, and see. Only a creation can come late and still be done: after
/// somebody has deleted the record again.
///
/// ```
/// use bandog::{Clock, Key, backend::{Memory, Record, Records, Swap, Swapped}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), bandog::Error> {
/// /// Adds one, however many others do so at the same time.
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
    /// Does these swaps in their order, each if its conditions hold.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`], when none of them was answered. For one of them: `Denied` when its name is something
    /// else in the store, `Corrupt` when what is there was not written by us.
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let _ = swaps;
        Err(unsupported("swap"))
    }

    /// Reads these records and asks about these holdings: up to 512 together at one moment, more in as few moments as the
    /// store can. Neither is needed: the store's time is always told.
    ///
    /// # Errors
    /// As [`Records::swap`].
    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let _ = (keys, holdings);
        Err(unsupported("read"))
    }

    /// The names of the records that match, sorted.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        let _ = pattern;
        Err(unsupported("names"))
    }

    /// The lines of a record's history, sorted by slot; none of a record that does not exist.
    ///
    /// # Errors
    /// As [`Records::swap`].
    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        Err(unsupported("history").at(key))
    }

    /// Notifications `notifier` until the bell is dropped, whenever a swap of this record that says so ([`Swap::notifies`]) was done,
    /// by whatever process: it may ring for nothing, and never stays silent for a swap that was done after this call has
    /// answered. When a broken connection may have swallowed a ring, it rings. It is a hint: how the record is now, a
    /// reading tells.
    ///
    /// A backend that cannot ring, or is not allowed to listen, gives [`Subscription::silent`], as this does by default: whoever
    /// hears must look by itself now and then.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let _ = (key, notifier);
        Ok(Subscription::silent())
    }
}

fn unsupported(verb: &'static str) -> Error {
    Error::new(ErrorKind::Unsupported, "this backend keeps no records, so it has no schedules").during(verb)
}
