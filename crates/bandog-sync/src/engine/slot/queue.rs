//! The local queue of one key: the calls of this client that wait for the key.

use std::collections::{BTreeMap, BTreeSet};

use bandog_core::{Kind, Moment};

use super::earlier;
use crate::{
    caller::Caller,
    terms::{Terms, Ticket},
};

/// A call that waits for the key. `C` is where the answer to the call goes.
pub(in crate::engine) struct Waiter<C> {
    /// Where the answer to the call goes.
    pub(in crate::engine) call: C,
    /// The task or thread from which the call came.
    pub(super) caller: Caller,
    pub(super) terms: Terms,
    /// Number of refusals (see [`super::Slot::refusals`]) that do not count for this call, because they happened before
    /// the call arrived.
    pub(super) refusals_before: u64,
    /// When the call arrived.
    pub(super) since: Moment,
    /// When the call times out. `None` for a call without a limit.
    pub(super) until: Option<Moment>,
    /// The call also times out at this moment if the store has never answered this client by then.
    pub(super) first_answer_by: Option<Moment>,
    /// When to check whether the call waits for a lock that its own task holds.
    pub(super) deadlock_check: Option<Moment>,
    /// The moment of this call's entry in `Queue::due`, if it has one.
    scheduled: Option<Moment>,
}

impl<C> Waiter<C> {
    pub(super) fn new(call: C, caller: Caller, terms: Terms, refusals_before: u64, since: Moment) -> Self {
        let (until, first_answer_by, deadlock_check, scheduled) = (None, None, None, None);
        Self { call, caller, terms, refusals_before, since, until, first_answer_by, deadlock_check, scheduled }
    }

    pub(super) fn has_timed_out(&self, now: Moment) -> bool {
        [self.until, self.first_answer_by].into_iter().flatten().any(|limit| now >= limit)
    }

    fn next_due(&self) -> Option<Moment> {
        earlier(earlier(self.until, self.first_answer_by), self.deadlock_check)
    }
}

/// The waiting calls, ordered by ticket. This is also the order of their arrival.
pub(super) struct Queue<C> {
    /// The oldest call. Most queues have only one call, so this call needs no map.
    first: Option<(Ticket, Box<Waiter<C>>)>,
    /// The other calls. They are boxed, because a node of the map has room for eleven values.
    others: BTreeMap<Ticket, Box<Waiter<C>>>,
    /// The `try_lock` calls. Each of them ends with the first answer of the store.
    try_locks: BTreeSet<Ticket>,
    /// When the next timeout or check of each call is due.
    due: BTreeSet<(Moment, Ticket)>,
}

impl<C> Default for Queue<C> {
    fn default() -> Self {
        Self { first: None, others: BTreeMap::new(), try_locks: BTreeSet::new(), due: BTreeSet::new() }
    }
}

