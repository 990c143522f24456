//! The guard of a lock, and two futures: [`Lost`] resolves when a lock is lost, and [`Expiring`] shortly before that.

mod detach;
mod lease;

use std::{
    fmt,
    marker::PhantomData,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bandog_core::{ClaimId, Clock, Error, ErrorKind, Fence, Holding, Kind, Result, SqlStatement};
use futures_util::future::{Either, select};
use tokio::sync::{futures::OwnedNotified, oneshot};

use crate::{
    Owner,
    caller::Caller,
    engine::{Call, Msg, TurnGrant, Wait},
    handle::Handle,
    terms::Patience,
    turn::{Turn, lost},
    turn_status::{TurnState, TurnStatus},
};

/// A held lock. It stays held until this guard is released or dropped, or until the lock is lost.
///
/// A lock can be lost while its guard exists, for example because the process was stopped for some time, or because the
/// store lost its data. So a guard knows its deadline. This deadline is earlier than the moment at which the store can
/// grant the lock to another client. Work that must not run twice should watch [`Guard::lost`], and send
/// [`Guard::fence`] with each write.
///
/// The drop of a guard releases the lock in the background. [`Guard::release`] does the same and reports the result.
///
/// `S` says whether other holders can have the lock at the same time: [`ExclusiveHold`] or [`SharedHold`].
#[must_use = "a lock is released as soon as its guard is dropped"]
pub struct Guard<S = ExclusiveHold> {
    turn: Arc<Turn>,
    handle: Arc<Handle>,
    sharing: PhantomData<fn() -> S>,
}

/// The sharing of a mutex, of the writer of a read-write lock, and of a leader: no one else holds the lock.
#[derive(Debug, Clone)]
pub enum ExclusiveHold {}

/// The sharing of a reader and of permits: others can hold the lock at the same time. A list of locks of different kinds
/// ([`crate::all`]) has it too.
#[derive(Debug, Clone)]
pub enum SharedHold {}

impl<S> Guard<S> {
    pub(crate) fn of(turn: Arc<Turn>, handle: Arc<Handle>) -> Self {
        Self { turn, handle, sharing: PhantomData }
    }

    /// The fencing token of this lock: a number that is larger than the number of every earlier holder. An [`Owner`]
    /// can take a lock again while it holds the lock. Then the owner has several guards, and all of them have the same
    /// fence.
    pub fn fence(&self) -> Fence {
        self.turn.fence
    }

    /// The lock's name, without the client's prefix.
    pub fn name(&self) -> &str {
        let key = self.key();
        key.strip_prefix(self.handle.prefix()).unwrap_or(key)
    }

    /// The lock's key in the store: its name with the client's prefix. It is a text for logs, because all calls of a client
    /// take names without the prefix.
    pub fn key(&self) -> &str {
        self.turn.key().as_str()
    }

    /// The lock's name, and the id of the claim that holds the lock in the store. A [`Swap`](bandog_core::Swap) can
    /// have the condition that this claim still holds the lock. Several calls of this client can get the lock one after
    /// another under the same claim. The guards of these calls return the same value.
    pub fn holding(&self) -> Holding {
        let id = ClaimId { client: self.handle.id, number: self.turn.hold };
        Holding { key: self.turn.key().clone(), id }
    }

    /// Whether the lock is lost, so that another client might hold it now. Once this call has returned true, it always
    /// returns true. This call reads the clock, and does no I/O. In a child that was forked from the client's process it
    /// returns true: the lock stays with the parent.
    pub fn is_lost(&self) -> bool {
        self.check_held().is_err()
    }

    /// Time until the lock is lost if no further renewal succeeds. Zero if the lock is lost.
    pub fn remaining(&self) -> Duration {
        self.turn.status.remaining(self.handle.clock.now())
    }

    /// The ttl with which the lock was taken: its fixed lease, or the ttl of the client's watchdog. If the holder stops, the
    /// lock is free at most this time later.
    pub fn ttl(&self) -> Duration {
        self.turn.ttl
    }

    /// Returns a future that resolves when the lock is lost. The future resolves immediately if the lock was lost
    /// before. It never resolves if the lock is released.
    ///
    /// The future resolves before the store can grant the lock to another client. There is one exception: if the store
    /// itself lost the lock, or the clock of the store jumped, the future resolves at the next renewal. The future is
    /// `Clone`, and can be used after the guard is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::connect("memory:").await?;
    /// # async fn sweep(fence: bandog::Fence) -> &'static str { "swept" }
    /// let guard = client.mutex("orders").lock().await?;
    /// let done = tokio::select! { biased;
    ///     () = guard.lost() => "interrupted",
    ///     done = sweep(guard.fence()) => done,
    /// };
    /// assert_eq!(done, "swept");
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn lost(&self) -> Lost {
        Lost(Watches::One(self.watch_deadline(Duration::ZERO)))
    }

    /// Returns a future that resolves when only `grace` is left before the lock is lost. Use this future if your work
    /// needs some time to stop. Each successful renewal postpones this moment. Even after the future has resolved, a
    /// renewal can still succeed. In that case the lock is not lost.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn expiring(&self, grace: Duration) -> Expiring {
        // If the engine has ended, this message is not received. In that case the turn is lost, so the future resolves.
        let (slot, hold, ticket) = (self.turn.slot.clone(), self.turn.hold, self.turn.ticket);
        let _ = self.handle.send(Msg::WarnBefore { slot, hold, ticket, grace });
        Expiring(Watches::One(self.watch_deadline(grace)))
    }

    /// Releases the lock and reports the result. If an owner has several guards of this lock, only the last guard
    /// releases the lock.
    ///
    /// If another call of this client waits for the same lock, that call gets the lock, usually without a request to
    /// the store.
    ///
    /// # Errors
    /// - `ErrorKind::Lost`: the lock was lost before. Another holder may have done the same work since then.
    /// - `ErrorKind::Unavailable`: the store did not answer within one request timeout. The release continues in the
    ///   background. The lock is free after its ttl at the latest.
    /// - `ErrorKind::Closed`: the client was closed with [`crate::Client::close`].
    ///
    /// # Cancel safety
    /// If this future is dropped, the lock is released nevertheless. This is true even before the first poll.
    pub async fn release(self) -> Result<()> {
        let held = self.check_held();
        self.handle.check_process().map_err(|error| error.at(self.turn.key()))?;
        let Some(mut turn) = Arc::into_inner(self.turn) else { return held };
        let (report, answer) = oneshot::channel();
        turn.report = Some(report);
        let (key, max_hold, clock) = (turn.key().clone(), turn.max_hold, self.handle.clock);
        drop(turn);
        answer.await.unwrap_or_else(|_| Err(Error::closed())).map_err(|error| match error.kind() {
            ErrorKind::Lost => lost(&key, max_hold, clock.now()),
            _ => error,
        })
    }

    /// Marks this lock as lost, as if its lease had expired. This is for tests of how a program reacts to a loss. In
    /// the store, the lock stays held until the guard is dropped or the ttl has passed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::connect("memory:").await?;
    /// let guard = client.mutex("orders").lock().await?;
    /// guard.lose();
    /// guard.lost().await;
    /// assert!(guard.is_lost());
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "test-util")]
    pub fn lose(&self) {
        self.turn.status.lose();
    }

    pub(crate) fn check_held(&self) -> Result<()> {
        self.turn.check_held()
    }

    /// Adds the key to an error.
    pub(crate) fn with_key(&self, error: Error) -> Error {
        error.at(self.turn.key())
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The status of the turn, and the clock that is needed to read the status.
    pub(crate) fn status_and_clock(&self) -> (Arc<TurnStatus>, Clock) {
        (Arc::clone(&self.turn.status), self.handle.clock)
    }

    /// A future that resolves when only `grace` is left before the deadline, or when the lock is lost.
    fn watch_deadline(&self, grace: Duration) -> DeadlineWatch {
        DeadlineWatch { status: Arc::clone(&self.turn.status), clock: self.handle.clock, grace, woken: None }
    }
}

