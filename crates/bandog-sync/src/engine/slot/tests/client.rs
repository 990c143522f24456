//! The actions of the engine: it passes events to the slots, and executes their effects.

use std::{mem, sync::Arc, sync::PoisonError};

use bandog_core::{Answer, ClaimId, Error, ErrorKind, Kind, Renewal, Result, Step, Subscription, Verdict};

use super::{
    super::*,
    FIXED_LEASE, TIMEOUT,
    world::{Message, OpenTurn, Reply, Request, World},
};
use crate::{
    lane::Lane,
    terms::{Patience, Terms, Ticket},
    turn_status::TurnState,
};

impl World {
    /// Passes an event to a slot, as the engine does.
    pub(super) fn on(&mut self, lane: Lane, event: Event) {
        // The real engine reads the clock only once per round, so its time may be old.
        if self.is_calm || !self.chance(8) {
            self.cx.now = self.now;
        }
        self.pass_event(lane, event);
        self.watch_store();
        let now = self.cx.now;
        while let Some(due) = self.due_slot(now) {
            self.pass_event(due, Event::Due);
            let next = self.slots.get(&due).and_then(Slot::next_due);
            assert!(next.is_none_or(|next| next > now), "the timer would fire forever");
        }
    }

    pub(super) fn due_slot(&self, now: Moment) -> Option<Lane> {
        self.slots.iter().find(|(_, slot)| slot.next_due().is_some_and(|due| due <= now)).map(|(lane, _)| *lane)
    }

    fn pass_event(&mut self, lane: Lane, event: Event) {
        self.change(lane, |slot, cx| slot.on(event, cx));
    }

    pub(super) fn change<T>(&mut self, lane: Lane, change: impl FnOnce(&mut Slot, &mut SlotContext) -> T) -> Option<T> {
        let slot = self.slots.get_mut(&lane)?;
        let (had_calls, was_in_order) = (slot.has_calls(), slot.is_in_order());
        let value = change(slot, &mut self.cx);
        let (has_calls, is_held, is_in_order) = (slot.has_calls(), slot.is_held(), slot.is_in_order());
        if slot.is_unused() {
            self.slots.remove(&lane);
        }
        for effect in mem::take(&mut self.cx.effects) {
            self.execute(lane, effect);
        }
        match lane {
            Lane::Fair(ticket) if !has_calls && !is_held => {
                if let Some(next) = self.fair_calls.remove(&self.key, ticket) {
                    self.pass_event(next.lane, Event::Notified);
                }
            }
            Lane::Fair(ticket) if was_in_order != is_in_order => {
                self.fair_calls.set_in_order(&self.key, ticket, is_in_order);
            }
            Lane::Write if had_calls != has_calls => self.pass_event(Lane::Read, Event::WriterWaits(has_calls)),
            Lane::Mutex | Lane::Fair(_) | Lane::Read | Lane::Write | Lane::Permits(_) => {}
        }
        Some(value)
    }

    fn add_slot(&mut self, lane: Lane) {
        if self.slots.contains_key(&lane) {
            return;
        }
        let mut slot = Slot::new(SlotId { key: self.key.clone(), lane });
        match lane {
            Lane::Fair(ticket) => self.fair_calls.insert(&self.key, ticket),
            Lane::Read => slot.writer_waits(self.slots.get(&Lane::Write).is_some_and(Slot::has_calls)),
            Lane::Mutex | Lane::Write | Lane::Permits(_) => {}
        }
        self.slots.insert(lane, slot);
    }

