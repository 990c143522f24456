//! The count-down latch: calls wait until a counter has reached zero.

use std::{future::poll_fn, num::NonZeroU64, pin::pin, sync::Arc, task::Poll, time::Duration};

use bandog_core::{
    Backend, Clock, Error, Key, LatchAction, LatchAnswer, LatchOperation, LatchRow, Moment, OperationId, Pattern,
    Result,
};
use futures_util::future::{Either, select};
use tokio::time;

use self::turns::Operation;
pub(crate) use self::turns::Operations;
use crate::{Client, Notifications, engine::FIRST_ANSWER, pause::check_limit, retry::backoff};

mod turns;

/// Delay before an operation without an answer is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Minimum time for which the store remembers an operation.
const MIN_REMEMBERED: Duration = Duration::from_secs(30);

/// Maximum count of a latch. The scripts on Redis and JSON documents represent all numbers up to this one exactly.
const MAX_COUNT: u64 = 1 << 53;

/// A count-down latch: a counter in the store. Calls wait until the counter has reached zero.
///
/// [`Latch::set`] creates the latch with a count. Each party counts down when it has done its part. At zero the store
/// deletes the latch, which *opens* it, and all waiting calls return. Then the latch can be set again.
///
/// A latch that does not exist is open. So set the latch before a party waits for it. And if the store loses its data,
/// all latches are open: a call that waits returns within a second of the restart. A latch has no ttl: if a party dies
/// before it has counted down, the latch stays closed until another party counts down or deletes the latch. So prefer
/// [`Latch::wait_for`] to [`Latch::wait`].
///
/// On Redis the latch `NAME` is the `RCountDownLatch` of Redisson with this name, and must not share the name with a
/// lock. On other stores, latches and locks have separate names, and the name of a latch has at most 1018 bytes.
///
/// Each operation has an id, by which the store recognizes a repetition. The client repeats an operation that got no
/// answer, for up to three request timeouts. The operation is still counted once. If other operations come between, which
/// is possible on all stores except Redis, the client repeats the operation until it is applied. Then the operations of
/// this client on the latch take turns.
///
/// This type is a handle. It is cheap to create, creating it does no I/O, and its clones are the same latch. A call
/// borrows the handle until it returns, so bind the handle before a `join!` or a `select!`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// # let client = bandog::connect("memory:").await?;
/// let loaded = client.latch("shards-loaded");
/// loaded.set(2).await?;
/// for _shard in 0..2 {
///     let loaded = loaded.clone();
///     tokio::spawn(async move { loaded.count_down().await });
/// }
/// loaded.wait().await // until both shards have counted down
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Latch {
    client: Client,
    /// The name with the client's prefix. An error if the name is not allowed: each call returns this error.
    key: Result<Key>,
}

impl Client {
    /// The count-down latch with this name. If the name is not allowed, each call of the latch returns
    /// `ErrorKind::Misused`. This call is cheap and does no I/O.
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        Latch { client: self.clone(), key: self.handle().key_of("the name of a latch", name.as_ref()) }
    }

    /// The latches that are not open and whose names match the pattern, sorted by name.
    ///
    /// On Redis this call scans all keys of the server, as [`Client::list`] does. It finds a latch only if a client of
    /// bandog has set it or counted it down in the last 30 days, because nothing else distinguishes a latch of Redisson
    /// from a number of another program. [`Latch::count`] knows each latch.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::connect("memory:").await?;
    /// client.latch("import").set(3).await?;
    /// let latches = client.list_latches(bandog::Pattern::all()).await?;
    /// assert_eq!((latches[0].name.as_str(), latches[0].count), ("import", 3));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Client::list`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the scan, and changes nothing.
    pub async fn list_latches(&self, pattern: Pattern) -> Result<Vec<LatchRow>> {
        let pattern = pattern.after(self.handle().prefix());
        let mut rows = self.query(|backend| Box::pin(async move { backend.list_latches(&pattern).await })).await?;
        for row in &mut rows {
            row.name = self.handle().without_prefix(std::mem::take(&mut row.name));
        }
        Ok(rows)
    }
}

impl Latch {
    /// Creates the latch with this count, if it does not exist. Returns false if it exists; then nothing changes.
    ///
    /// Several parties may call this, and the first of them sets the latch.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::connect("memory:").await?;
    /// let start = client.latch("start");
    /// assert!(start.set(3).await?);
    /// assert!(!start.set(5).await?);
    /// assert_eq!(start.count().await?, 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the name is not allowed, or the count is 0 or greater than 2^53.
    /// - `ErrorKind::Denied`: the store refused the request, or has other data under this name.
    /// - `ErrorKind::Unavailable`: the store did not answer for three request timeouts, or the process was stopped after
    ///   a request without an answer. If `maybe_applied` of the error is true, the operation might have been applied.
    /// - `ErrorKind::Unsupported`: the backend has no latches.
    /// - `ErrorKind::Closed`: the client was closed.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the latch might be set nevertheless.
    pub async fn set(&self, count: u64) -> Result<bool> {
        let key = self.key()?;
        let count = within_limits("the count of a latch", count).map_err(|error| error.during("set_latch").at(key))?;
        Ok(self.change(key, LatchAction::Set(count)).await?.has_changed)
    }

