//! Records: small texts with a version. A swap replaces a whole record if its version has not changed.

use std::{
    fmt,
    num::NonZeroU64,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;

use crate::{ClaimId, Error, ErrorKind, Key, Notifier, Pattern, Result, Subscription};

/// Maximum length of a slot's name, in bytes of UTF-8.
const MAX_SLOT_LEN: usize = 64;

/// The version of a record. The store assigns it, and it rises with every swap.
///
/// No version is assigned twice, also after a failover and for a record that was deleted and created again, unless the
/// store's clock is set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(NonZeroU64);

impl Version {
    /// The version with this number. None for 0.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The version that follows `last`: the greater of its successor and the store's time in microseconds since 1970.
    /// Without `last` it is the store's time.
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

/// A record as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The version of the value.
    pub version: Version,
    /// The text of the record.
    pub value: String,
}

/// A lock and a claim that holds it or held it once. A holding stands while the claim holds the lock. A claim's id is
/// never used twice, so a holding that has ended never stands again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holding {
    /// The lock.
    pub key: Key,
    /// The claim.
    pub id: ClaimId,
}

/// One line of a record's history. A record has at most one line for each slot, so a writer that uses a fixed number of
/// slots in turn keeps that number of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The name of the slot: 1 to 64 bytes without control characters.
    pub slot: String,
    /// The text of the line.
    pub value: String,
}

/// A request to replace or delete a whole record, if its version has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// The name of the record.
    pub key: Key,
    /// The version that the record must have. None: the record must not exist.
    pub from: Option<Version>,
    /// The new value. None deletes the record and its history.
    pub to: Option<String>,
    /// Lines that are written together with the value. Each replaces the line of its slot.
    pub lines: Vec<Line>,
    /// The store refuses the swap while the store's clock shows an earlier time. The resolution is one millisecond.
    pub not_before: Option<SystemTime>,
    /// The store refuses the swap unless this claim holds its lock.
    pub held: Option<Holding>,
    /// Whether the store notifies the subscribers of this record ([`Records::subscribe_record`]) after the swap.
    pub notifies: bool,
}

impl Swap {
    /// A swap whose only condition is the version, and which notifies no subscriber.
    pub fn new(key: Key, from: Option<Version>, to: impl Into<String>) -> Self {
        Self { key, from, to: Some(to.into()), lines: Vec::new(), not_before: None, held: None, notifies: false }
    }

    /// Checks the slots of the lines. A client calls it before it sends the swap.
    ///
    /// # Errors
    /// `Misused` for a slot that is empty, too long or has a control character. The message names the slot.
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

/// The answer to a swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swapped {
    /// The swap is done. The record has this version now; none if it was deleted.
    Done(Option<Version>),
    /// The record has another version. This is the present record; none if it does not exist.
    Differs(Option<Record>),
    /// The store's clock has not reached `not_before`. This is the remaining time.
    Early(Duration),
    /// The claim of [`Swap::held`] does not hold its lock.
    NotHeld,
}

/// The answers to the swaps of one call.
#[derive(Debug)]
pub struct Swaps {
    /// The store's time when it answered.
    pub now: SystemTime,
    /// One answer for each swap, in the same order. A failure at one record does not affect the others.
    pub each: Vec<Result<Swapped>>,
}

/// The result of [`Records::read`].
#[derive(Debug)]
pub struct Reading {
    /// The store's time when it answered.
    pub now: SystemTime,
    /// One result for each requested record, in the same order. None for a record that does not exist.
    pub records: Vec<Result<Option<Record>>>,
    /// For each requested holding, whether the claim holds its lock, in the same order.
    pub held: Vec<Result<bool>>,
}

/// Records of a store. Jobs, latches and counters are kept in records.
///
/// Records and locks have separate names: the record `orders` and the lock `orders` are independent. A backend without
/// records implements no method; each call then returns `Unsupported`, and each subscription is silent.
///
/// One swap is atomic, with its record, its lines and its conditions. The swaps of one call are sent in one round trip,
/// but are not a transaction. An answered swap is as durable as the store: SQLite has written it to disk; Redis can
/// lose it according to its persistence settings, or when it fails over to a replica.
///
/// If an error reports [`Error::maybe_applied`], the swap may or may not have been done. The caller then repeats it
/// from the same version, which does it at most once, or reads the record. There is one exception: a delayed creation
/// is still done if the record was created and deleted in the meantime.
///
/// ```
/// use bandog::{Clock, Key, backend::{Memory, Record, Records, Swap, Swapped}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), bandog::Error> {
/// /// Adds one. Concurrent additions are not lost.
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
    /// Does the swaps in their order, each one if its conditions hold.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`], if the store answered none of the swaps. For a single swap: `Denied` when the store
    /// has something else than a record under this name, `Corrupt` when bandog did not write the record.
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let _ = swaps;
        Err(unsupported("swap"))
    }

    /// Reads records, and checks holdings. Up to 512 of them together are read at one moment; more than that at as few
    /// moments as the store can. Without any, the result has the store's time only.
    ///
    /// # Errors
    /// As [`Records::swap`].
    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let _ = (keys, holdings);
        Err(unsupported("read"))
    }

    /// The names of the records that match the pattern, sorted.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        let _ = pattern;
        Err(unsupported("names"))
    }

    /// The lines of a record's history, sorted by slot. Empty for a record that does not exist.
    ///
    /// # Errors
    /// As [`Records::swap`].
    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        Err(unsupported("history").at(key))
    }

    /// Calls `notifier` after each swap of this record with [`Swap::notifies`], by any process, until the subscription
    /// is dropped.
    ///
    /// The backend reports every such swap that is done after this call has returned, and may notify without a reason.
    /// When a broken connection may have dropped a notification, the backend notifies. A notification carries no data:
    /// the subscriber reads the record.
    ///
    /// A backend without notifications, or whose user may not subscribe, returns [`Subscription::silent`], which is the
    /// default: the subscriber must poll.
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