    pub(super) fn read_mailbox(&mut self) {
        let Some(message) = self.mailbox.pop_front() else { return };
        match message {
            Message::Lock(call) if self.cx.is_closing => drop(self.calls.remove(&call.ticket)),
            Message::Lock(call) => self.receive_call(call),
            Message::Downgrade { hold, turn, call } => {
                self.note("the slot gets a downgrade");
                let number = self.number();
                if let Some(open) = self.calls.get_mut(&call.ticket) {
                    open.arrived = Some(number);
                }
                if self.slots.contains_key(&Lane::Write) {
                    self.on(Lane::Write, Event::Downgrade { hold, turn, call });
                } else if self.calls.remove(&call.ticket).is_some() {
                    // The client was closed, so the caller gets an error.
                    self.end_downgraded_turn(turn);
                }
            }
            Message::Cancel { lane, ticket } => {
                self.note("the slot gets a cancel");
                self.on(lane, Event::Cancel(ticket));
            }
            Message::TurnEnded { lane, hold, ticket, report } => {
                self.note("the slot gets the end of a turn");
                self.on(lane, Event::TurnEnded { hold, ticket, report });
            }
            Message::WarnBefore { lane, hold, ticket, grace } => {
                self.on(lane, Event::WarnBefore { hold, ticket, grace });
                let turn = self.turns.iter().find(|turn| turn.ticket == ticket && !turn.is_downgrading);
                if let Some(TurnState::Held { until }) = turn.map(|turn| turn.status.state(self.now))
                    && until - grace > self.now
                {
                    let due = self.slots[&lane].next_due().unwrap();
                    assert!(due <= until - grace, "a guard would be warned too late");
                }
            }
        }
    }

    fn receive_call(&mut self, call: Box<Call>) {
        self.note("the slot gets a call");
        let (ticket, lane, number) = (call.ticket, Lane::of(call.terms.kind, call.ticket), self.number());
        if let Some(open) = self.calls.get_mut(&ticket) {
            open.arrived = Some(number);
            open.came = self.now;
            open.limit = match call.patience {
                Patience::Once => Some(self.now + TIMEOUT),
                Patience::For(wait) => Some(self.now + wait),
                Patience::Forever => None,
            };
        }
        self.add_slot(lane);
        let is_held = self.slots[&lane].is_held();
        let owner = self.made[&ticket].owner;
        let shared = self.turns.iter_mut().find(|turn| turn.owner.is_some() && turn.owner == owner);
        if let Some(turn) = shared.filter(|_| is_held) {
            if self.calls.remove(&ticket).is_some() {
                turn.guards += 1;
                self.sums.shared += 1;
            }
            return;
        }
        self.on(lane, Event::Lock(call));
    }

    fn execute(&mut self, lane: Lane, effect: Effect) {
        match effect {
            Effect::Send(step) => self.send_step(lane, step),
            Effect::Release { claim, unsure, report } => {
                let in_flight = self.in_flight.get(&lane).map(|(claim, _)| *claim);
                let is_in_flight = in_flight == Some(claim.id.number) || self.further.contains(&claim.id.number);
                assert!(!is_in_flight, "a release may overtake its claim");
                let is_open =
                    |turn: &OpenTurn| turn.hold == claim.id.number && turn.status.state(self.now) != TurnState::Lost;
                let is_under_guard = self.turns.iter().any(is_open) && !self.cx.is_closing;
                let is_downgraded = self.downgraded_to.contains_key(&claim.id.number);
                assert!(!is_under_guard || is_downgraded, "a hold is released under its guard");
                self.turns_since_release = 0;
                let step = self.releases.start(claim, unsure, report, self.cx.now);
                self.outbox.push_back(Request::Step(step));
                if let Some(sibling) = lane.sibling() {
                    self.pass_event(sibling, Event::Notified);
                }
            }
            Effect::ReleaseLater(claim) => self.releases.start_later(claim, self.cx.now),
            Effect::Renew(hold) => {
                self.cx.now = self.now;
                let claim = self.slots.get_mut(&lane).and_then(|slot| slot.renewal_sent(hold, &self.cx));
                self.renewals.extend(claim.map(|claim| (claim, self.now)));
            }
            Effect::Subscribe(_) => self.subscribing.push_back(lane),
            Effect::StartTurn { call, turn } => {
                self.sums.began += 1;
                self.start_turn(lane, call.ticket, turn);
            }
            Effect::HandOver { hold, fence, terms, report } => {
                let follower = self.take_follower(hold, terms);
                self.sums.followed += u64::from(follower.is_some());
                self.pass_event(lane, Event::Follow { hold, fence, follower, report });
            }
            Effect::Adopt(adoption) => {
                self.add_slot(Lane::Read);
                self.pass_event(Lane::Read, Event::Adopt(adoption));
            }
            Effect::Refuse(call) => {
                self.sums.refused += 1;
                if let Some(open) = self.calls.remove(&call.ticket) {
                    assert!(self.busy_at >= open.came, "a call was refused although nobody had the lock since it came");
                }
            }
            Effect::Fail(call, error) => self.fail(call.ticket, &error),
            Effect::Report(report, result) => drop(report.send(result)),
            Effect::Lost { loss, .. } => self.check_loss(loss),
            Effect::Detached { .. } | Effect::HoldBegan => self.busy_at = self.now,
            Effect::TurnEnded { .. } => self.sums.ended += 1,
            Effect::WaitBegan
            | Effect::CheckForDeadlock { .. }
            | Effect::Renewed
            | Effect::RenewalFailed(_)
            | Effect::SubscriptionDenied(_) => {}
        }
    }

