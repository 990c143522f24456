//! The local queue of one key: the calls of this client that wait for the key.

use std::collections::{BTreeMap, BTreeSet};

use bandog_core::{Kind, Moment};

use crate::{
    engine::call::{Call, Wait},
    terms::{Patience, Terms, Ticket},
};

/// The waiting calls, ordered by ticket. This is also the order of their arrival.
#[derive(Default)]
pub(super) struct Queue {
    /// The oldest call. Most queues have only one call, so this call needs no map.
    first: Option<Box<Call>>,
    /// The other calls. They are boxed, because a node of the map has room for eleven values.
    others: BTreeMap<Ticket, Box<Call>>,
    /// The `try_lock` calls. Each of them ends with the first answer of the store.
    try_locks: BTreeSet<Ticket>,
    /// When the next timeout or check of each call is due.
    due: BTreeSet<(Moment, Ticket)>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    /// Adds a call, with the times of its wait.
    pub(super) fn insert(&mut self, mut call: Box<Call>, wait: Wait) {
        let (ticket, scheduled) = (call.ticket, wait.next_due());
        call.wait = Wait { scheduled, ..wait };
        self.due.extend(scheduled.map(|moment| (moment, ticket)));
        if matches!(call.patience, Patience::Once) {
            self.try_locks.insert(ticket);
        }
        match &self.first {
            Some(first) if first.ticket < ticket => _ = self.others.insert(ticket, call),
            _ => self.others.extend(self.first.replace(call).map(|first| (first.ticket, first))),
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Box<Call>> {
        let call = match self.first.take_if(|first| first.ticket == ticket) {
            Some(call) => {
                self.first = self.others.pop_first().map(|(_, next)| next);
                call
            }
            None => self.others.remove(&ticket)?,
        };
        self.try_locks.remove(&ticket);
        if let Some(moment) = call.wait.scheduled {
            self.due.remove(&(moment, ticket));
        }
        if self.is_empty() {
            // An empty map keeps its last node. With many slots these nodes would use much memory.
            *self = Self::default();
        }
        Some(call)
    }

    /// Removes the oldest call.
    pub(super) fn remove_first(&mut self) -> Option<Box<Call>> {
        self.remove(self.first.as_ref()?.ticket)
    }

    pub(super) fn first(&self) -> Option<&Call> {
        self.first.as_deref()
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&Call> {
        match &self.first {
            Some(first) if first.ticket == ticket => Some(first),
            _ => self.others.get(&ticket).map(AsRef::as_ref),
        }
    }

    /// The calls, the oldest first.
    fn iter(&self) -> impl Iterator<Item = &Call> {
        self.first.as_deref().into_iter().chain(self.others.values().map(AsRef::as_ref))
    }

    /// The calls with these terms, the oldest first.
    pub(super) fn with_terms(&self, terms: Terms) -> Vec<Ticket> {
        self.iter().filter(|call| call.terms == terms).map(|call| call.ticket).collect()
    }

    /// The calls of this kind, the oldest first.
    pub(super) fn of_kind(&self, kind: Kind) -> Vec<Ticket> {
        self.iter().filter(|call| call.terms.kind == kind).map(|call| call.ticket).collect()
    }

    /// The number of calls at the head of the queue that have these terms, counted up to `limit`.
    pub(super) fn first_with_terms(&self, terms: Terms, limit: usize) -> usize {
        self.iter().take(limit).take_while(|call| call.terms == terms).count()
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
        last.or_else(|| self.first.as_ref().map(|first| first.ticket))
    }

    /// Lets the last refusal count only for the call `covered` and for earlier calls. If `covered` is `None`, the
    /// refusal counts for no call. Returns when the first of the other calls times out.
    pub(super) fn ignore_last_refusal(&mut self, covered: Option<Ticket>) -> Option<Moment> {
        let from = covered.map_or(0, |ticket| ticket + 1);
        let first = self.first.as_mut().filter(|first| first.ticket >= from);
        let others = self.others.range_mut(from..).map(|(_, call)| call);
        first.into_iter().chain(others).fold(None, |first_end, call| {
            call.wait.refusals_before += 1;
            [first_end, call.wait.until].into_iter().flatten().min()
        })
    }

    /// Removes and returns the oldest `try_lock` call, unless it arrived later than the call `up_to`.
    pub(super) fn remove_try_lock(&mut self, up_to: Ticket) -> Option<Box<Call>> {
        let first = self.try_locks.first().copied().filter(|first| *first <= up_to)?;
        self.remove(first)
    }

    /// Removes all `try_lock` calls that meet the condition.
    pub(super) fn remove_try_locks(&mut self, condition: impl Fn(&Call) -> bool) -> impl Iterator<Item = Box<Call>> {
        let meets = |ticket: &Ticket| self.get(*ticket).is_some_and(&condition);
        let tickets: Vec<_> = self.try_locks.iter().copied().filter(meets).collect();
        tickets.into_iter().filter_map(|ticket| self.remove(ticket))
    }

    /// Changes the wait of a call, and updates its entry in `due`.
    pub(super) fn change(&mut self, ticket: Ticket, change: impl FnOnce(&mut Wait)) {
        let call = match &mut self.first {
            Some(first) if first.ticket == ticket => Some(first),
            _ => self.others.get_mut(&ticket),
        };
        let Some(Call { wait, .. }) = call.map(AsMut::as_mut) else { return };
        change(wait);
        let next = wait.next_due();
        if next == wait.scheduled {
            return;
        }
        if let Some(moment) = std::mem::replace(&mut wait.scheduled, next) {
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
