//! Elections: of several candidates one is the leader at a time, and observers know which one.

mod leader;
mod observer;

use std::{pin::pin, time::Duration};

use bandog_core::{Error, ErrorKind, Key, Result, Swap, Swapped, Version, rounded};
use futures_util::future::{Either, select};

pub use self::{
    leader::{Leader, Leadership},
    observer::Observer,
};
use crate::{
    Client, Guard, Mutex,
    pause::{at_most, check_limit, check_timer, pause},
    retry::Retries,
};

/// Maximum delay before a retry. It is short, because a candidate that holds the mutex delays the others.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Maximum length of a candidate's text, in bytes.
const MAX_TEXT: usize = 4096;

/// An election: among all candidates with the same name, one is the leader at a time. Created by [`Client::election`].
///
/// [`Election::campaign`] waits until the caller is the leader, and returns a [`Leadership`], which is a guard. When the
/// guard is dropped, or its holder dies, another candidate becomes the leader. [`Election::observe`] reports the leader
/// to clients that are no candidates, such as the replicas that send their requests to the leader.
///
/// If exactly one replica must run a loop and no other process must know which one, [`Client::singleton`] is simpler:
/// it also restarts the loop, and cancels it if the leadership is lost.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let client = bandog::connect("memory:").await?;
/// let billing = client.election("billing").candidate("http://10.0.0.7:8080");
/// let leadership = billing.campaign().await?; // waits until this candidate is the leader
///
/// // In another process: which replica is the leader?
/// let mut observer = client.election("billing").observe();
/// let leader = observer.changed().await?.expect("there is a leader");
/// assert_eq!((leader.text(), leader.fence()), ("http://10.0.0.7:8080", leadership.fence()));
///
/// leadership.resign().await?;
/// assert!(observer.changed().await?.is_none());
/// # client.close().await }
/// ```
///
/// An election uses the mutex `election/NAME` and the record `election/NAME`. The leader holds the mutex, and has
/// written its text and its fence into the record. The record is only written while the mutex is held, which the store
/// checks in the same step, so an earlier leader cannot overwrite a later one. The store must support records. On
/// Redis, the user needs the rights for records.
///
/// This type is a handle: it is cheap to create, creating it does no I/O, and its clones are the same election.
#[derive(Debug, Clone)]
pub struct Election {
    client: Client,
    /// The mutex that the leader holds.
    mutex: Mutex,
    /// The record with the leader, without the client's prefix. An error if the name is not allowed.
    record: Result<Key>,
    /// The text of this candidate.
    text: String,
}

impl Client {
    /// The election with this name: its candidates elect one leader among all clients of the store. See [`Election`].
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self, name.as_ref())
    }
}

impl Election {
    pub(crate) fn new(client: &Client, name: &str) -> Self {
        const WHAT: &str = "the name of an election";
        let key = format!("election/{name}");
        Self {
            client: client.clone(),
            mutex: client.mutex(&key),
            record: Key::named(WHAT, name).and_then(|_| Key::named(WHAT, key)),
            text: client.handle().identity.clone(),
        }
    }

    /// The same election with this text, which observers get while this candidate is the leader. It can be an address,
    /// for example. It has at most 4096 bytes, else [`Election::campaign`] returns `ErrorKind::Misused`. Default:
    /// `program@host`.
    #[must_use]
    pub fn candidate(self, text: impl Into<String>) -> Self {
        Self { text: text.into(), ..self }
    }

    /// The same election with this ttl instead of the client's ttl. If a leader dies, another candidate becomes the
    /// leader when this time has passed. The ttl must be between 100 ms and 365 days.
    #[must_use]
    pub fn watchdog(self, ttl: Duration) -> Self {
        Self { mutex: self.mutex.watchdog(ttl), ..self }
    }

    /// Waits until this candidate is the leader.
    ///
    /// Candidates of one client become the leader in the order of their calls. Between clients there is no guaranteed
    /// order.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the name, the ttl or the text is not allowed, or the call was made outside a Tokio
    ///   runtime.
    /// - `ErrorKind::Denied`: the store refused the request.
    /// - `ErrorKind::Unsupported`: the store does not support records.
    /// - `ErrorKind::Overloaded`: too many calls of this client wait ([`crate::ClientOptions::max_waiting`]).
    /// - `ErrorKind::Closed`: the client was closed with [`Client::close`].
    ///
    /// It is no error if the store does not answer: the call continues to wait.
    ///
    /// # Panics
    /// Panics in a Tokio runtime without timers.
    ///
    /// # Cancel safety
    /// If the future is dropped, the candidate leaves the election.
    pub async fn campaign(&self) -> Result<Leadership> {
        check_timer("campaign")?;
        let record = self.check_candidate()?;
        let mut retries = Retries::up_to(MAX_DELAY);
        loop {
            let guard = self.mutex.lock.acquire_through_outages("a candidate", &mut retries).await?;
            if let Some(leadership) = self.lead(record, guard, Some(&mut retries)).await? {
                return Ok(leadership);
            }
        }
    }