    /// As the engine does it.
    fn take_follower(&mut self, hold: HoldId, terms: Terms) -> Option<Box<Call>> {
        while let Some(ticket) = self.fair_calls.next_follower(&self.key, hold) {
            let lane = Lane::Fair(ticket);
            if self.slots.get(&lane).and_then(|slot| slot.terms_of(ticket)).is_some_and(|wanted| wanted != terms) {
                return None;
            }
            let call = self.change(lane, |slot, cx| slot.take_call(ticket, cx)).flatten();
            if let Some(call) = call.filter(|call| !call.has_gone()) {
                return Some(call);
            }
        }
        None
    }

    fn send_step(&mut self, lane: Lane, step: Step) {
        let (Step::Claim(claim) | Step::Pass { to: claim, .. }) = &step else { panic!("{step:?}") };
        self.sums.passed += u64::from(matches!(step, Step::Pass { .. }));
        self.sums.offered += u64::from(claim.offers);
        if claim.ttl == FIXED_LEASE {
            self.fixed.insert(claim.id.number);
        }
        if let Step::Pass { from, to } = &step
            && from.kind != to.kind
        {
            self.downgraded_to.insert(from.id.number, to.id.number);
        }
        if matches!(lane, Lane::Permits(_)) && self.in_flight.contains_key(&lane) {
            self.sums.further += 1;
            assert!(!claim.joins && !claim.offers && self.further.insert(claim.id.number), "{claim:?}");
        } else {
            let earlier = self.in_flight.insert(lane, (claim.id.number, false));
            assert_eq!(earlier, None, "two claims of one slot are in flight");
        }
        self.outbox.push_back(Request::Step(step));
    }

    fn fail(&mut self, ticket: Ticket, error: &Error) {
        let call = self.made[&ticket].clone();
        self.sums.timed_out += 1;
        let is_expected = match error.kind() {
            ErrorKind::Denied => !self.is_calm,
            ErrorKind::Closed => self.cx.is_closing || self.has_gone(ticket) && call.downgrades.is_some(),
            // The writer's lease can expire in the moment of the downgrade.
            ErrorKind::Lost => call.downgrades.is_some(),
            _ => error.is_retryable(),
        };
        assert!(is_expected, "{error}");
        self.calls.remove(&call.ticket);
        if let Some(writer) = call.downgrades {
            self.end_downgraded_turn(writer);
        }
    }

