//! The status that the engine shares with the guards of a turn: the deadline of the turn, or how the turn ended. A
//! *turn* begins when a call gets the lock, and ends when the last guard of the turn is dropped.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire},
    },
    time::Duration,
};

use bandog_core::Moment;
use tokio::sync::{Notify, futures::OwnedNotified};

use crate::process::HomeProcess;

const LOST: u64 = 0;
const CLOSED: u64 = u64::MAX;
const RELEASED: u64 = u64::MAX - 1;

/// The status of one turn. A guard reads the status without a message to the engine. A turn that is lost stays lost.
///
/// The status is one number. A deadline in nanoseconds is never zero, and the two largest numbers are centuries in the
/// future. So a deadline never equals `LOST`, `CLOSED` or `RELEASED`, which record the end of the turn.
#[derive(Debug)]
pub(crate) struct TurnStatus {
    /// The deadline in nanoseconds, or `LOST`, `CLOSED` or `RELEASED`.
    encoded: AtomicU64,
    /// The process that has the lock.
    process: HomeProcess,
    /// Wakes the waiters of this status. `None` until the first of them, because most turns have no waiter.
    changed: Mutex<Option<Arc<Notify>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnState {
    Held {
        until: Moment,
    },
    Lost,
    Closed,
    /// The guards have released the turn. A released turn never becomes lost.
    Released,
}

impl TurnStatus {
    pub(crate) fn held_until(until: Moment) -> Self {
        let (encoded, process) = (AtomicU64::new(until.as_nanos()), HomeProcess::current());
        Self { encoded, process, changed: Mutex::default() }
    }

    /// The state that a user of the lock sees: [`Self::state`], and lost in a child that was forked from the process of
    /// the lock.
    pub(crate) fn seen(&self, now: Moment) -> TurnState {
        if self.process.was_left() { TurnState::Lost } else { self.state(now) }
    }

    /// The state at this moment. If the deadline has passed, this call also marks the turn as lost, so that a later
    /// renewal cannot save the turn.
    pub(crate) fn state(&self, now: Moment) -> TurnState {
        let read = self.encoded.load(Acquire);
        match decode(read) {
            TurnState::Held { until } if now >= until => {
                match self.encoded.compare_exchange(read, LOST, AcqRel, Acquire) {
                    Ok(_) => TurnState::Lost,
                    Err(newer) => decode(newer),
                }
            }
            state => state,
        }
    }

    /// Moves the deadline, unless the turn has ended. Returns whether the deadline was moved.
    pub(crate) fn move_deadline(&self, until: Moment) -> bool {
        let moved = |state| match decode(state) {
            TurnState::Held { .. } => Some(until.as_nanos()),
            TurnState::Lost | TurnState::Closed | TurnState::Released => None,
        };
        let Ok(before) = self.encoded.fetch_update(AcqRel, Acquire, moved) else { return false };
        if until.as_nanos() < before {
            self.wake(); // Otherwise, waiters that sleep until the old deadline would wake up too late.
        }
        true
    }

    pub(crate) fn lose(&self) {
        self.end(LOST);
    }

    pub(crate) fn close(&self) {
        self.end(CLOSED);
    }

    pub(crate) fn release(&self) {
        self.end(RELEASED);
    }

    /// Wakes all waiters of this status, so that they read the status again.
    pub(crate) fn wake(&self) {
        let changed = self.changed().clone();
        if let Some(changed) = changed {
            changed.notify_waiters();
        }
    }

    /// A future that resolves when [`Self::wake`] is called after this call.
    pub(crate) fn woken(&self) -> OwnedNotified {
        Arc::clone(self.changed().get_or_insert_default()).notified_owned()
    }

    fn changed(&self) -> MutexGuard<'_, Option<Arc<Notify>>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time until the deadline. Zero if the turn has ended.
    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        match self.seen(now) {
            TurnState::Held { until } => until.since(now),
            TurnState::Lost | TurnState::Closed | TurnState::Released => Duration::ZERO,
        }
    }

    /// Ends the turn. `how` is `LOST`, `CLOSED` or `RELEASED`.
    fn end(&self, how: u64) {
        let ended = |state| match decode(state) {
            TurnState::Held { .. } => Some(how),
            TurnState::Lost | TurnState::Closed | TurnState::Released => None,
        };
        // If the turn has already ended, nothing changes. The waiters are woken in both cases.
        let _ = self.encoded.fetch_update(AcqRel, Acquire, ended);
        self.wake();
    }
}

fn decode(state: u64) -> TurnState {
    match state {
        LOST => TurnState::Lost,
        CLOSED => TurnState::Closed,
        RELEASED => TurnState::Released,
        nanos => TurnState::Held { until: Moment::from_nanos(nanos) },
    }
}