    /// Waits until this candidate is the leader, for at most `limit`. The maximum is 365 days. Returns `None` if it is not
    /// the leader by then. If `limit` is zero, the call makes one attempt, which succeeds if there is no leader.
    ///
    /// # Errors
    /// As [`Election::campaign`], and `ErrorKind::Misused` if the limit is too long. With a limit of zero,
    /// `ErrorKind::Unavailable` if the store does not answer.
    ///
    /// # Cancel safety
    /// As [`Election::campaign`].
    pub async fn campaign_for(&self, limit: Duration) -> Result<Option<Leadership>> {
        check_timer("campaign_for")?;
        if let Some(limit) = check_limit(limit)? {
            return at_most(self.campaign(), limit, self.client.clock()).await.transpose();
        }
        let record = self.check_candidate()?;
        match self.mutex.try_lock().await? {
            Some(guard) => self.lead(record, guard, None).await,
            None => Ok(None),
        }
    }

    /// Waits until this candidate is the leader, runs the body and resigns. If the leadership is lost, the body's future is
    /// dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// # async fn send_invoices(_fence: bandog::Fence) -> u32 { 7 }
    /// let sent = client.election("billing").run(async |leadership| send_invoices(leadership.fence()).await).await?;
    /// assert_eq!(sent, 7);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Election::campaign`], and `ErrorKind::Lost` if the leadership was lost before the body ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, first the body is dropped, and then the leadership ends.
    pub async fn run<T>(&self, body: impl AsyncFnOnce(&Leadership) -> T) -> Result<T> {
        let leadership = self.campaign().await?;
        let value = leadership.lost().or(|| leadership.guard().check_held(), body(&leadership)).await?;
        // The leadership lasted until the body ended, so the value is valid even if the resignation fails.
        let _ = leadership.resign().await;
        Ok(value)
    }

    /// The present leader, or `None` if there is none. [`Election::observe`] also reports changes.
    ///
    /// # Errors
    /// As [`Observer::changed`], and `ErrorKind::Unavailable` if the store does not answer.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let record = self.record.as_ref().map_err(Error::clone)?;
        leader::read(&self.client, record, self.mutex.lock.key()?, None).await
    }

    /// Observes the leader. This does no I/O. An observer is no candidate.
    pub fn observe(&self) -> Observer {
        let names = self.record.clone().and_then(|record| Ok((record, self.mutex.lock.key()?.clone())));
        Observer::new(self.client.clone(), names)
    }

    /// The record, if this candidate may campaign.
    fn check_candidate(&self) -> Result<&Key> {
        self.client.handle().check_records("campaign")?;
        if self.text.len() > MAX_TEXT {
            let length = self.text.len();
            return Err(Error::misused(format!(
                "the text of a candidate has {length} bytes; at most {MAX_TEXT} are allowed"
            )));
        }
        self.record.as_ref().map_err(Error::clone)
    }

    /// Makes the holder of the mutex the leader. Returns `None` if the mutex was lost before the record was written.
    /// Without `retries`, an error of the store ends the call.
    async fn lead(&self, record: &Key, guard: Guard, retries: Option<&mut Retries>) -> Result<Option<Leadership>> {
        let leader = Leader::new(&guard, self.text.clone());
        // If this call is dropped while it writes, the record is deleted before the guard is released.
        let mut entry = leader::RecordEntry::of(self.client.clone(), record.clone(), leader.to_string());
        if let Some(version) = self.write(record, &leader, &guard, retries).await? {
            entry.written(version);
            return Ok(Some(Leadership::new(entry, guard)));
        }
        match guard.check_held() {
            Err(error) if error.kind() == ErrorKind::Closed => Err(error),
            Ok(()) | Err(_) => Ok(None),
        }
    }

    /// Writes the leader into the record, while the guard holds the mutex. Returns the version of the record, or `None`
    /// if the mutex was lost.
    async fn write(
        &self,
        record: &Key,
        leader: &Leader,
        guard: &Guard,
        mut retries: Option<&mut Retries>,
    ) -> Result<Option<Version>> {
        let (value, mut from) = (leader.to_string(), None);
        loop {
            let held = Some(guard.holding());
            let swap = Swap { held, notifies: true, ..Swap::new(record.clone(), from, &value) };
            match self.client.swap_record(swap).await {
                Ok(Swapped::Done(version)) => return Ok(version),
                Ok(Swapped::Differs(present)) => {
                    // An earlier attempt without an answer may have written the record.
                    if let Some(ours) = present.as_ref().filter(|present| present.value == value) {
                        return Ok(Some(ours.version));
                    }
                    from = present.map(|present| present.version);
                }
                Ok(Swapped::NotHeld | Swapped::Early(_)) => return Ok(None),
                Err(error) => {
                    let Some(retries) = retries.as_mut().filter(|_| error.is_retryable()) else { return Err(error) };
                    let delay = retries.next_delay();
                    tracing::debug!(%record, %error, retry_in = %rounded(delay), "a candidate could not write the record");
                    match select(guard.lost(), pin!(pause(self.client.handle(), delay))).await {
                        Either::Left(((), _)) => return Ok(None),
                        Either::Right((paused, _)) => paused.map_err(|error| error.during("swap").at(record))?,
                    }
                }
            }
        }
    }
}