    fn start_turn(&mut self, lane: Lane, ticket: Ticket, turn: NewTurn) {
        let call = &self.made[&ticket].clone();
        self.check_turn(lane, call, &turn);
        let NewTurn { hold, fence, status, .. } = turn;
        if let Some(writer) = call.downgrades {
            self.sums.downgraded += 1;
            self.end_downgraded_turn(writer);
        }
        if self.calls.remove(&call.ticket).is_none() {
            // The caller has dropped its future, so the turn is dropped.
            return self.mailbox.push_back(Message::TurnEnded { lane, hold, ticket, report: None });
        }
        let (owner, max_hold) = (call.owner, call.max_hold);
        let ends = max_hold.map(|longest| self.now + longest);
        let kind = call.kind;
        let mut turn =
            OpenTurn { kind, hold, ticket, fence, status, owner, guards: 1, ends, max_hold, is_downgrading: false };
        let waiting =
            self.calls.values().filter(|open| open.arrived.is_some() && owner.is_some() && open.call.owner == owner);
        for ticket in waiting.map(|open| open.call.ticket).collect::<Vec<_>>() {
            let Some(shared) = self.change(lane, |slot, cx| slot.take_call(ticket, cx)).flatten() else { continue };
            if self.calls.remove(&shared.ticket).is_some() {
                turn.guards += 1;
                self.sums.shared += 1;
            }
        }
        self.turns.push(turn);
    }

    pub(super) fn send(&mut self) {
        self.cx.now = self.now;
        if !self.outbox.is_empty() {
            self.note("requests are sent");
        }
        for request in self.outbox.drain(..) {
            match request {
                Request::Step(step) => self.steps.push_back((step, self.now)),
                Request::Renew(claim) => self.renewals.push((claim, self.now)),
            }
        }
    }

    pub(super) fn deliver(&mut self) {
        let Some((reply, asked_at, late)) = self.replies.pop_front() else { return };
        if let Some(late) = late.and_then(|id| self.late.iter_mut().find(|late| late.id == id)) {
            late.until = Some(self.now + TIMEOUT);
        }
        match reply {
            Reply::Step(step, answer) => self.deliver_step(&step, asked_at, answer),
            Reply::Renewal(claim, answer) => {
                self.note("a renewal's answer");
                self.cx.answered |= answer.is_ok();
                let is_gone = matches!(answer, Ok(Renewal::Gone));
                self.on(SlotId::of_claim(&claim).lane, Event::Renewed { hold: claim.id.number, asked_at, answer });
                let is_held = |turn: &OpenTurn| matches!(turn.status.state(self.now), TurnState::Held { .. });
                let stays = |turn: &OpenTurn| turn.hold == claim.id.number && is_held(turn) && !turn.is_downgrading;
                assert!(
                    !(is_gone && self.turns.iter().any(stays)),
                    "a guard survives the answer that its hold is gone"
                );
            }
        }
    }

