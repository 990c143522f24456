//! The barrier: calls of several processes wait for each other.

mod state;

use std::{pin::pin, time::Duration};

use bandog_core::{Error, ErrorKind, Holding, Key, Record, Result, Swap, Swapped, rounded};
use futures_util::future::{Either, select};

use self::state::{Arrivals, Party, Position, Visit};
use crate::{
    Client, Guard, Notifications,
    pause::{at_most, check_limit, check_timer, pause},
    retry::{Retries, backoff},
    terms::Patience,
};

/// Maximum number of parties of a barrier.
const MAX_PARTIES: u32 = 1000;
/// Interval at which a waiting call polls the record, because a notification can be lost. It is also the maximum delay
/// before a retry.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A barrier: a number of calls of [`Barrier::wait`] wait for each other, across processes and machines. Created by
/// [`Client::barrier`].
///
/// When the last of these calls arrives, the barrier *opens*: all of them return, and one of them is the leader. After
/// that the barrier is closed again, so the same parties can meet at it again, for the next phase of their work.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let client = bandog::connect("memory:").await?;
/// # let work = async |_part: usize| {};
/// let worker = async |part: usize| {
///     let phase = client.barrier("phase", 3);
///     work(part).await;
///     let arrival = phase.wait().await?; // returns when all three have finished the first phase
///     if arrival.is_leader() {
///         println!("one of the three prints this line");
///     }
///     work(part).await;
///     phase.wait().await // the same barrier again
/// };
/// tokio::try_join!(worker(0), worker(1), worker(2))?;
/// # Ok(()) }
/// ```
///
/// A party that is cancelled before the barrier opens leaves the barrier. A party whose process dies leaves it when the
/// ttl has passed. The others then wait until another party has arrived in its place.
///
/// A barrier uses the record `barrier/NAME`, and for each waiting party one mutex `barrier/NAME/NUMBER`, which the
/// party holds while it waits. The record is small, and stays in the store. The store must support records. On Redis, the user needs the rights for records.
///
/// This type is a handle: it is cheap to create, creating it does no I/O, and its clones are the same barrier. Each call
/// of [`Barrier::wait`] is one party, also if several calls use the same handle. A call borrows the handle until it
/// returns, so bind the handle before a `join!`:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// # let client = bandog::connect("memory:").await?;
/// let phase = client.barrier("phase", 2);
/// let (one, other) = tokio::try_join!(phase.wait(), phase.wait())?;
/// assert_ne!(one.is_leader(), other.is_leader());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Barrier {
    client: Client,
    /// The record with the waiting parties, without the client's prefix. An error if the name is not allowed.
    record: Result<Key>,
    parties: u32,
    /// The ttl of the mutex that a waiting party holds. `None` for the client's ttl.
    ttl: Option<Duration>,
}

/// The result of [`Barrier::wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    is_leader: bool,
}

impl Arrival {
    /// Whether this party is the leader. Each time the barrier opens, exactly one of its parties is the leader: the
    /// party that arrived last.
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }
}

impl Client {
    /// The barrier with this name, at which `parties` calls of [`Barrier::wait`] wait for each other. See [`Barrier`].
    pub fn barrier(&self, name: impl AsRef<str>, parties: u32) -> Barrier {
        Barrier::new(self, name.as_ref(), parties)
    }
}

impl Barrier {
    pub(crate) fn new(client: &Client, name: &str, parties: u32) -> Self {
        const WHAT: &str = "the name of a barrier";
        let record = Key::named(WHAT, name).and_then(|_| Key::named(WHAT, format!("barrier/{name}")));
        Self { client: client.clone(), record, parties, ttl: None }
    }