    /// Subtracts 1 from the count. Returns the new count, which is 0 if the latch is open now or was open before.
    ///
    /// # Errors
    /// As [`Latch::set`].
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the call might be counted nevertheless. It is counted once at
    /// most.
    pub async fn count_down(&self) -> Result<u64> {
        self.count_down_by(1).await
    }

    /// Subtracts this number from the count. Returns the new count. If the number is greater than the count, the new
    /// count is 0.
    ///
    /// # Errors
    /// As [`Latch::set`], and `ErrorKind::Misused` if the number is 0 or greater than 2^53.
    ///
    /// # Cancel safety
    /// As [`Latch::count_down`].
    pub async fn count_down_by(&self, number: u64) -> Result<u64> {
        let key = self.key()?;
        let number =
            within_limits("the number to count down", number).map_err(|error| error.during("count_down").at(key))?;
        Ok(self.change(key, LatchAction::CountDown(number)).await?.count)
    }

    /// The present count. It is 0 if the latch is open.
    ///
    /// # Errors
    /// As [`Latch::set`], and `ErrorKind::Unavailable` if the store did not answer within one request timeout.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn count(&self) -> Result<u64> {
        let key = self.key()?.clone();
        self.client.query(|backend| Box::pin(async move { backend.latch_count(&key).await })).await
    }

    /// Waits until the latch is open. Returns immediately if it is open now.
    ///
    /// The call subscribes to the latch, and also polls the count: at least once a second, and after each reconnection.
    /// After the store's first answer to this call, the call waits through outages.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the name is not allowed.
    /// - `ErrorKind::Denied`: the store refused the request, or has other data under this name.
    /// - `ErrorKind::Unavailable`: the store did not answer this call within 5 s.
    /// - `ErrorKind::Unsupported`: the backend has no latches.
    /// - `ErrorKind::Closed`: the client was closed.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait, and changes nothing.
    pub async fn wait(&self) -> Result<()> {
        self.wait_until(None).await.map(drop)
    }

    /// Waits until the latch is open, for at most `limit`. The maximum is 365 days. Returns whether the latch is open.
    /// If `limit` is zero, the call polls the count once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # use std::time::Duration;
    /// # let client = bandog::connect("memory:").await?;
    /// let start = client.latch("start");
    /// start.set(1).await?;
    /// assert!(!start.wait_for(Duration::from_millis(10)).await?);
    /// start.count_down().await?;
    /// assert!(start.wait_for(Duration::from_secs(10)).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Latch::wait`], `ErrorKind::Misused` if the limit is too long, and `ErrorKind::Unavailable` if the store
    /// does not answer at the end of the wait. With a limit of zero, the store has one request timeout to answer.
    ///
    /// # Cancel safety
    /// As [`Latch::wait`].
    pub async fn wait_for(&self, limit: Duration) -> Result<bool> {
        let Some(limit) = check_limit(limit)? else { return Ok(self.count().await? == 0) };
        let now = self.client.clock().now();
        self.wait_until(Some(now + limit)).await
    }

    /// Deletes the latch, which opens it. Returns whether it existed.
    ///
    /// Calls of bandog that wait for the latch return. Waiting calls of Redisson do not notice a deletion.
    ///
    /// # Errors
    /// As [`Latch::set`].
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the latch might be deleted nevertheless.
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.change(self.key()?, LatchAction::Delete).await?.has_changed)
    }

    fn key(&self) -> Result<&Key> {
        self.key.as_ref().map_err(Error::clone)
    }

    /// Waits until the latch is open, or until this moment. Returns whether the latch is open.
    async fn wait_until(&self, until: Option<Moment>) -> Result<bool> {
        let (key, clock) = (self.key()?, self.client.clock());
        let first_answer_until = clock.now() + FIRST_ANSWER;
        let is_over = || until.is_some_and(|until| clock.now() >= until);
        let mut notifications = Notifications::through(|notifier| self.client.subscribe_latch(key, until, notifier))?;
        // Whether the count must be polled because of a notification. The first poll needs no notification. A further
        // notification comes when the client has subscribed, so no change before that is missed.
        let mut is_notified = true;
        let mut is_answered = false;
        loop {
            if !std::mem::take(&mut is_notified) {
                notifications.next().await?;
            }
            let gives_up = || is_over() || (!is_answered && clock.now() >= first_answer_until);
            let mut poll = pin!(self.count());
            let polled = loop {
                match select(poll.as_mut(), pin!(notifications.next())).await {
                    Either::Left((polled, _)) => break polled,
                    Either::Right((notification, _)) => notification?,
                }
                is_notified = true;
                if gives_up() {
                    break Err(Error::unavailable("the store has not answered in time").during("latch_count").at(key));
                }
            };
            match polled {
                Ok(0) => return Ok(true),
                Ok(_) if is_over() => return Ok(false),
                Ok(_) => is_answered = true,
                Err(error) if gives_up() || !error.is_retryable() => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Applies an operation. The engine repeats the operation until the store has answered it, or until the time for
    /// repetitions is over.
    async fn change(&self, key: &Key, action: LatchAction) -> Result<LatchAnswer> {
        let handle = self.client.handle();
        let (clock, timeout) = (handle.clock, handle.profile.request_timeout);
        // The last repetition begins within two timeouts of an answer, and ends within three. The store remembers the
        // operation for more than twice this time, because a request can also reach the store late.
        let remember = MIN_REMEMBERED.max(timeout * 8);
        let running = handle.latches.begin(key, || handle.ticket(), remember, clock);
        let id = OperationId { client: handle.id, number: running.number() };
        let operation = LatchOperation { key: key.clone(), id, action, remember, forget_before: 0 };
        self.client.query(move |backend| Box::pin(answered(backend, operation, running, clock, timeout))).await
    }
}

/// Applies an operation, and repeats it until the store has answered it. Returns an error if the store has not answered
/// for three timeouts.
async fn answered(
    backend: Arc<dyn Backend>,
    mut operation: LatchOperation,
    mut running: Operation,
    clock: Clock,
    timeout: Duration,
) -> Result<LatchAnswer> {
    let (key, verb) = (operation.key.clone(), operation.action.verb());
    let no_answer = || Error::unavailable("the store has not answered in time").during(verb).at(&key);
    let mut begin = clock.now();
    let mut last_begin = begin + timeout * 2;
    let (mut turn, mut maybe_applied) = (None, false);
    loop {
        // An operation that may have been applied does not wait, because the store forgets it after some time.
        if turn.is_none() && !maybe_applied && running.needs_turn() {
            let next = running.turn(timeout * 3).await.ok_or_else(no_answer)?;
            running.pause(&next, timeout).await;
            // The store may have answered other operations meanwhile.
            last_begin = last_begin.max(running.silent_since() + timeout * 2);
            turn = Some(next);
        }
        // Until then, the store remembers an operation that may have been applied. This time passes during a stop of
        // the process or of its machine.
        let known_until = begin + operation.remember * 3 / 4;
        let is_forgotten = || maybe_applied && clock.now() >= known_until;
        begin = clock.now();
        let rest = (last_begin + timeout).since(begin);
        if rest.is_zero() || is_forgotten() {
            return Err(if maybe_applied { no_answer().ambiguous() } else { no_answer() });
        }
        operation.forget_before = running.first_number();
        running.set_unclear(true);
        let mut attempt = backend.change_latch(&operation);
        let attempt = poll_fn(|context| match is_forgotten() {
            true => Poll::Ready(Err(no_answer().ambiguous())),
            false => attempt.as_mut().poll(context),
        });
        // One attempt of a backend can be several requests.
        let answered = match select(attempt, pin!(time::sleep(rest))).await {
            Either::Left((answered, _)) => answered,
            Either::Right(_) => Err(no_answer().ambiguous()),
        };
        maybe_applied |= answered.as_ref().is_err_and(Error::maybe_applied);
        running.set_unclear(maybe_applied);
        let answer = match answered {
            Ok(answer) => answer,
            Err(error) if !error.is_retryable() || clock.now() >= last_begin => {
                return Err(if maybe_applied { error.ambiguous() } else { error });
            }
            Err(_) => {
                time::sleep(RETRY_DELAY).await;
                continue;
            }
        };
        running.record_answer(answer.is_none());
        let duration = clock.now().since(begin);
        if let Some(turn) = &mut turn {
            turn.record_answer(answer.is_none(), duration);
        }
        let Some(answer) = answer else {
            match &turn {
                Some(turn) => running.pause(turn, timeout).await,
                // Other operations like this one are rivals.
                None if maybe_applied => time::sleep(backoff(running.rivals(), duration).min(timeout)).await,
                None => {}
            }
            // The pause does not count as time without an answer.
            last_begin = clock.now() + timeout * 2;
            continue;
        };
        drop((turn, running));
        if answer.has_changed && matches!(operation.action, LatchAction::Set(_)) {
            // The caller does not need its result, and waits for one timeout at most. The next `set` retries it.
            let _ = select(backend.clear_latches(), pin!(time::sleep(timeout))).await;
        }
        return Ok(answer);
    }
}

/// Checks a number for a latch. `what` names the number in the error.
fn within_limits(what: &str, number: u64) -> Result<NonZeroU64> {
    let allowed = NonZeroU64::new(number).filter(|_| number <= MAX_COUNT);
    allowed.ok_or_else(|| Error::misused(format!("{what} is {number}; it must be between 1 and {MAX_COUNT}")))
}
