//! The engine's timers: an ordered set, from which a cancelled timer is removed exactly, so that none pile up.

use std::collections::BTreeSet;

use bandog_core::{Key, Moment};

use super::msg::Ticket;

/// The purpose of a timer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A release to send again.
    Releases,
    /// [`super::slot::Slot::next_due`].
    Slot(Key),
    /// A subscription to a record, to retry.
    RecordSubscriber(Ticket),
    /// The client's next registration.
    Registration,
    /// Callers that time out waiting for a ping.
    Health,
}

#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Moment, Timer)>);

impl Timers {
    /// Moves the timer from the moment in `set` to `to`; `None` means not set. The timer's owner keeps `set`: it clears
    /// it when the timer fires, and sets the timer to `None` before it is dropped.
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
