//! Finds deadlocks between locks: circles of owners in which each owner waits for a lock that the next owner holds.
//!
//! A call is *blocked* if it has waited for [`BLOCKED_AFTER`] without a time limit while its owner holds other locks.
//! Those locks do not end by themselves, and the owner does not release them before the call has ended. So a circle of
//! blocked calls lasts until one of the calls ends without its lock.
//!
//! # The search
//! While a client has blocked calls, it publishes them in its row of the registry ([`bandog_core::BlockedCalls`]), and
//! searches: which claims hold the locks for which its calls wait, and which published calls belong to the owners of
//! these claims ([`waits`]). Each client finds the deadlocks of its own calls.
//!
//! # No false report
//! The rows are read one after another, and a row can be old, or belong to a client that has died. So a circle counts
//! only if it is found twice, with the same calls and the same claims, and if each of the other clients has written its
//! row again in between: after it had read a row that this client wrote after the first search. The numbers of rows and
//! [`bandog_core::BlockedCalls::seen`] show this. So at the end of the first search, each call of the circle waited, and
//! each owner held its lock: an owner that is in the same call before and after that moment has released nothing.
//!
//! # All members report
//! When a client has found a deadlock, its call leaves the queue of the lock, but does not return yet. If the call
//! returned at once, its owner could release its locks, and the other members would never learn of the deadlock. So the
//! client first publishes the deadlock with the ids of all calls. A member whose call is named has found the deadlock,
//! too. The call returns when each other member has published the deadlock or no longer publishes its call, and after
//! [`MAX_LINGER`] at the latest.

pub(in crate::engine) mod state;
pub(in crate::engine) mod waits;

use std::time::Duration;

use bandog_core::{BlockedCall, ClaimId, Error, ErrorKind, Moment, Result};

use self::{
    state::{Blocked, Deadlocks, NewCall, Sighting, Stage},
    waits::{CircleCall, Waits, describe},
};
use super::{actor::Engine, timers::Timer};
use crate::{
    Owner,
    lane::{Lane, SlotId},
    terms::Ticket,
};

/// A call that waits for this time is blocked, if its owner holds other locks.
const BLOCKED_AFTER: Duration = Duration::from_millis(500);
/// Interval between two searches of a client with blocked calls.
const SEARCH_INTERVAL: Duration = Duration::from_millis(400);
/// Minimum time between the two searches that find the same circle, and the interval of searches after the first one.
const CONFIRM_AFTER: Duration = Duration::from_millis(300);
/// Interval of searches while a call lingers.
const LINGER_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time for which a call lingers: the client has found its deadlock, and the call has not returned yet.
const MAX_LINGER: Duration = Duration::from_millis(700);
/// The interval of searches is at least this many times as long as a search, to limit the load on the store.
const LOAD_FACTOR: u32 = 10;

impl Engine {
    /// Called for a call that has just arrived, if its owner may hold other locks.
    pub(super) fn watch_for_deadlock(&mut self, slot: &SlotId, ticket: Ticket, owner: Owner) {
        if !self.waits(slot, ticket) {
            return;
        }
        let blocked_at = self.cx.now + BLOCKED_AFTER;
        self.deadlocks.new.push_back(NewCall { ticket, slot: slot.clone(), owner, blocked_at });
        self.search_by(blocked_at);
    }

    fn waits(&self, slot: &SlotId, ticket: Ticket) -> bool {
        self.slots.get(slot).is_some_and(|entry| entry.slot.has_call(ticket))
    }

    /// Plans the next search for this moment, unless an earlier moment is planned already.
    fn search_by(&mut self, moment: Moment) {
        let timer = &mut self.deadlocks.timer;
        let earlier = timer.map_or(moment, |set| set.min(moment));
        self.timers.set(Timer::Deadlocks, timer, Some(earlier));
    }

    /// Publishes the blocked calls and searches, if there are any.
    pub(super) fn search_is_due(&mut self, now: Moment) {
        self.deadlocks.timer = None;
        self.update_blocked(now);
        self.end_overdue(now);
        self.plan_for_new_calls();
        if self.deadlocks.has_lingering() {
            self.search_by(now + LINGER_INTERVAL); // The calls return in time also if the search gets no answer.
        }
        if self.deadlocks.is_empty() || self.deadlocks.searching_since.is_some() {
            return; // The answer to the search in flight plans the next one.
        }
        if let Some(moment) = self.deadlocks.not_before.filter(|moment| now < *moment) {
            return self.search_by(moment);
        }
        let was_published = !self.registration.member().blocked.calls.is_empty();
        if was_published || !self.blocked_calls().is_empty() {
            self.register_now();
        }
        let own = self.registration.member().clone();
        if own.blocked.calls.is_empty() {
            return self.search_by(now + SEARCH_INTERVAL); // No owner of these calls holds another lock.
        }
        self.deadlocks.searching_since = Some(now);
        self.calls.search_deadlocks(own);
    }

