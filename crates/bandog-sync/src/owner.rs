//! Re-entry: an owner can take a lock that it already holds.

use std::{
    fmt,
    sync::{Arc, Weak},
    thread,
};

use bandog_core::{ClaimId, ClientId};

use crate::turn::OwnerTurns;

/// An owner can take a lock again while it holds the lock. The lock is released when the last of the owner's guards is
/// dropped.
///
/// Owners are explicit, because neither a thread nor a task identifies an owner: async tasks move between threads, and
/// `join!` runs several branches in one task. [`crate::Client::owner`] creates an owner, and [`crate::Mutex::by`] makes
/// a lock that this owner takes. Clones are the same owner.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// # let client = bandog::connect("memory:").await?;
/// let owner = client.owner();
/// let orders = client.mutex("orders").by(&owner);
/// let outer = orders.lock().await?;
/// let inner = orders.lock().await?; // Returns immediately, without a request to the store.
/// assert_eq!(inner.fence(), outer.fence());
/// # Ok(()) }
/// ```
///
/// # Deadlocks
/// An owner stands for one flow of code: while one of its calls waits, it releases none of its locks. So the client can
/// find a deadlock between owners. Example: one owner holds `a` and waits for `b`, and another owner holds `b` and waits
/// for `a`, possibly in another process. Within two seconds, the calls of both return `ErrorKind::Deadlock`, and the
/// error names the circle. The owners keep the locks that they hold; release one of them before the next attempt.
///
/// The search finds circles of calls without a time limit ([`crate::Mutex::lock`], [`crate::RwLock::read`],
/// [`crate::RwLock::write`], [`crate::All::lock`]) through locks that the watchdog renews. It does not find these waits:
/// calls with a time limit, and holds with a fixed lease or a `max_hold`, because they end by themselves; calls and
/// guards without an owner; permits of semaphores; readers that wait behind a waiting writer; and circles through several
/// clients of one owner's process or through several stores. A blocking call has its thread as its owner.
///
/// If an owner's guard can be released by other code while a call of this owner waits, do not take that lock with the
/// owner: the error could report a circle that the other code would have ended.
#[derive(Clone)]
pub struct Owner(Arc<OwnerTurns>);

impl Owner {
    pub(crate) fn new(client: ClientId) -> Self {
        Self::with(client, Vec::new())
    }

    /// The owner of the calling thread.
    pub(crate) fn of_this_thread(client: ClientId) -> Self {
        let thread = thread::current();
        let text = match thread.name() {
            Some(name) => format!("thread {name:?}"),
            None => format!("thread {:?}", thread.id()),
        };
        Self(OwnerTurns::new(client, Vec::new(), Some(text)))
    }

    /// An owner on whose behalf other clients hold these claims.
    pub(crate) fn with(client: ClientId, inherited: Vec<ClaimId>) -> Self {
        Self(OwnerTurns::new(client, inherited, None))
    }

    pub(crate) fn downgrade(&self) -> WeakOwner {
        WeakOwner(Arc::downgrade(&self.0))
    }

    pub(crate) fn client(&self) -> ClientId {
        self.0.client
    }

    /// The thread whose calls belong to this owner, as text. `None` if the owner was created explicitly.
    pub(crate) fn thread(&self) -> Option<&str> {
        self.0.thread.as_deref()
    }

    /// Whether both values are the same owner.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The owner of a turn.
    pub(crate) fn of(turns: Arc<OwnerTurns>) -> Self {
        Self(turns)
    }

    /// The turns and the waiting calls of this owner.
    pub(crate) fn turns(&self) -> &Arc<OwnerTurns> {
        &self.0
    }
}

/// A weak reference to the owner of a thread. Only guards and waiting calls keep such an owner alive. So when the owner
/// holds no lock and waits for no lock, this reference is empty.
pub(crate) struct WeakOwner(Weak<OwnerTurns>);

impl WeakOwner {
    pub(crate) fn upgrade(&self) -> Option<Owner> {
        self.0.upgrade().map(Owner)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("client", &self.0.client).finish_non_exhaustive()
    }
}
