//! The modes `rowlock` and `advisory`: while a claim holds a lock, a session of the database holds it, too. So locks that
//! other programs take in their own sessions exclude those of bandog.
//!
//! The lease stays: it decides between clients of bandog, and has the fence, the time of expiry and the waiters. A claim
//! takes the lock of the database first, and then the lease. It is granted if it got both.
//!
//! A keeper is the task of one name. It owns the session, and sees at once if the session ends.

pub(crate) mod check;
mod keeper;
mod lock;
mod steps;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bandog_core::{Claim, ClaimId, Error, Key, Result, rounded};
use tokio::{
    sync::{Semaphore, mpsc, oneshot, watch},
    time::timeout,
};

use self::keeper::Command;
use crate::{leases::Context, session::Session};

/// Number of commands that wait for a keeper.
const CAPACITY: usize = 64;

/// The task of one name.
struct Keeper {
    commands: mpsc::Sender<Command>,
    /// The claim that has the lock. None as soon as its session has ended.
    holder: Option<ClaimId>,
}

/// The steps of a call, which are answered together. The value is whether one of its claims is granted: its caller must not
/// wait until other claims have a connection, because it perhaps uses the connection for which they wait.
pub(crate) struct Batch(watch::Sender<bool>);

impl Batch {
    fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    fn set_granted(&self) {
        self.0.send_replace(true);
    }
}

/// The sessions that hold locks.
pub(crate) struct Held {
    keepers: Mutex<HashMap<Key, Keeper>>,
    /// Claims whose release is under way.
    releasing: Mutex<HashSet<ClaimId>>,
    /// Sessions that hold no lock at present.
    idle: Mutex<Vec<Session>>,
    /// One permit for each session that may be open.
    permits: Arc<Semaphore>,
    limit: usize,
}

impl Held {
    /// At most `limit` sessions.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(limit));
        Arc::new(Self {
            keepers: Mutex::default(),
            releasing: Mutex::default(),
            idle: Mutex::default(),
            permits,
            limit,
        })
    }

    /// Takes the lock of the database for this claim, or extends it. `from` is a claim that passes the lock on. Returns
    /// whether the claim has the lock. As soon as another claim of its `batch` is granted, it waits for no connection.
    ///
    /// # Cancel safety
    /// If the future is dropped, the claim may have the lock, until it is freed or its ttl has passed.
    pub(crate) async fn take(
        self: &Arc<Self>,
        context: &Arc<Context>,
        claim: &Claim,
        from: Option<ClaimId>,
        batch: &Batch,
    ) -> Result<bool> {
        let (id, ttl, granted) = (claim.id, claim.ttl, batch.0.subscribe());
        self.ask(context, &claim.key, |reply| Command::Take { id, from, ttl, granted, reply }).await?
    }

    /// Extends the time for which the claim has the lock. Returns whether it has the lock.
    ///
    /// # Cancel safety
    /// As [`Held::take`].
    pub(crate) async fn extend(self: &Arc<Self>, context: &Arc<Context>, claim: &Claim) -> Result<bool> {
        let (id, ttl) = (claim.id, claim.ttl);
        self.ask(context, &claim.key, |reply| Command::Extend { id, ttl, reply }).await?
    }

    /// Frees the lock, if this claim has it. Returns whether its session had it until now.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is freed nevertheless.
    pub(crate) async fn free(self: &Arc<Self>, context: &Arc<Context>, claim: &Claim) -> Result<bool> {
        let id = claim.id;
        self.ask(context, &claim.key, |reply| Command::Free { id, reply }).await
    }

    /// Sends a command to the keeper of a name, and waits for the answer.
    async fn ask<T>(
        self: &Arc<Self>,
        context: &Arc<Context>,
        key: &Key,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(context, key, command(reply))?;
        let limit = context.options.timeout;
        match timeout(limit, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(Error::unavailable("the Tokio runtime of the session has shut down").ambiguous()),
            Err(_) => {
                let message = format!("{} did not answer within {}", context.options.store(), rounded(limit));
                Err(Error::unavailable(message).ambiguous())
            }
        }
    }

    /// Sends a command to the keeper of a name, which is started if there is none. The table stays locked meanwhile, so no
    /// keeper ends with a command in its queue.
    fn send(self: &Arc<Self>, context: &Arc<Context>, key: &Key, command: Command) -> Result<()> {
        let mut keepers = self.keepers();
        let keeper = match keepers.get(key) {
            Some(keeper) if !keeper.commands.is_closed() => keeper.commands.clone(),
            Some(_) | None => {
                let (sender, commands) = mpsc::channel(CAPACITY);
                keeper::start(self.clone(), context.clone(), key.clone(), commands);
                keepers.insert(key.clone(), Keeper { commands: sender.clone(), holder: None });
                sender
            }
        };
        keeper.try_send(command).map_err(|_| Error::unavailable("too many requests wait for the session of the lock"))
    }

    /// Removes the keeper of a name, if no command waits for it. Returns whether it was removed.
    fn retire(&self, key: &Key, commands: &mpsc::Receiver<Command>) -> bool {
        let mut keepers = self.keepers();
        let is_idle = commands.is_empty();
        if is_idle {
            keepers.remove(key);
        }
        is_idle
    }

    /// Whether the claim has the lock of the database, without a request. It is false as soon as the keeper knows that the
    /// session has ended, and then the epoch rises.
    pub(crate) fn has(&self, claim: &Claim) -> bool {
        self.keepers().get(&claim.key).is_some_and(|keeper| keeper.holder == Some(claim.id))
    }

    /// Notes that the release of a claim is under way, until the returned value is dropped.
    fn releasing(&self, claim: &Claim) -> Releasing<'_> {
        self.releasing.lock().unwrap_or_else(PoisonError::into_inner).insert(claim.id);
        Releasing { held: self, id: claim.id }
    }

    /// Whether the release of a claim is under way.
    fn is_releasing(&self, claim: &Claim) -> bool {
        self.releasing.lock().unwrap_or_else(PoisonError::into_inner).contains(&claim.id)
    }

    /// Records the claim that has the lock of this name.
    fn set_holder(&self, key: &Key, holder: Option<ClaimId>) {
        if let Some(keeper) = self.keepers().get_mut(key) {
            keeper.holder = holder;
        }
    }

    /// Ends the keepers. Their sessions end, so the database frees their locks.
    pub(crate) fn close(&self) {
        self.keepers().clear();
        self.idle().clear();
    }

    fn full(&self, wait: Duration) -> Error {
        Error::unavailable(format!(
            "all {} connections for held locks were in use for {}; raise connections= in the URL",
            self.limit,
            rounded(wait)
        ))
    }

    fn keepers(&self) -> MutexGuard<'_, HashMap<Key, Keeper>> {
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The release of a claim that is under way.
struct Releasing<'h> {
    held: &'h Held,
    id: ClaimId,
}

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        self.held.releasing.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("limit", &self.limit).finish_non_exhaustive()
    }
}
