//! What a turn and its engine share: until when it is held, and how it ended.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire},
    },
    time::Duration,
};

use bandog_core::Moment;
use tokio::sync::{Notify, futures::OwnedNotified};

const LOST: u64 = 0;
const CLOSED: u64 = u64::MAX;
const RELEASED: u64 = u64::MAX - 1;

/// One turn's state. It is read without asking the engine, and once it is lost it stays so. Moments of a clock are
/// never zero and centuries below the largest number, so they never look like one of the three words above.
#[derive(Debug)]
pub(crate) struct TurnStatus {
    /// The deadline in nanoseconds, or `LOST`, `CLOSED` or `RELEASED`.
    state: AtomicU64,
    changed: Arc<Notify>,
}

/// How a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Held {
        until: Moment,
    },
    Lost,
    Closed,
    /// It was given back while it was held, so it can never be lost.
    Released,
}

impl TurnStatus {
    pub(crate) fn held_until(until: Moment) -> Self {
        Self { state: AtomicU64::new(until.as_nanos()), changed: Arc::default() }
    }

    /// How the turn stands at this moment. Whoever reads a deadline that has passed makes it final.
    pub(crate) fn standing(&self, now: Moment) -> Standing {
        let read = self.state.load(Acquire);
        match decode(read) {
            Standing::Held { until } if now >= until => {
                match self.state.compare_exchange(read, LOST, AcqRel, Acquire) {
                    Ok(_) => Standing::Lost,
                    Err(newer) => decode(newer),
                }
            }
            standing => standing,
        }
    }

    /// Moves the deadline, unless the turn has ended. False if it has.
    pub(crate) fn extend(&self, until: Moment) -> bool {
        let later = |state| match decode(state) {
            Standing::Held { until: before } => Some(until.max(before).as_nanos()),
            Standing::Lost | Standing::Closed | Standing::Released => None,
        };
        self.state.fetch_update(AcqRel, Acquire, later).is_ok()
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

    /// Lets everybody who waits on this turn look again.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Resolves at the next wake after this call.
    pub(crate) fn woken(&self) -> OwnedNotified {
        Arc::clone(&self.changed).notified_owned()
    }

    /// How long the turn lasts from this moment on.
    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        match self.standing(now) {
            Standing::Held { until } => until.since(now),
            Standing::Lost | Standing::Closed | Standing::Released => Duration::ZERO,
        }
    }

    fn end(&self, how: u64) {
        let ended = |state| match decode(state) {
            Standing::Held { .. } => Some(how),
            Standing::Lost | Standing::Closed | Standing::Released => None,
        };
        // It may have ended already; those who wait are told all the same.
        let _ = self.state.fetch_update(AcqRel, Acquire, ended);
        self.wake();
    }
}

fn decode(state: u64) -> Standing {
    match state {
        LOST => Standing::Lost,
        CLOSED => Standing::Closed,
        RELEASED => Standing::Released,
        nanos => Standing::Held { until: Moment::from_nanos(nanos) },
    }
}
