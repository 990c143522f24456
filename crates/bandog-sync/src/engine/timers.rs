//! The engine's timers, in an ordered set. A cancelled timer is removed from the set immediately, so that cancelled
//! timers do not use memory.

use std::collections::BTreeSet;

use bandog_core::Moment;

use crate::{lane::SlotId, terms::Ticket};

/// The purpose of a timer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A release must be sent again.
    Releases,
    /// A slot has reached the moment of [`super::slot::Slot::next_due`].
    Slot(SlotId),
    /// A subscription to a record or a latch must be retried, or the subscriber of a latch must poll.
    RecordSubscriber(Ticket),
    /// A registration of the client is due.
    Registration,
    /// Callers of `health()` have waited long enough for a ping.
    Health,
    /// A search for deadlocks is due.
    Deadlocks,
}

#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Moment, Timer)>);

impl Timers {
    /// Moves the timer from the moment in `set` to the moment `to`. In both parameters, `None` means that the timer is
    /// not set. The owner of the timer keeps `set`. The owner must clear `set` when the timer fires. Before the owner
    /// drops `set`, the owner must call this function with `to` = `None`.
    pub(super) fn set(&mut self, timer: Timer, set: &mut Option<Moment>, to: Option<Moment>) {
        if *set == to {
            return;
        }
        if let Some(before) = *set {
            self.0.remove(&(before, timer.clone()));
        }
        *set = to;
        if let Some(moment) = to {
            self.0.insert((moment, timer));
        }
    }

    pub(super) fn nearest(&self) -> Option<Moment> {
        self.0.first().map(|(moment, _)| *moment)
    }

    /// Takes the first timer that is due.
    pub(super) fn due(&mut self, now: Moment) -> Option<Timer> {
        if self.nearest()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}