    /// Ends the calls that have lingered for [`MAX_LINGER`].
    fn end_overdue(&mut self, now: Moment) {
        let is_overdue =
            |call: &Blocked| matches!(call.stage, Stage::Lingering { since, .. } if now.since(since) >= MAX_LINGER);
        let overdue: Vec<_> = self.deadlocks.blocked.iter().filter(|(_, call)| is_overdue(call)).collect();
        let tickets: Vec<_> = overdue.into_iter().map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            self.report_deadlock(ticket);
        }
    }

    fn plan_for_new_calls(&mut self) {
        if let Some(first) = self.deadlocks.new.front() {
            self.search_by(first.blocked_at);
        }
    }

    /// Adds the calls that are blocked now, and removes those that have ended.
    fn update_blocked(&mut self, now: Moment) {
        while let Some(first) = self.deadlocks.new.front() {
            let has_ended = !self.waits(&first.slot, first.ticket);
            if !has_ended && first.blocked_at > now {
                break;
            }
            let Some(NewCall { ticket, slot, owner, .. }) = self.deadlocks.new.pop_front() else { break };
            if !has_ended {
                self.deadlocks.blocked.insert(ticket, Blocked { slot, owner, stage: Stage::Waiting(None) });
            }
        }
        let mut blocked = std::mem::take(&mut self.deadlocks.blocked);
        blocked.retain(|ticket, call| match &call.stage {
            Stage::Waiting(_) => self.waits(&call.slot, *ticket),
            Stage::Lingering { call, .. } => !call.has_gone(),
        });
        self.deadlocks.blocked = blocked;
    }

    /// The blocked calls, as they are published. A call whose owner holds no lock that lasts is left out.
    fn blocked_calls(&self) -> Vec<BlockedCall> {
        let now = self.cx.now;
        let publish = |(ticket, call): (&Ticket, &Blocked)| {
            let holds = call.owner.turns().lasting_claims(now);
            let deadlock = match &call.stage {
                Stage::Waiting(_) if !self.waits(&call.slot, *ticket) => return None,
                Stage::Waiting(_) => Vec::new(),
                Stage::Lingering { circle, .. } => circle.iter().map(|call| call.id).collect(),
            };
            let SlotId { key, lane } = &call.slot;
            let (id, is_reader) = (self.call_id(*ticket), matches!(lane, Lane::Read));
            let is_published = !holds.is_empty() || !deadlock.is_empty();
            is_published.then(|| BlockedCall { id, key: key.clone(), is_reader, holds, deadlock })
        };
        let mut calls: Vec<_> = self.deadlocks.blocked.iter().filter_map(publish).collect();
        // The other members of a deadlock wait for the calls that linger, and a row has room for a few calls only.
        calls.sort_by_key(|call| call.deadlock.is_empty());
        calls
    }

    fn call_id(&self, ticket: Ticket) -> ClaimId {
        ClaimId { client: self.client, number: ticket }
    }

    /// Updates the blocked calls that the next row publishes. Each row gets a new number.
    pub(super) fn publish_blocked(&mut self) {
        let calls = self.blocked_calls();
        let Deadlocks { round, seen, .. } = &mut self.deadlocks;
        let published = &mut self.registration.member_mut().blocked;
        if !calls.is_empty() {
            *round += 1;
            (published.round, published.seen) = (*round, seen.clone());
        }
        published.calls = calls;
    }

    /// Handles the result of a search.
    pub(super) fn searched(&mut self, result: Result<Waits>) {
        let now = self.cx.now;
        let began = self.deadlocks.searching_since.take().unwrap_or(now);
        self.update_blocked(now);
        let has_news = match result {
            Ok(waits) => self.judge_calls(&waits),
            Err(error) => {
                tracing::debug!(%error, "a search for deadlocks failed");
                self.forget_sightings();
                false
            }
        };
        if has_news {
            self.register_now(); // The other members of the deadlock wait for this row.
        }
        self.plan_for_new_calls();
        if self.deadlocks.is_empty() {
            return;
        }
        let mut stages = self.deadlocks.blocked.values().map(|call| &call.stage);
        let pause = if self.deadlocks.has_lingering() {
            LINGER_INTERVAL
        } else if stages.any(|stage| matches!(stage, Stage::Waiting(Some(_)))) {
            CONFIRM_AFTER
        } else {
            SEARCH_INTERVAL.max(now.since(began) * LOAD_FACTOR)
        };
        self.deadlocks.not_before = Some(now + pause);
        self.search_by(now + pause);
    }

    fn forget_sightings(&mut self) {
        for call in self.deadlocks.blocked.values_mut() {
            if let Stage::Waiting(sighting) = &mut call.stage {
                *sighting = None;
            }
        }
    }

    /// Decides for each blocked call whether it is part of a deadlock, and whether it returns now. Returns whether the
    /// other members must read something new.
    fn judge_calls(&mut self, waits: &Waits) -> bool {
        let now = self.cx.now;
        self.deadlocks.seen = waits.rounds();
        let next_round = self.deadlocks.round + 1;
        let mut has_news = false;
        let tickets: Vec<_> = self.deadlocks.blocked.keys().copied().collect();
        for ticket in &tickets {
            let id = self.call_id(*ticket);
            let Some(Blocked { stage: Stage::Waiting(sighting), .. }) = self.deadlocks.blocked.get_mut(ticket) else {
                continue;
            };
            let circle = waits.circle(id);
            let is_known = circle.is_some() && circle.as_ref() == sighting.as_ref().map(|sighting| &sighting.circle);
            match (circle, &sighting) {
                (Some(circle), before) if is_deadlock(&circle, before.as_ref().filter(|_| is_known), waits, now) => {
                    self.linger(&circle);
                    has_news = true;
                }
                (Some(_), Some(_)) if is_known => {}
                (Some(circle), _) => {
                    *sighting = Some(Sighting { circle, at: now, round: next_round });
                    has_news = true;
                }
                (None, _) => *sighting = None,
            }
        }
        for ticket in tickets {
            has_news |= self.end_lingering(ticket, waits);
        }
        has_news
    }

    /// Takes the calls of a deadlock that belong to this client out of their slots.
    fn linger(&mut self, circle: &[CircleCall]) {
        let (now, client) = (self.cx.now, self.client);
        for (index, member) in circle.iter().enumerate().filter(|(_, member)| member.id.client == client) {
            let ticket = member.id.number;
            let Some(slot) = self.deadlocks.blocked.get(&ticket).map(|call| call.slot.clone()) else { continue };
            let Some(call) = self.change(&slot, |slot, cx| slot.take_call(ticket, cx)).flatten() else { continue };
            // The circle as this call sees it: it begins with the call itself.
            let circle =
                circle[index..].iter().chain(&circle[..index]).map(|member| self.with_thread(member)).collect();
            if let Some(blocked) = self.deadlocks.blocked.get_mut(&ticket) {
                blocked.stage = Stage::Lingering { call, circle, since: now };
            }
        }
    }

    /// The call, with the name of its thread if the call is a blocking call of this client.
    fn with_thread(&self, call: &CircleCall) -> CircleCall {
        let own = (call.id.client == self.client).then_some(call.id.number);
        let thread = own.and_then(|ticket| self.deadlocks.blocked.get(&ticket)?.owner.thread());
        let client = thread.map_or_else(|| call.client.clone(), |thread| format!("{thread} of this client"));
        CircleCall { client, ..call.clone() }
    }

    /// Ends a call of a deadlock, if the other members know of the deadlock or if the call has lingered long enough.
    /// Returns whether it has ended.
    fn end_lingering(&mut self, ticket: Ticket, waits: &Waits) -> bool {
        let Some(Blocked { stage: Stage::Lingering { circle, since, .. }, .. }) = self.deadlocks.blocked.get(&ticket)
        else {
            return false;
        };
        // If the call of a member was not read, the member has ended it.
        let knows = |member: &CircleCall| {
            member.id.client == self.client
                || waits.call(member.id).is_none_or(|published| !published.deadlock.is_empty())
        };
        if self.cx.now.since(*since) < MAX_LINGER && !circle.iter().all(knows) {
            return false;
        }
        self.report_deadlock(ticket);
        true
    }

    /// Answers a call that lingers with the error about its deadlock.
    fn report_deadlock(&mut self, ticket: Ticket) {
        let Some(Blocked { slot, owner, stage: Stage::Lingering { call, circle, .. } }) =
            self.deadlocks.blocked.remove(&ticket)
        else {
            return;
        };
        let text = describe(&circle, owner.thread().is_some());
        tracing::debug!(key = %slot.key, "{text}"); // The error has the same text.
        self.metrics.deadlock();
        call.answer(Err(Error::new(ErrorKind::Deadlock, text).during("lock").at(&slot.key)));
    }
}

/// Whether the circle is a deadlock. `before`: the same circle, if an earlier search has found it.
fn is_deadlock(circle: &[CircleCall], before: Option<&Sighting>, waits: &Waits, now: Moment) -> bool {
    let Some(own) = circle.first().map(|call| call.id) else { return false };
    let is_reported =
        |call: &CircleCall| waits.call(call.id).is_some_and(|published| published.deadlock.contains(&own));
    if circle.iter().any(is_reported) {
        return true;
    }
    let Some(Sighting { at, round, .. }) = before else { return false };
    let is_confirmed = |call: &CircleCall| call.id.client == own.client || waits.has_seen(call.id.client, *round);
    now.since(*at) >= CONFIRM_AFTER && circle.iter().all(is_confirmed)
}