    /// The same barrier with this ttl instead of the client's ttl. If a party dies while it waits, it leaves the
    /// barrier when this time has passed. The ttl must be between 100 ms and 365 days.
    #[must_use]
    pub fn watchdog(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// Waits until the barrier opens, which is when as many parties wait as the barrier has.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: other parties wait at this barrier with another number of parties; the message has both
    ///   numbers. Or the name or the ttl is not allowed, the number of parties is not between 1 and 1000, or the call
    ///   was made outside a Tokio runtime.
    /// - `ErrorKind::Lost`: this party lost its mutex while it waited, for example because its process was stopped for
    ///   some time, or because the store lost its data. After that the barrier opened, or its record was lost. So it
    ///   is unknown whether this party was counted.
    /// - `ErrorKind::Denied`: the store refused the request.
    /// - `ErrorKind::Unsupported`: the store does not support records.
    /// - `ErrorKind::Corrupt`: the record was not written by a barrier.
    /// - `ErrorKind::Closed`: the client was closed with [`Client::close`].
    ///
    /// It is no error if the store does not answer: the call continues to wait.
    ///
    /// # Panics
    /// Panics in a Tokio runtime without timers.
    ///
    /// # Cancel safety
    /// If the future is dropped before the barrier opens, this party leaves the barrier. The next arrival sees this as
    /// soon as the store has applied the release of the party's mutex. If the future is dropped after the barrier has
    /// opened, the other parties return.
    pub async fn wait(&self) -> Result<Arrival> {
        check_timer("wait")?;
        let record = self.check()?;
        let mut notifications = self.client.subscribe(record)?;
        let mut retries = Retries::up_to(POLL_INTERVAL);
        let (party, mut guard) = self.take_seat(record, &mut retries).await?;
        let mut visit = Visit::new(party);
        loop {
            if let Some(arrival) = self.wait_on(&guard, record, &mut visit, &mut notifications, &mut retries).await? {
                return Ok(arrival);
            }
            // If the mutex was lost because the client was closed, the call ends.
            guard.check_held().or_else(|error| if error.kind() == ErrorKind::Closed { Err(error) } else { Ok(()) })?;
            drop(guard);
            let (party, seat) = self.take_seat(record, &mut retries).await?;
            visit.change_seat(party);
            guard = seat;
        }
    }

    /// Waits until the barrier opens, for at most `limit`. The maximum is 365 days. Returns `None` if it has not opened by
    /// then. In that case this party leaves the barrier, as if the future of [`Barrier::wait`] were dropped. If the last
    /// party arrives at that moment, the party may have been counted, and the others pass.
    ///
    /// If `limit` is zero, the call opens the barrier if only this party is missing. Otherwise it returns `None`, and the
    /// party was not counted.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// let phase = client.barrier("phase", 2);
    /// assert!(phase.wait_for(Duration::from_millis(10)).await?.is_none()); // The other party has not arrived.
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Barrier::wait`], and `ErrorKind::Misused` if the limit is too long. With a limit of zero,
    /// `ErrorKind::Unavailable` if the store does not answer. If `maybe_applied` of that error is true, the party may have
    /// been counted.
    ///
    /// # Cancel safety
    /// As [`Barrier::wait`].
    pub async fn wait_for(&self, limit: Duration) -> Result<Option<Arrival>> {
        check_timer("wait_for")?;
        if let Some(limit) = check_limit(limit)? {
            return at_most(self.wait(), limit, self.client.clock()).await.transpose();
        }
        let record = self.check()?;
        let mut numbers = self.parties * 2;
        let (party, seat) = loop {
            if let Some(seated) = self.try_seat(record, &mut numbers).await? {
                break seated;
            }
        };
        match self.arrive(&seat, record, &mut Visit::new(party), Patience::Once).await? {
            Position::Passed { is_leader } => Ok(Some(Arrival { is_leader })),
            Position::Waiting | Position::Absent | Position::Unseated => Ok(None),
            Position::Unknown => Err(unknown(record)),
        }
    }

    /// The record, if the name and the number of parties are allowed.
    fn check(&self) -> Result<&Key> {
        self.client.handle().check_records("wait")?;
        let record = self.record.as_ref().map_err(Error::clone)?;
        if (1..=MAX_PARTIES).contains(&self.parties) {
            return Ok(record);
        }
        let message = format!("the barrier has {} parties; it must have 1 to {MAX_PARTIES}", self.parties);
        Err(Error::misused(message).at(record))
    }

    /// Takes a seat, as [`Self::try_seat`].
    async fn take_seat(&self, record: &Key, retries: &mut Retries) -> Result<(Party, Guard)> {
        let mut numbers = self.parties * 2;
        loop {
            match self.try_seat(record, &mut numbers).await {
                Ok(Some(seated)) => return Ok(seated),
                Ok(None) => {}
                Err(error) => self.pause_after(error, record, retries).await?,
            }
        }
    }

    /// Tries to take one of the numbered mutexes of this barrier (a *seat*), with a number below `numbers`. While the party
    /// holds it, its arrival counts. The numbers are reused, so that the store does not keep a fence for each call.
    async fn try_seat(&self, record: &Key, numbers: &mut u32) -> Result<Option<(Party, Guard)>> {
        let number = fastrand::u32(..*numbers);
        let mutex = self.client.mutex(format!("{record}/{number}"));
        let mutex = self.ttl.map_or(mutex.clone(), |ttl| mutex.watchdog(ttl));
        let Some(guard) = mutex.try_lock().await? else {
            // The mutex has another holder. The range grows, because more parties can wait than the barrier has.
            *numbers = numbers.saturating_add(1);
            return Ok(None);
        };
        Ok(Some((Party { number, claim: guard.holding().id, fence: guard.fence() }, guard)))
    }

    /// Waits on this seat until the barrier opens. Returns `None` if the seat was lost and the party was not counted.
    async fn wait_on(
        &self,
        seat: &Guard,
        record: &Key,
        visit: &mut Visit,
        notifications: &mut Notifications,
        retries: &mut Retries,
    ) -> Result<Option<Arrival>> {
        loop {
            match self.arrive(seat, record, visit, Patience::Forever).await {
                Ok(Position::Passed { is_leader }) => return Ok(Some(Arrival { is_leader })),
                Ok(Position::Unseated) => return Ok(None),
                Ok(Position::Unknown) => return Err(unknown(record)),
                Ok(Position::Waiting | Position::Absent) => {
                    retries.reset();
                    let timer = pin!(pause(self.client.handle(), POLL_INTERVAL));
                    match select(pin!(notifications.next()), select(timer, seat.lost())).await {
                        Either::Left((notified, _)) => notified?,
                        Either::Right((Either::Left((paused, _)), _)) => paused?,
                        Either::Right((Either::Right(((), _)), _)) => {}
                    }
                }
                Err(error) => self.pause_after(error, record, retries).await?,
            }
        }
    }

    /// Reads the record, and adds this party if it is not in the record. Returns the position of the party after that. With
    /// [`Patience::Once`], a party that would have to wait is not added.
    async fn arrive(&self, seat: &Guard, record: &Key, visit: &mut Visit, patience: Patience) -> Result<Position> {
        let clock = self.client.clock();
        let (mut asked_at, mut lost_swaps) = (clock.now(), 0);
        let (mut present, _) = self.client.read_record(record, &[]).await?;
        let mut is_lost = seat.is_lost();
        loop {
            let (from, mut arrivals) = match &present {
                Some(Record { version, value }) => (Some(*version), value.parse().map_err(|e| at(e, record))?),
                None => (None, Arrivals::new(self.parties)),
            };
            match visit.position(&arrivals, is_lost) {
                Position::Absent => {}
                settled => return Ok(settled),
            }
            let missing = arrivals.missing();
            if arrivals.may_open(self.parties) {
                self.remove_absent(&mut arrivals, record).await?;
            }
            let position = arrivals.arrive(visit, self.parties).map_err(|error| error.at(record))?;
            let notifies = matches!(position, Position::Passed { .. });
            if matches!(patience, Patience::Once) && !notifies {
                return Ok(position);
            }
            visit.sends(&arrivals);
            let held = Some(seat.holding());
            let swap = Swap { held, notifies, ..Swap::new(record.clone(), from, arrivals.to_string()) };
            match self.client.swap_record(swap).await? {
                Swapped::Done(_) => {
                    visit.is_written();
                    return Ok(position);
                }
                Swapped::Differs(_) => {
                    lost_swaps += 1;
                    // It is possible that only few of the missing parties try, so the first pauses are shorter.
                    let periods = 1_u32.checked_shl(lost_swaps).unwrap_or(u32::MAX).min(missing.max(2));
                    let delay = backoff(periods, clock.now().since(asked_at));
                    pause(self.client.handle(), delay).await?;
                    // The record may have changed again during the pause.
                    asked_at = clock.now();
                    present = self.client.read_record(record, &[]).await?.0;
                    is_lost |= seat.is_lost();
                }
                Swapped::NotHeld | Swapped::Early(_) => {
                    is_lost = true;
                    present = self.client.read_record(record, &[]).await?.0;
                }
            }
        }
    }

    /// Removes the parties that do not hold their mutexes any more.
    async fn remove_absent(&self, arrivals: &mut Arrivals, record: &Key) -> Result<()> {
        let holding = |party: &Party| {
            let key = self.client.handle().key(&format!("{record}/{}", party.number))?;
            Ok(Holding { key, id: party.claim })
        };
        let holdings = arrivals.parties().map(holding).collect::<Result<Vec<_>>>()?;
        if !holdings.is_empty() {
            let (_, held) = self.client.read_record(record, &holdings).await?;
            arrivals.retain(&held);
        }
        Ok(())
    }

    /// Waits before a retry if the error is retryable. Returns all other errors.
    async fn pause_after(&self, error: Error, record: &Key, retries: &mut Retries) -> Result<()> {
        if !error.is_retryable() {
            return Err(error);
        }
        let delay = retries.next_delay();
        tracing::debug!(%record, %error, retry_in = %rounded(delay), "a party of a barrier could not reach the store");
        pause(self.client.handle(), delay).await
    }
}

fn at(error: Error, record: &Key) -> Error {
    error.during("read").at(record)
}

fn unknown(record: &Key) -> Error {
    let message = "the party lost its place at the barrier, so it is unknown whether the party was counted";
    Error::new(ErrorKind::Lost, message).at(record)
}