impl Guard {
    /// A statement for your own transaction, on a store that is a database (PostgreSQL, MySQL or MariaDB). In this
    /// transaction it checks that this guard's claim holds the lock, and until the transaction ends the store grants the
    /// lock to no other client, even if the lease expires or an operator takes the lock away. So two holders never commit
    /// work at once.
    /// The crate `bandog-sqlx` executes it (`guard.fence_in(&mut tx)`); with any other client of the database, execute it
    /// yourself.
    ///
    /// - Execute it as the last statement before the commit, in the database of the locks. The guard must exist until
    ///   the commit has returned: after it is dropped, another call of this client can get the lock.
    /// - If the lock is lost, the database refuses the statement. On PostgreSQL, the transaction then cannot commit; on
    ///   MySQL and MariaDB, roll it back. [`SqlStatement::refusal`] recognizes this error.
    /// - Renewals and other locks are not delayed by the open transaction.
    ///
    /// Readers and holders of permits have no such statement: other holders can have the lock at the same time, with
    /// greater fences, so the check would say nothing about the order of the writes.
    ///
    /// `docs/postgres.md` has an example, and this page and `docs/mysql.md` say what happens at each isolation level.
    ///
    /// # Errors
    /// - `ErrorKind::Lost`: the lock was lost before.
    /// - `ErrorKind::Unsupported`: the store is no database in which users have transactions.
    /// - `ErrorKind::Closed`: the client was closed.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn fence_sql(&self) -> Result<SqlStatement> {
        self.check_held()?;
        let (holding, fence) = (self.holding(), self.fence());
        self.handle.query(move |backend| Box::pin(async move { backend.fence_sql(&holding, fence).await })).await
    }

    /// Turns the lock of a writer into the lock of a reader. See [`crate::WriteGuard::downgrade`].
    pub(crate) async fn downgrade(self) -> Result<Guard<SharedHold>> {
        let key = self.turn.key().clone();
        let Some(turn) = Arc::into_inner(self.turn) else {
            let message = "the owner has other guards of this lock, so it cannot become a read lock";
            return Err(Error::misused(message).during("downgrade").at(&key));
        };
        turn.check_held()?;
        let (reply, answer) = oneshot::channel();
        // The slot replaces the terms by those of the hold.
        let (terms, ticket, owner) =
            (self.handle.terms(Kind::Read)?, self.handle.ticket(), turn.owner.clone().map(Owner::of));
        let (patience, caller, wait) = (Patience::Forever, Caller::present(), Wait::default());
        let (can_deadlock, max_waiters) = (false, None);
        let call = Call { ticket, owner, caller, terms, patience, can_deadlock, max_waiters, reply, wait };
        let (slot, hold, turn_ticket) = (turn.slot.clone(), turn.hold, turn.ticket);
        self.handle.send(Msg::Downgrade { slot, hold, turn: turn_ticket, call: Box::new(call) })?;
        // `turn` is kept until the answer, so that its status stays that of a held lock.
        match answer.await.map_err(|_| Error::closed().during("downgrade").at(&key))?? {
            Some(TurnGrant::New(reader)) => Ok(Guard::of(reader, self.handle)),
            Some(TurnGrant::Shared) | None => Err(Error::lost(&key)),
        }
    }
}

