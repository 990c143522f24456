//! The sessions that hold locks, and the keepers that own them.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bandog_core::{Claim, ClaimId, Error, Key, Result, rounded};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::session::Session;

/// Number of commands that wait for a keeper.
const CAPACITY: usize = 64;

/// A command to a keeper.
pub(super) enum Command {
    Take {
        id: ClaimId,
        from: Option<ClaimId>,
        ttl: Duration,
        /// Whether another claim of the same call is granted.
        granted: watch::Receiver<bool>,
        reply: oneshot::Sender<Result<bool>>,
    },
    Extend {
        id: ClaimId,
        ttl: Duration,
        reply: oneshot::Sender<Result<bool>>,
    },
    Free {
        id: ClaimId,
        reply: oneshot::Sender<bool>,
    },
}

/// The task of one name.
struct Keeper {
    commands: mpsc::Sender<Command>,
    /// The claim that has the lock. None as soon as its session has ended.
    holder: Option<ClaimId>,
}

/// The sessions that hold locks.
pub(crate) struct Held {
    keepers: Mutex<HashMap<Key, Keeper>>,
    /// Claims whose release is under way.
    releasing: Mutex<HashSet<ClaimId>>,
    /// Sessions that hold no lock at present.
    idle: Mutex<Vec<Session>>,
    /// One permit for each session that may be open.
    pub(super) permits: Arc<Semaphore>,
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

    /// Sends a command to the keeper of a name. If there is none, `start` starts it with its queue. The table stays locked
    /// meanwhile, so no keeper ends with a command in its queue.
    pub(super) fn send(&self, key: &Key, command: Command, start: impl FnOnce(mpsc::Receiver<Command>)) -> Result<()> {
        let mut keepers = self.keepers();
        let keeper = match keepers.get(key) {
            Some(keeper) if !keeper.commands.is_closed() => keeper.commands.clone(),
            Some(_) | None => {
                let (sender, commands) = mpsc::channel(CAPACITY);
                start(commands);
                keepers.insert(key.clone(), Keeper { commands: sender.clone(), holder: None });
                sender
            }
        };
        keeper.try_send(command).map_err(|_| Error::unavailable("too many requests wait for the session of the lock"))
    }

    /// Removes the keeper of a name, if no command waits for it. Returns whether it was removed.
    pub(super) fn retire(&self, key: &Key, commands: &mpsc::Receiver<Command>) -> bool {
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
    pub(super) fn releasing(&self, claim: &Claim) -> Releasing<'_> {
        self.releasing.lock().unwrap_or_else(PoisonError::into_inner).insert(claim.id);
        Releasing { held: self, id: claim.id }
    }

    /// Whether the release of a claim is under way.
    pub(super) fn is_releasing(&self, claim: &Claim) -> bool {
        self.releasing.lock().unwrap_or_else(PoisonError::into_inner).contains(&claim.id)
    }

    /// Records the claim that has the lock of this name.
    pub(super) fn set_holder(&self, key: &Key, holder: Option<ClaimId>) {
        if let Some(keeper) = self.keepers().get_mut(key) {
            keeper.holder = holder;
        }
    }

    /// Ends the keepers. Their sessions end, so the database frees their locks.
    pub(crate) fn close(&self) {
        self.keepers().clear();
        self.idle().clear();
    }

    pub(super) fn full(&self, wait: Duration) -> Error {
        Error::unavailable(format!(
            "all {} connections for held locks were in use for {}; raise connections= in the URL",
            self.limit,
            rounded(wait)
        ))
    }

    fn keepers(&self) -> MutexGuard<'_, HashMap<Key, Keeper>> {
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The release of a claim that is under way.
pub(super) struct Releasing<'h> {
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
