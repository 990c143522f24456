//! Re-entry: an owner can take a lock that it already holds.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bandog_core::{ClientId, Error, Key, Kind, Result};

use crate::{
    engine::{Lane, OwnedAs, Ticket},
    guard::Turn,
};

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
#[derive(Clone)]
pub struct Owner(Arc<OwnerState>);

struct OwnerState {
    client: ClientId,
    /// The locks for which this owner has a turn or waiting calls.
    locks: Mutex<HashMap<(Key, OwnedAs), LockEntry>>,
}

#[derive(Default)]
struct LockEntry {
    /// The owner's turn of this lock: it lasts while the owner has guards of the lock. Empty if there is no turn.
    turn: Weak<Turn>,
    /// The waiting calls of this owner for the lock.
    calls: Vec<OwnerCall>,
}

struct OwnerCall {
    ticket: Ticket,
    /// What the call asks for.
    kind: Kind,
    /// The owner's turn, if the engine has let this call share the turn and the call has not taken it yet.
    turn: Option<Arc<Turn>>,
}

impl Owner {
    pub(crate) fn new(client: ClientId) -> Self {
        Self(Arc::new(OwnerState { client, locks: Mutex::default() }))
    }

    pub(crate) fn downgrade(&self) -> WeakOwner {
        WeakOwner(Arc::downgrade(&self.0))
    }

    pub(crate) fn client(&self) -> ClientId {
        self.0.client
    }

    /// Whether both values are the same owner.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the turn that this owner has of the lock. If there is no turn, adds the call to the owner's waiting calls.
    /// [`Owner::call_ended`] removes the call.
    ///
    /// # Errors
    /// `ErrorKind::Misused` if the owner holds the lock as a reader, and the call is a writer's. Such a call would wait
    /// for its own owner.
    pub(crate) fn enter(&self, key: &Key, kind: Kind, call: Ticket) -> Result<Option<Arc<Turn>>> {
        let Some(owned_as) = OwnedAs::of(kind) else { return Ok(None) };
        let mut locks = self.locks();
        let entry = locks.entry((key.clone(), owned_as)).or_default();
        let Some(turn) = entry.turn.upgrade() else {
            entry.calls.push(OwnerCall { ticket: call, kind, turn: None });
            return Ok(None);
        };
        drop(locks);
        if can_share(&turn, kind) {
            return Ok(Some(turn));
        }
        let message = "this owner already holds the lock for reading, and a read lock cannot become a write lock; \
                       release it first";
        Err(Error::misused(message).during("write").at(key))
    }

    /// If the owner has a turn, lets a waiting call share that turn, and returns true. The call's entry in this table
    /// keeps the turn until the call takes the turn or ends. The engine must not keep the turn, not even for a moment:
    /// if the last guard were released in that moment, [`crate::Guard::release`] would return before the lock is
    /// released.
    pub(crate) fn share(&self, key: &Key, lane: Lane, call: Ticket) -> bool {
        let mut locks = self.locks();
        let Some(LockEntry { turn, calls }) =
            OwnedAs::in_lane(lane).and_then(|owned_as| locks.get_mut(&(key.clone(), owned_as)))
        else {
            return false;
        };
        let Some(waiting) = calls.iter_mut().find(|waiting| waiting.ticket == call) else { return false };
        let turn = turn.upgrade();
        waiting.turn = turn.as_ref().filter(|turn| can_share(turn, waiting.kind)).cloned();
        let shares = waiting.turn.is_some();
        drop(locks);
        drop(turn); // If this was the last reference, its drop needs the table.
        shares
    }

    /// Removes a call that has ended, with or without the lock. Returns the turn that the call shares and has not taken
    /// yet.
    pub(crate) fn call_ended(&self, key: &Key, lane: Lane, call: Ticket) -> Option<Arc<Turn>> {
        let mut turn = None;
        self.change(key, lane, |entry| {
            if let Some(at) = entry.calls.iter().position(|waiting| waiting.ticket == call) {
                turn = entry.calls.swap_remove(at).turn;
            }
        });
        turn
    }

    /// The calls of this owner that wait for the lock, without this call.
    pub(crate) fn other_calls(&self, key: &Key, lane: Lane, call: Ticket) -> Vec<(Ticket, Lane)> {
        let locks = self.locks();
        let entry = OwnedAs::in_lane(lane).and_then(|owned_as| locks.get(&(key.clone(), owned_as)));
        let others = entry.into_iter().flat_map(|entry| &entry.calls).filter(|waiting| waiting.ticket != call);
        others.map(|waiting| (waiting.ticket, Lane::of(waiting.kind, waiting.ticket))).collect()
    }

    /// Records that the owner got this turn. The turn may have ended already. In that case there is nothing to record,
    /// and the lock's entry is removed unless calls of the owner still wait.
    pub(crate) fn hold(&self, key: &Key, lane: Lane, turn: Weak<Turn>) {
        let Some(owned_as) = OwnedAs::in_lane(lane) else { return };
        self.locks().entry((key.clone(), owned_as)).or_default().turn = turn;
        self.change(key, lane, |_| ());
    }

    /// Called after the owner's last guard was dropped. Removes the lock's entry, unless calls of the owner still wait.
    pub(crate) fn forget(&self, key: &Key, lane: Lane) {
        self.change(key, lane, |_| ());
    }

    /// Changes the lock's entry. Then removes the entry if the owner has no turn and no waiting call.
    fn change(&self, key: &Key, lane: Lane, change: impl FnOnce(&mut LockEntry)) {
        let Some(owned_as) = OwnedAs::in_lane(lane) else { return };
        let name = (key.clone(), owned_as);
        let mut locks = self.locks();
        let Some(entry) = locks.get_mut(&name) else { return };
        change(entry);
        if entry.calls.is_empty() && entry.turn.strong_count() == 0 {
            locks.remove(&name);
        }
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<(Key, OwnedAs), LockEntry>> {
        self.0.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a call of this kind can share a turn of the same owner. A writer can also read; a reader cannot write.
fn can_share(turn: &Turn, kind: Kind) -> bool {
    !matches!((turn.slot.lane, kind), (Lane::Read, Kind::Write))
}

/// A weak reference to the owner of a thread. Only guards and waiting calls keep such an owner alive. So when the owner
/// holds no lock and waits for no lock, this reference is empty.
pub(crate) struct WeakOwner(Weak<OwnerState>);

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
