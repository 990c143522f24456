//! Re-entry: an owner can take a lock that it already holds.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
};

use bandog_core::{ClaimId, ClientId, Error, Key, Kind, Moment, Result};

use crate::{
    engine::{HoldId, Lane, OwnedAs, Terms, Ticket},
    guard::Turn,
    turn_status::{TurnState, TurnStatus},
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
///
/// # Deadlocks
/// An owner stands for one flow of code: while one of its calls waits, it releases none of its locks. So the client can
/// find a deadlock between owners. Example: one owner holds `a` and waits for `b`, and another owner holds `b` and waits
/// for `a`, perhaps in another process. Within two seconds, the calls of both return `ErrorKind::Deadlock`, and the error
/// names the circle. The owners keep the locks that they hold; release one of them before the next attempt.
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
pub struct Owner(Arc<OwnerState>);

struct OwnerState {
    client: ClientId,
    /// Claims of other clients that are held on behalf of this owner, until the owner's process ends.
    inherited: Vec<ClaimId>,
    /// The thread whose calls belong to this owner, as text. `None` if the owner was created explicitly.
    thread: Option<String>,
    /// The locks for which this owner has a turn or waiting calls.
    locks: Mutex<HashMap<(Key, OwnedAs), LockEntry>>,
}

#[derive(Default)]
struct LockEntry {
    /// The owner's turn of this lock: it lasts while the owner has guards of the lock. Empty if there is no turn.
    turn: Weak<Turn>,
    /// The lane of the turn. `None` before the first turn.
    lane: Option<Lane>,
    /// The hold and the status of the turn, if the turn lasts until its guards are dropped. `None` if it ends by itself.
    lasting: Option<(HoldId, Arc<TurnStatus>)>,
    /// The waiting calls of this owner for the lock.
    calls: Vec<OwnerCall>,
}

struct OwnerCall {
    ticket: Ticket,
    /// What the call asks for.
    kind: Kind,
    /// Whether a turn of this call lasts until its guards are dropped. If not, it has a fixed lease or a maximum duration.
    lasts: bool,
    /// The owner's turn, if the engine has let this call share the turn and the call has not taken it yet.
    turn: Option<Arc<Turn>>,
}

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
        Self(Arc::new(OwnerState { client, inherited: Vec::new(), thread: Some(text), locks: Mutex::default() }))
    }

    /// An owner on whose behalf other clients hold these claims.
    pub(crate) fn with(client: ClientId, inherited: Vec<ClaimId>) -> Self {
        Self(Arc::new(OwnerState { client, inherited, thread: None, locks: Mutex::default() }))
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

    /// Returns the turn that this owner has of the lock. If there is no turn, adds the call to the owner's waiting calls.
    /// [`Owner::call_ended`] removes the call.
    ///
    /// # Errors
    /// `ErrorKind::Misused` if the owner holds the lock as a reader, and the call is a writer's. Such a call would wait
    /// for its own owner.
    pub(crate) fn enter(&self, key: &Key, terms: Terms, call: Ticket) -> Result<Option<Arc<Turn>>> {
        let kind = terms.kind;
        let Some(owned_as) = OwnedAs::of(kind) else { return Ok(None) };
        let mut locks = self.locks();
        let entry = locks.entry((key.clone(), owned_as)).or_default();
        if entry.turn.strong_count() > 0 && !entry.can_share(kind) {
            let message = "this owner already holds the lock for reading, and a read lock cannot become a write lock; \
                           release it first";
            return Err(Error::misused(message).during("write").at(key));
        }
        let turn = entry.turn.upgrade();
        if turn.is_none() {
            let lasts = terms.watchdog && terms.max_hold.is_none();
            entry.calls.push(OwnerCall { ticket: call, kind, lasts, turn: None });
        }
        Ok(turn)
    }

    /// If the owner has a turn, lets a waiting call share that turn, and returns true. The call's entry in this table
    /// keeps the turn until the call takes the turn or ends. The engine must not keep the turn, not even for a moment:
    /// if the last guard were released in that moment, [`crate::Guard::release`] would return before the lock is
    /// released.
    pub(crate) fn share(&self, key: &Key, lane: Lane, call: Ticket) -> bool {
        let mut locks = self.locks();
        let Some(owned_as) = OwnedAs::in_lane(lane) else { return false };
        let Some(entry) = locks.get_mut(&(key.clone(), owned_as)) else { return false };
        let Some(at) = entry.calls.iter().position(|waiting| waiting.ticket == call) else { return false };
        if !entry.can_share(entry.calls[at].kind) {
            return entry.calls[at].turn.is_some();
        }
        let shared = entry.turn.upgrade();
        let shares = shared.is_some();
        let earlier = std::mem::replace(&mut entry.calls[at].turn, shared);
        drop(locks);
        drop(earlier); // A turn that the call has not taken, and that was lost. Its drop needs the table.
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

    /// Records that the owner got this turn, and gives the turn to the waiting call that asked for it. The call's entry
    /// keeps the turn, as in [`Self::share`] and for the same reason. If the call has ended, returns the turn.
    pub(crate) fn start(&self, key: &Key, turn: Arc<Turn>) -> Result<(), Arc<Turn>> {
        let lane = turn.slot.lane;
        let Some(owned_as) = OwnedAs::in_lane(lane) else { return Err(turn) };
        let mut locks = self.locks();
        let Some(entry) = locks.get_mut(&(key.clone(), owned_as)) else { return Err(turn) };
        let Some(at) = entry.calls.iter().position(|call| call.ticket == turn.ticket) else { return Err(turn) };
        entry.record(&turn, entry.calls[at].lasts);
        let earlier = entry.calls[at].turn.replace(turn);
        drop(locks);
        drop(earlier); // As in [`Self::share`].
        Ok(())
    }

    /// Records that the owner got this turn by a downgrade, which is not a waiting call. The turn may have ended already.
    /// In that case there is nothing to record, and the lock's entry is removed unless calls of the owner still wait.
    pub(crate) fn hold(&self, key: &Key, turn: &Arc<Turn>) {
        let lane = turn.slot.lane;
        let Some(owned_as) = OwnedAs::in_lane(lane) else { return };
        // The search for deadlocks takes no notice of this turn, as if it ended by itself.
        self.locks().entry((key.clone(), owned_as)).or_default().record(turn, false);
        self.change(key, lane, |_| ());
    }

    /// Whether the owner may hold a lock besides the one for which it calls now. Only such a call can be part of a
    /// deadlock.
    pub(crate) fn may_hold_others(&self) -> bool {
        !self.0.inherited.is_empty() || self.locks().len() > 1
    }

    /// The claims by which the owner holds locks, without those that end by themselves. While a call of the owner waits,
    /// the owner releases none of them.
    pub(crate) fn lasting_claims(&self, now: Moment) -> Vec<ClaimId> {
        // The turn itself is not used here, for the reason that [`Self::share`] names.
        let lasting = |entry: &LockEntry| {
            let (number, status) = entry.lasting.as_ref().filter(|_| entry.turn.strong_count() > 0)?;
            let is_held = matches!(status.state(now), TurnState::Held { .. });
            is_held.then_some(ClaimId { client: self.0.client, number: *number })
        };
        let own: Vec<_> = self.locks().values().filter_map(lasting).collect();
        own.into_iter().chain(self.0.inherited.iter().copied()).collect()
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

impl LockEntry {
    /// Records the owner's turn. `lasts` says whether it lasts until its guards are dropped.
    fn record(&mut self, turn: &Arc<Turn>, lasts: bool) {
        self.turn = Arc::downgrade(turn);
        self.lane = Some(turn.slot.lane);
        self.lasting = lasts.then(|| (turn.hold, Arc::clone(&turn.status)));
    }

    /// Whether a call of this kind can share the owner's turn. A writer can also read; a reader cannot write.
    fn can_share(&self, kind: Kind) -> bool {
        !matches!((self.lane, kind), (Some(Lane::Read), Kind::Write))
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