/// The same guard, for code that treats all holders alike.
impl From<Guard> for Guard<SharedHold> {
    fn from(guard: Guard) -> Self {
        Self::of(guard.turn, guard.handle)
    }
}

impl<S> fmt::Debug for Guard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut guard = f.debug_struct("Guard");
        guard.field("key", &self.key()).field("fence", &self.fence().get()).field("lost", &self.is_lost()).finish()
    }
}

/// A future that resolves when its lock is lost, or the first of several locks. See [`Guard::lost`].
#[derive(Debug, Clone)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Lost(Watches);

/// A future that resolves shortly before its lock is lost, or the first of several locks. See [`Guard::expiring`].
#[derive(Debug, Clone)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Expiring(Watches);

impl Lost {
    /// The result of the body. If the lock is lost before that, drops the body, and returns the error of `check`.
    pub(crate) async fn or<T>(self, check: impl Fn() -> Result<()>, body: impl Future<Output = T>) -> Result<T> {
        match select(self, pin!(body)).await {
            Either::Left(((), _)) => Err(check().err().unwrap_or_else(Error::closed)),
            Either::Right((value, _)) => Ok(value),
        }
    }

    pub(crate) fn of_any(each: impl IntoIterator<Item = Self>) -> Self {
        Self(Watches::Several(each.into_iter().map(|lost| lost.0).collect()))
    }
}

impl Expiring {
    pub(crate) fn of_any(each: impl IntoIterator<Item = Self>) -> Self {
        Self(Watches::Several(each.into_iter().map(|expiring| expiring.0).collect()))
    }
}

impl Future for Lost {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll(context)
    }
}

impl Future for Expiring {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll(context)
    }
}

/// The watches of one lock or of several.
#[derive(Debug, Clone)]
enum Watches {
    One(DeadlineWatch),
    Several(Vec<Watches>),
}

impl Watches {
    /// Ready if one of the watches is ready.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::One(watch) => watch.poll(context),
            Self::Several(watches) => {
                let is_ready = watches.iter_mut().any(|watch| watch.poll(context).is_ready());
                if is_ready { Poll::Ready(()) } else { Poll::Pending }
            }
        }
    }
}

/// Resolves when a turn is lost, when its client closes, or when only `grace` is left before the turn's deadline.
struct DeadlineWatch {
    status: Arc<TurnStatus>,
    clock: Clock,
    /// How long before the deadline the watch resolves.
    grace: Duration,
    /// Resolves at the next change of the status. `None` if this watch is not registered for the next change. In that
    /// case, the next poll of this watch registers it.
    woken: Option<Pin<Box<OwnedNotified>>>,
}

impl DeadlineWatch {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            // The wake-up is registered before the status is read, so that no change is missed.
            let woken = self.woken.get_or_insert_with(|| Box::pin(self.status.woken()));
            let now = self.clock.now();
            match self.status.seen(now) {
                TurnState::Held { until } if until.since(now) > self.grace => {}
                TurnState::Held { .. } | TurnState::Lost | TurnState::Closed => return Poll::Ready(()),
                TurnState::Released => {} // A released lock cannot be lost, so the future stays pending.
            }
            if woken.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.woken = None;
        }
    }
}

impl Clone for DeadlineWatch {
    fn clone(&self) -> Self {
        Self { status: Arc::clone(&self.status), clock: self.clock, grace: self.grace, woken: None }
    }
}

impl fmt::Debug for DeadlineWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineWatch").field("grace", &self.grace).finish_non_exhaustive()
    }
}
