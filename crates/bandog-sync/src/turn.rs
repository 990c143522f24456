//! The turns of calls, and of owners. A *turn* begins when a call gets the lock, and ends when the last guard of the turn is
//! dropped.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bandog_core::{ClaimId, ClientId, Clock, Error, ErrorKind, Fence, Key, Kind, Moment, Result};
use tokio::sync::oneshot;

use crate::{
    lane::{Lane, OwnedAs, SlotId},
    terms::{HoldId, Terms, Ticket},
    turn_status::{TurnState, TurnStatus},
};

/// Where the result of a release, of an extension or of a detachment goes.
pub(crate) type Report = oneshot::Sender<Result<()>>;

/// A *hold* is what the store has granted to the client: the lock belongs to this client until a deadline. A hold can
/// serve several calls, one after another. A *turn* is the part of a hold that belongs to one call. The turn begins
/// when the call gets the hold, and ends when the last guard of the turn is dropped. If an [`crate::Owner`] takes the
/// lock again during its turn, it gets another guard of the same turn. All guards of a turn share one `Turn`. When the last
/// of these guards is dropped, the `Turn` is dropped and sends a message to the engine. Then the engine can give the
/// hold to the next call.
pub(crate) struct Turn {
    /// The slot of the engine that has the hold.
    pub(crate) slot: SlotId,
    /// The kind of the hold.
    pub(crate) kind: Kind,
    pub(crate) hold: HoldId,
    /// The ticket of the call that got the turn.
    pub(crate) ticket: Ticket,
    pub(crate) fence: Fence,
    /// The ttl of the hold.
    pub(crate) ttl: Duration,
    /// The deadline of the turn, or how the turn ended. The engine has this status, too.
    pub(crate) status: Arc<TurnStatus>,
    /// The owner that has this turn. `None` if the call named no owner.
    pub(crate) owner: Option<Arc<OwnerTurns>>,
    /// The maximum duration of the turn. `None` if there is no limit.
    pub(crate) max_hold: Option<MaxHold>,
    /// Sends the result of the release to the caller. `None` if no caller waits for the result.
    pub(crate) report: Option<Report>,
    /// The client of the turn. This reference keeps the client alive while the turn exists.
    pub(crate) client: Arc<dyn TurnClient>,
}

/// The client, as a turn and the engine that begins it need it.
pub(crate) trait TurnClient: Send + Sync {
    fn clock(&self) -> Clock;

    /// Returns an error in a child that was forked from the client's process.
    fn check_process(&self) -> Result<()>;

    /// Whether a user of this client logs outages itself. In that case the engine does not log them.
    fn has_outage_reporter(&self) -> bool;

    /// The last guard of this turn was dropped or released. `report`: where the result of the release goes. If the engine
    /// has ended, there is nothing left to release.
    fn turn_ended(&self, slot: SlotId, hold: HoldId, ticket: Ticket, report: Option<Report>);
}

/// The maximum duration of a turn, and the moment at which it is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaxHold {
    pub(crate) time: Duration,
    pub(crate) end: Moment,
}

/// The error of a turn that was lost. It names the `max_hold` if that is over.
pub(crate) fn lost(key: &Key, max_hold: Option<MaxHold>, now: Moment) -> Error {
    match max_hold.filter(|max_hold| max_hold.end <= now) {
        Some(MaxHold { time, .. }) => {
            let message =
                format!("the lock was lost: its max_hold of {time:?} is over, and another client might hold it now");
            Error::new(ErrorKind::Lost, message).at(key)
        }
        None => Error::lost(key),
    }
}

impl Turn {
    pub(crate) fn key(&self) -> &Key {
        &self.slot.key
    }

    pub(crate) fn check_held(&self) -> Result<()> {
        self.client.check_process().map_err(|error| error.at(self.key()))?;
        let now = self.client.clock().now();
        match self.status.state(now) {
            TurnState::Held { .. } | TurnState::Released => Ok(()),
            TurnState::Lost => Err(lost(self.key(), self.max_hold, now)),
            TurnState::Closed => Err(Error::closed().at(self.key())),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(owner) = &self.owner {
            owner.forget(self.key(), self.slot.lane);
        }
        let (slot, report) = (self.slot.clone(), self.report.take());
        self.client.turn_ended(slot, self.hold, self.ticket, report);
    }
}

/// The turns and the waiting calls of one [`crate::Owner`].
pub(crate) struct OwnerTurns {
    pub(crate) client: ClientId,
    /// Claims of other clients that are held on behalf of this owner, until the owner's process ends.
    pub(crate) inherited: Vec<ClaimId>,
    /// The thread whose calls belong to this owner, as text. `None` if the owner was created explicitly.
    pub(crate) thread: Option<String>,
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
    /// The kind that the call asks for.
    kind: Kind,
    /// Whether a turn of this call lasts until its guards are dropped. If not, it has a fixed lease or a maximum duration.
    lasts: bool,
    /// The owner's turn, if the engine has let this call share the turn and the call has not taken it yet.
    turn: Option<Arc<Turn>>,
}

impl OwnerTurns {
    /// An owner on whose behalf other clients hold the claims `inherited`.
    pub(crate) fn new(client: ClientId, inherited: Vec<ClaimId>, thread: Option<String>) -> Arc<Self> {
        Arc::new(Self { client, inherited, thread, locks: Mutex::default() })
    }

    /// Returns the turn that this owner has of the lock. If there is no turn, adds the call to the owner's waiting calls.
    /// [`Self::call_ended`] removes the call.
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
        !self.inherited.is_empty() || self.locks().len() > 1
    }

    /// The claims by which the owner holds locks, without those that end by themselves. While a call of the owner waits,
    /// the owner releases none of them.
    pub(crate) fn lasting_claims(&self, now: Moment) -> Vec<ClaimId> {
        // The turn itself is not used here, for the reason that [`Self::share`] names.
        let lasting = |entry: &LockEntry| {
            let (number, status) = entry.lasting.as_ref().filter(|_| entry.turn.strong_count() > 0)?;
            let is_held = matches!(status.state(now), TurnState::Held { .. });
            is_held.then_some(ClaimId { client: self.client, number: *number })
        };
        let own: Vec<_> = self.locks().values().filter_map(lasting).collect();
        own.into_iter().chain(self.inherited.iter().copied()).collect()
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
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
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
