//! What is due when: an ordered set, from which a timer is taken exactly, so that nothing piles up.

use std::collections::BTreeSet;

use bandog_core::{Key, Moment};

use super::msg::{HoldId, Ticket};

/// Whom a timer wakes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A hold to renew, to warn of, or to lose.
    Hold(HoldId),
    /// A release to send again.
    PendingRelease(HoldId),
    /// A key to look at again.
    Slot(Key),
    /// A call that may wait for itself. It comes before the end of the call's patience.
    Suspect(Key, Ticket),
    /// A call whose time is up.
    Ticket(Key, Ticket),
    /// A record to be heard, after a fault.
    RecordSubscriber(Ticket),
    /// The registry to tell of this client again.
    Registration,
    /// Callers that have waited long enough for a ping.
    Health,
}

#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Moment, Timer)>);

impl Timers {
    /// Sets the timer from one moment to another; `None` is not set. `set` is where its owner keeps the moment: whoever
    /// is woken clears it, and whoever ends sets the timer to `None` before.
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
