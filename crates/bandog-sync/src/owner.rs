//! Re-entry: who may take a lock that it holds already.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bandog_core::{ClientId, Key};

use crate::{engine::Ticket, guard::Turn};

/// Somebody who may take the same lock again while holding it: every guard is counted, and the lock is given back
/// with the last one.
///
/// It is explicit because async tasks move between threads, and `join!` runs two branches in one task. Made by
/// [`crate::Client::owner`], used by [`crate::Mutex::by`]. Clones are the same owner.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// # let client = bandog::connect("memory:").await?;
/// let owner = client.owner();
/// let orders = client.mutex("orders").by(&owner);
/// let outer = orders.lock().await?;
/// let inner = orders.lock().await?; // at once, without calls the store
/// assert_eq!(inner.fence(), outer.fence());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Owner(Arc<State>);

struct State {
    client: ClientId,
    keys: Mutex<HashMap<Key, Entry>>,
}

#[derive(Default)]
struct Entry {
    turn: Weak<Turn>,
    /// Calls of this owner that wait for the key, each with its part of the turn once it has one.
    calls: Vec<(Ticket, Option<Arc<Turn>>)>,
}

impl Owner {
    pub(crate) fn new(client: ClientId) -> Self {
        Self(Arc::new(State { client, keys: Mutex::default() }))
    }

    pub(crate) fn downgrade(&self) -> WeakOwner {
        WeakOwner(Arc::downgrade(&self.0))
    }

    pub(crate) fn client(&self) -> ClientId {
        self.0.client
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The turn that this owner has at the key; otherwise its call is known until [`Owner::call_ended`].
    pub(crate) fn enter(&self, key: &Key, call: Ticket) -> Option<Arc<Turn>> {
        let mut keys = self.keys();
        if let Some(entry) = keys.get_mut(key) {
            let turn = entry.turn.upgrade();
            if turn.is_none() {
                entry.calls.push((call, None));
            }
            return turn;
        }
        keys.insert(key.clone(), Entry { turn: Weak::new(), calls: vec![(call, None)] });
        None
    }

    /// Gives a call that waits its part of the turn, if there is one. It lies with the owner until the call takes it or
    /// goes: if anybody else had it, though for a moment only, a lock that is given back in that moment would not be.
    pub(crate) fn share(&self, key: &Key, call: Ticket) -> bool {
        let mut keys = self.keys();
        let Some(Entry { turn, calls }) = keys.get_mut(key) else { return false };
        let Some((_, part)) = calls.iter_mut().find(|(ticket, _)| *ticket == call) else { return false };
        *part = turn.upgrade();
        part.is_some()
    }

    /// A call has ended, served or not. Its part of the turn, if it has one.
    pub(crate) fn call_ended(&self, key: &Key, call: Ticket) -> Option<Arc<Turn>> {
        let mut part = None;
        self.change(key, |entry| {
            if let Some(at) = entry.calls.iter().position(|(ticket, _)| *ticket == call) {
                part = entry.calls.swap_remove(at).1;
            }
        });
        part
    }

    /// Whether more than one call of this owner waits for the key.
    pub(crate) fn has_other_calls(&self, key: &Key) -> bool {
        self.keys().get(key).is_some_and(|entry| entry.calls.len() > 1)
    }

    /// The owner has been given this turn, and may have given it back already.
    pub(crate) fn hold(&self, key: &Key, turn: Weak<Turn>) {
        self.keys().entry(key.clone()).or_default().turn = turn;
        self.change(key, |_| ());
    }

    /// The owner's last guard at the key has gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.change(key, |_| ());
    }

    fn change(&self, key: &Key, change: impl FnOnce(&mut Entry)) {
        let mut keys = self.keys();
        let Some(entry) = keys.get_mut(key) else { return };
        change(entry);
        if entry.calls.is_empty() && entry.turn.strong_count() == 0 {
            keys.remove(key);
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.0.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An owner that is gone when nothing of it is held or awaited any more.
pub(crate) struct WeakOwner(Weak<State>);

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