impl<C> Queue<C> {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    pub(super) fn insert(&mut self, ticket: Ticket, mut waiter: Waiter<C>, is_try_lock: bool) {
        waiter.scheduled = waiter.next_due();
        self.due.extend(waiter.scheduled.map(|moment| (moment, ticket)));
        let waiter = Box::new(waiter);
        match &self.first {
            Some((first, _)) if *first < ticket => _ = self.others.insert(ticket, waiter),
            _ => self.others.extend(self.first.replace((ticket, waiter))),
        }
        if is_try_lock {
            self.try_locks.insert(ticket);
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Box<Waiter<C>>> {
        let waiter = match self.first.take_if(|(first, _)| *first == ticket) {
            Some((_, waiter)) => {
                self.first = self.others.pop_first();
                waiter
            }
            None => self.others.remove(&ticket)?,
        };
        self.try_locks.remove(&ticket);
        if let Some(moment) = waiter.scheduled {
            self.due.remove(&(moment, ticket));
        }
        if self.is_empty() {
            // An empty map keeps its last node. With many slots these nodes would use much memory.
            *self = Self::default();
        }
        Some(waiter)
    }

    /// Removes the oldest call.
    pub(super) fn remove_first(&mut self) -> Option<(Ticket, Box<Waiter<C>>)> {
        let ticket = self.first.as_ref()?.0;
        Some((ticket, self.remove(ticket)?))
    }

    pub(super) fn first(&self) -> Option<&Waiter<C>> {
        self.first.as_ref().map(|(_, waiter)| waiter.as_ref())
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&Waiter<C>> {
        match &self.first {
            Some((first, waiter)) if *first == ticket => Some(waiter),
            _ => self.others.get(&ticket).map(AsRef::as_ref),
        }
    }

    /// The calls, the oldest first.
    fn iter(&self) -> impl Iterator<Item = (Ticket, &Waiter<C>)> {
        let first = self.first.iter().map(|(ticket, waiter)| (*ticket, waiter.as_ref()));
        first.chain(self.others.iter().map(|(ticket, waiter)| (*ticket, waiter.as_ref())))
    }

    /// The calls with these terms, the oldest first.
    pub(super) fn with_terms(&self, terms: Terms) -> Vec<Ticket> {
        self.iter().filter(|(_, waiter)| waiter.terms == terms).map(|(ticket, _)| ticket).collect()
    }

    /// The calls of this kind, the oldest first.
    pub(super) fn of_kind(&self, kind: Kind) -> Vec<Ticket> {
        self.iter().filter(|(_, waiter)| waiter.terms.kind == kind).map(|(ticket, _)| ticket).collect()
    }

    /// The number of calls at the head of the queue that have these terms, counted up to `limit`.
    pub(super) fn first_with_terms(&self, terms: Terms, limit: usize) -> usize {
        self.iter().take(limit).take_while(|(_, waiter)| waiter.terms == terms).count()
    }

    /// Whether a call waits that is not a `try_lock` call.
    pub(super) fn has_patient_calls(&self) -> bool {
        self.len() > self.try_locks.len()
    }

    pub(super) fn has_try_locks(&self) -> bool {
        !self.try_locks.is_empty()
    }

    /// The newest call.
    pub(super) fn last(&self) -> Option<Ticket> {
        let last = self.others.last_key_value().map(|(ticket, _)| *ticket);
        last.or_else(|| self.first.as_ref().map(|(ticket, _)| *ticket))
    }

    /// Lets the last refusal count only for the call `covered` and for earlier calls. If `covered` is `None`, the
    /// refusal counts for no call. Returns when the first of the other calls times out.
    pub(super) fn ignore_last_refusal(&mut self, covered: Option<Ticket>) -> Option<Moment> {
        let from = covered.map_or(0, |ticket| ticket + 1);
        let first = self.first.as_mut().filter(|(first, _)| *first >= from).map(|(_, waiter)| waiter);
        let others = self.others.range_mut(from..).map(|(_, waiter)| waiter);
        first.into_iter().chain(others).fold(None, |first_end, waiter| {
            waiter.refusals_before += 1;
            earlier(first_end, waiter.until)
        })
    }

    /// Removes and returns the oldest `try_lock` call, unless it arrived later than the call `up_to`.
    pub(super) fn remove_try_lock(&mut self, up_to: Ticket) -> Option<Box<Waiter<C>>> {
        let first = self.try_locks.first().copied().filter(|first| *first <= up_to)?;
        self.remove(first)
    }

    /// Removes all `try_lock` calls that meet the condition.
    pub(super) fn remove_try_locks(&mut self, condition: impl Fn(&C) -> bool) -> Vec<Box<Waiter<C>>> {
        let meets = |ticket: &Ticket| self.get(*ticket).is_some_and(|waiter| condition(&waiter.call));
        let tickets: Vec<_> = self.try_locks.iter().copied().filter(meets).collect();
        tickets.into_iter().filter_map(|ticket| self.remove(ticket)).collect()
    }

    /// Changes a waiting call, and updates its entry in `due`.
    pub(super) fn change(&mut self, ticket: Ticket, change: impl FnOnce(&mut Waiter<C>)) {
        let waiter = match &mut self.first {
            Some((first, waiter)) if *first == ticket => Some(waiter),
            _ => self.others.get_mut(&ticket),
        };
        let Some(waiter) = waiter else { return };
        change(waiter);
        let next = waiter.next_due();
        if next == waiter.scheduled {
            return;
        }
        if let Some(moment) = std::mem::replace(&mut waiter.scheduled, next) {
            self.due.remove(&(moment, ticket));
        }
        self.due.extend(next.map(|moment| (moment, ticket)));
    }

    /// When the next timeout or check is due.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|(moment, _)| *moment)
    }

    /// A call whose timeout or check is due.
    pub(super) fn due(&self, now: Moment) -> Option<Ticket> {
        self.due.first().filter(|(moment, _)| *moment <= now).map(|(_, ticket)| *ticket)
    }
}
