//! The actions of the callers.

use std::time::Duration;

use bandog_core::Kind;
use tokio::sync::oneshot;

use super::{
    super::*,
    FIXED_LEASE,
    world::{Message, OpenTurn, TestCall, TestFamily, World},
};
use crate::{
    caller::Caller,
    lane::Lane,
    terms::{Patience, Terms},
    turn_status::TurnState,
};

/// Maximum number of calls that wait at the same time.
const MAX_CALLS: usize = 6;

impl World {
    pub(super) fn call(&mut self) {
        if self.calls.len() >= MAX_CALLS {
            return;
        }
        self.note("a call");
        let (ticket, kind) = (self.number(), self.family.random_kind(&mut self.rng));
        let millis = Duration::from_millis;
        let fences = match kind {
            Kind::Read => std::num::NonZeroU8::MIN,
            Kind::Mutex | Kind::Fair | Kind::Write | Kind::Permits { .. } => self.fences,
        };
        let mut terms = Terms { kind, ttl: millis(1000), watchdog: true, fences, max_hold: None, quiet: false };
        match self.rng.u8(..8) {
            0 => (terms.ttl, terms.watchdog) = (FIXED_LEASE, false),
            1 => terms.max_hold = Some(millis(500)),
            _ => {}
        }
        let patience = match self.rng.u8(..4) {
            0 => Patience::Once,
            1 => Patience::For(millis(self.rng.u64(1..3000))),
            _ => Patience::Forever,
        };
        let may_share = matches!(self.family, TestFamily::Mutex);
        let owner = if may_share && self.chance(3) { Some(self.rng.usize(..2)) } else { None };
        let is_patient = !matches!(patience, Patience::Once);
        let test = TestCall { ticket, kind, is_patient, downgrades: None, max_hold: terms.max_hold, owner };
        let caller = Caller::Thread(self.callers[self.rng.usize(..2)]);
        let call = self.make_call(test, caller, terms, patience);
        // Callers take their tickets before they send their calls, so the calls can arrive in another order.
        let is_late = matches!(self.mailbox.back(), Some(Message::Lock(_))) && self.rng.bool();
        let overtakes = usize::from(is_late && matches!(self.family, TestFamily::Fair));
        self.mailbox.insert(self.mailbox.len() - overtakes, Message::Lock(call));
    }

    pub(super) fn drop_call(&mut self) {
        let tickets: Vec<_> = self.calls.keys().copied().collect();
        let Some(ticket) = self.rng.choice(tickets) else { return };
        self.note("a call is dropped");
        self.sums.cancelled += 1;
        let open = self.calls.remove(&ticket).unwrap();
        self.answers.remove(&ticket);
        match open.call.downgrades {
            Some(writer) => self.end_downgraded_turn(writer),
            None => {
                let lane = Lane::of(open.call.kind, ticket);
                self.mailbox.push_back(Message::Cancel { lane, ticket });
            }
        }
    }

    /// The future of a downgrade has ended, so the writer's turn is dropped.
    pub(super) fn end_downgraded_turn(&mut self, writer: Ticket) {
        if let Some(at) = self.turns.iter().position(|turn| turn.ticket == writer) {
            let turn = self.turns.swap_remove(at);
            self.end_turn(&turn, false);
        }
    }

    pub(super) fn drop_guard(&mut self) {
        let free: Vec<_> = (0..self.turns.len()).filter(|at| !self.turns[*at].is_downgrading).collect();
        let Some(at) = self.rng.choice(free) else { return };
        self.note("a guard is dropped");
        self.turns[at].guards -= 1;
        if self.turns[at].guards == 0 {
            let turn = self.turns.swap_remove(at);
            let reports = self.rng.bool();
            self.end_turn(&turn, reports);
        }
    }

    pub(super) fn end_turn(&mut self, turn: &OpenTurn, reports: bool) {
        let was_lost = turn.status.state(self.now) == TurnState::Lost;
        let (report, result) = oneshot::channel();
        let report = reports.then_some(report);
        if reports {
            self.reports.push((result, was_lost));
        }
        let (lane, hold, ticket) = (turn.lane(), turn.hold, turn.ticket);
        self.mailbox.push_back(Message::TurnEnded { lane, hold, ticket, report });
    }

    pub(super) fn downgrade(&mut self) {
        let (ticket, caller, now) = (self.number(), Caller::Thread(self.callers[0]), self.now);
        let is_open = |turn: &&mut OpenTurn| {
            let is_held = matches!(turn.status.state(now), TurnState::Held { .. });
            matches!(turn.kind, Kind::Write) && !turn.is_downgrading && is_held
        };
        let Some(turn) = self.turns.iter_mut().find(is_open) else { return };
        turn.is_downgrading = true;
        let (hold, turn, max_hold) = (turn.hold, turn.ticket, turn.max_hold);
        let test =
            TestCall { ticket, kind: Kind::Read, is_patient: true, downgrades: Some(turn), max_hold, owner: None };
        self.note("a downgrade");
        let (kind, ttl, fences) = (Kind::Read, Duration::from_secs(1), std::num::NonZeroU8::MIN);
        let terms = Terms { kind, ttl, watchdog: true, fences, max_hold, quiet: false };
        let call = self.make_call(test, caller, terms, Patience::Forever);
        self.mailbox.push_back(Message::Downgrade { hold, turn, call });
    }

    pub(super) fn warn_before(&mut self) {
        let turns: Vec<_> = self.turns.iter().map(|turn| (turn.lane(), turn.hold, turn.ticket)).collect();
        let Some((lane, hold, ticket)) = self.rng.choice(turns) else { return };
        let grace = Duration::from_millis(self.rng.u64(1..600));
        self.mailbox.push_back(Message::WarnBefore { lane, hold, ticket, grace });
    }
}
