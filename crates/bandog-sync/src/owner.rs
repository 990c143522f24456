//! Re-entry: an owner can take a lock that it already holds.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bandog_core::{ClientId, Key};

use crate::{engine::Ticket, guard::Turn};

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
    /// The keys for which this owner has a turn or waiting calls.
    keys: Mutex<HashMap<Key, KeyEntry>>,
}

#[derive(Default)]
struct KeyEntry {
    /// The owner's turn at this key: it lasts while the owner has guards of the lock. Empty if there is no turn.
    turn: Weak<Turn>,
    /// The waiting calls of this owner for the key.
    calls: Vec<OwnerCall>,
}

struct OwnerCall {
    ticket: Ticket,
    /// The owner's turn, if the engine has let this call share the turn and the call has not taken it yet.
    turn: Option<Arc<Turn>>,
}

impl Owner {
    pub(crate) fn new(client: ClientId) -> Self {
        Self(Arc::new(OwnerState { client, keys: Mutex::default() }))
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

    /// Returns the turn that this owner has at the key. If there is no turn, adds the call to the owner's waiting
    /// calls. [`Owner::call_ended`] removes the call.
    pub(crate) fn enter(&self, key: &Key, call: Ticket) -> Option<Arc<Turn>> {
        let mut keys = self.keys();
        if let Some(entry) = keys.get_mut(key) {
            let turn = entry.turn.upgrade();
            if turn.is_none() {
                entry.calls.push(OwnerCall { ticket: call, turn: None });
            }
            return turn;
        }
        keys.insert(key.clone(), KeyEntry { turn: Weak::new(), calls: vec![OwnerCall { ticket: call, turn: None }] });
        None
    }

    /// If the owner has a turn, lets a waiting call share that turn, and returns true. The call's entry in this table
    /// keeps the turn until the call takes the turn or ends. The engine must not keep the turn, not even for a moment:
    /// if the last guard were released in that moment, [`crate::Guard::release`] would return before the lock is
    /// released.
    pub(crate) fn share(&self, key: &Key, call: Ticket) -> bool {
        let mut keys = self.keys();
        let Some(KeyEntry { turn, calls }) = keys.get_mut(key) else { return false };
        let Some(waiting) = calls.iter_mut().find(|waiting| waiting.ticket == call) else { return false };
        waiting.turn = turn.upgrade();
        waiting.turn.is_some()
    }

    /// Removes a call that has ended, with or without the lock. Returns the turn that the call shares and has not taken
    /// yet.
    pub(crate) fn call_ended(&self, key: &Key, call: Ticket) -> Option<Arc<Turn>> {
        let mut turn = None;
        self.change(key, |entry| {
            if let Some(at) = entry.calls.iter().position(|waiting| waiting.ticket == call) {
                turn = entry.calls.swap_remove(at).turn;
            }
        });
        turn
    }

    /// Whether more than one call of this owner waits for the key.
    pub(crate) fn has_other_calls(&self, key: &Key) -> bool {
        self.keys().get(key).is_some_and(|entry| entry.calls.len() > 1)
    }

    /// Records that the owner got this turn. The turn may have ended already. In that case there is nothing to record,
    /// and the key's entry is removed unless calls of the owner still wait.
    pub(crate) fn hold(&self, key: &Key, turn: Weak<Turn>) {
        self.keys().entry(key.clone()).or_default().turn = turn;
        self.change(key, |_| ());
    }

    /// Called after the owner's last guard was dropped. Removes the key's entry, unless calls of the owner still wait.
    pub(crate) fn forget(&self, key: &Key) {
        self.change(key, |_| ());
    }

    /// Changes the key's entry. Then removes the entry if the owner has no turn and no waiting call at the key.
    fn change(&self, key: &Key, change: impl FnOnce(&mut KeyEntry)) {
        let mut keys = self.keys();
        let Some(entry) = keys.get_mut(key) else { return };
        change(entry);
        if entry.calls.is_empty() && entry.turn.strong_count() == 0 {
            keys.remove(key);
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Key, KeyEntry>> {
        self.0.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