    fn deliver_step(&mut self, step: &Step, asked_at: Moment, answer: Result<Answer>) {
        self.cx.answered |= answer.is_ok();
        let lane = SlotId::of_step(step).lane;
        match step {
            Step::Claim(claim) | Step::Pass { to: claim, .. } => {
                self.note(match &answer {
                    Ok(Answer::Claimed(Verdict::Granted { .. })) => "a claim is granted",
                    Ok(_) => "a claim is refused",
                    Err(_) => "a claim has no answer",
                });
                let is_further = self.further.remove(&claim.id.number);
                let was_notified = !is_further && {
                    let (in_flight, was_notified) = self.in_flight.remove(&lane).unwrap();
                    assert_eq!(in_flight, claim.id.number);
                    was_notified
                };
                let answer = answer.map(|answer| match answer {
                    Answer::Claimed(verdict) => verdict,
                    Answer::Released(_) => panic!("{answer:?}"),
                });
                if let (Kind::Fair, Ok(Verdict::Granted { followers, .. })) = (claim.kind, &answer) {
                    self.fair_calls.granted(&self.key, claim.id.number, followers.clone());
                }
                let was_refused = matches!(answer, Ok(Verdict::Busy { .. }));
                if was_refused && !is_further {
                    self.turns_since_release = 0;
                }
                let has_older_call = match lane {
                    Lane::Fair(ticket) => self.fair_calls.has_older(&self.key, ticket),
                    Lane::Mutex | Lane::Read | Lane::Write | Lane::Permits(_) => false,
                };
                self.on(lane, Event::Claimed { claim: claim.id.number, asked_at, answer, has_older_call });
                if was_refused && was_notified && self.slots.get(&lane).is_some_and(Slot::is_waiting) {
                    assert!(self.in_flight.contains_key(&lane), "a notification was forgotten");
                }
            }
            Step::Release(claim) => {
                self.note(if answer.is_ok() { "a release's answer" } else { "a release has no answer" });
                let id = claim.id.number;
                let woke_no_client = self.rng.bool();
                self.cx.now = self.now;
                let (event, answer) = match answer {
                    Ok(Answer::Released(released)) => {
                        (Event::Released { woke_no_client }, self.releases.answered(id, released, self.now))
                    }
                    Ok(Answer::Claimed(verdict)) => panic!("{verdict:?}"),
                    Err(error) => (Event::ReleaseFailed, self.releases.failed(id, error, self.now)),
                };
                let Some(answer) = answer else { return };
                self.has_refused_release |= answer.refused.is_some();
                if let Some((report, result)) = answer.report {
                    // The caller may have dropped its future.
                    let _ = report.send(result);
                }
                self.on(lane, event);
            }
        }
    }

    pub(super) fn deliver_subscription(&mut self) {
        let Some(lane) = self.subscribing.pop_front() else { return };
        self.note("a subscription's answer");
        let answer = match self.rng.u8(..8) {
            0 if self.has_faults => Err(Error::unavailable("no answer")),
            1 if self.has_faults => Err(Error::new(ErrorKind::Denied, "denied")),
            2 => Ok(Subscription::silent()),
            _ => {
                let subscribed = Arc::clone(&self.subscribed);
                subscribed.lock().unwrap().insert(lane);
                Ok(Subscription::new(move || {
                    subscribed.lock().unwrap_or_else(PoisonError::into_inner).remove(&lane);
                }))
            }
        };
        let is_subscribed = answer.is_ok();
        self.on(lane, Event::Subscribed(answer));
        if is_subscribed && self.slots.get(&lane).is_some_and(Slot::is_waiting) {
            assert!(self.in_flight.contains_key(&lane), "a release before the subscription may be missed");
        }
    }

    pub(super) fn deliver_notification(&mut self) {
        let lane = match self.notifications.pop_front() {
            Some(lane) => lane,
            None if self.chance(16) && !self.slots.is_empty() => {
                let lanes: Vec<_> = self.slots.keys().copied().collect();
                lanes[self.rng.usize(..lanes.len())]
            }
            None => return,
        };
        self.note("a notification");
        if let Some((_, is_notified)) = self.in_flight.get_mut(&lane) {
            *is_notified = true;
        }
        self.on(lane, Event::Notified);
        if self.slots.get(&lane).is_some_and(Slot::is_waiting) {
            assert!(self.in_flight.contains_key(&lane), "a notification was ignored");
        }
    }

    /// The id of a claim of this client.
    pub(super) fn claim_id(&self, number: HoldId) -> ClaimId {
        ClaimId { client: self.cx.client, number }
    }

    /// Whether the store must still know the hold of a turn. A turn that is downgraded may have another claim by now.
    pub(super) fn store_holds(&self, turn: &OpenTurn, until: Moment) -> bool {
        let downgraded = self.downgraded_to.get(&turn.hold).filter(|_| matches!(turn.kind, Kind::Write));
        let claims = [Some(&turn.hold), downgraded].into_iter().flatten();
        claims.into_iter().any(|number| self.store.is_held_by(self.claim_id(*number), until))
    }
}
