//! The conditions that must be true.

use std::time::Duration;

use bandog_core::Kind;

use super::{
    super::*,
    world::{OpenTurn, PERMITS, TestCall, TestFamily, World},
};
use crate::{lane::Lane, turn_status::TurnState};

/// Maximum duration of a streak. The round trip of this test is 1 ms.
const MAX_STREAK: Duration = Duration::from_millis(20);

impl World {
    /// Checks a turn that begins.
    pub(super) fn check_turn(&mut self, lane: Lane, call: &TestCall, turn: &NewTurn) {
        self.sums.turns += 1;
        self.sums.handed_over += u64::from(turn.is_handed_over);
        let now = self.cx.now;
        assert!(matches!(turn.status.state(now), TurnState::Held { .. }), "a turn begins that is lost already");
        let began = *self.began.entry(turn.hold).or_insert(now);
        let is_evicted = self.evicted.contains(&self.claim_id(turn.hold));
        // If the engine's reading of the clock is old, it may start a turn whose guard already sees that the deadline
        // has passed.
        let is_lost = turn.status.state(self.now) == TurnState::Lost;
        let fence = turn.fence.get();
        let rises = fence > self.last_fence;
        match lane {
            Lane::Mutex | Lane::Write => {
                self.check_streak(turn);
                assert!(is_evicted || is_lost || rises, "a fence did not rise");
            }
            Lane::Fair(_) => assert!(is_evicted || is_lost || rises, "a fence did not rise"),
            Lane::Read => {
                assert!(!turn.is_handed_over || now.since(began) < MAX_STREAK, "a hold of readers stays open too long");
            }
            Lane::Permits(_) => {
                let age = now.since(began);
                assert!(!turn.is_handed_over || age < MAX_STREAK * 64, "a streak lasts too long");
            }
        }
        if !matches!(lane, Lane::Read) {
            assert!(self.used_fences.insert(fence), "two turns have the same fence");
        }
        self.last_fence = self.last_fence.max(fence);
        self.check_order(lane, call);
    }

    fn check_streak(&mut self, turn: &NewTurn) {
        let now = self.cx.now;
        if self.turns_since_release == 0 {
            self.streak_since = now;
        }
        let streak = now.since(self.streak_since);
        assert!(!turn.is_handed_over || streak < MAX_STREAK, "a streak lasts too long");
        self.turns_since_release += 1;
        assert!(self.turns_since_release <= MAX_TURNS.get(), "a streak does not end");
    }

    /// Checks that no older call was passed over.
    fn check_order(&self, lane: Lane, call: &TestCall) {
        let arrived_at = self.calls.get(&call.ticket).and_then(|open| open.arrived);
        let arrived = self.calls.values().filter(|open| open.arrived.is_some() && open.call.downgrades.is_none());
        let mut older = arrived.filter(|open| open.call.kind.family() == call.kind.family());
        let is_first = match lane {
            Lane::Mutex | Lane::Permits(_) => older.all(|open| open.call.ticket >= call.ticket),
            Lane::Write => older.all(|open| open.call.kind != Kind::Write || open.call.ticket >= call.ticket),
            // A claim that was lost gets its place late.
            Lane::Fair(_) => {
                !self.is_calm
                    || !call.is_patient
                    || older.all(|open| {
                        let is_missing = !open.call.is_patient || !self.evicted.is_empty();
                        is_missing || open.arrived >= arrived_at
                    })
            }
            Lane::Read => true,
        };
        assert!(self.has_gone(call.ticket) || is_first, "a call was passed over");
    }

    /// Checks the report of a loss.
    pub(super) fn check_loss(&mut self, loss: Loss) {
        self.sums.lost += 1;
        self.turns_since_release = 0;
        let now = self.now;
        let mut lost = self.turns.iter().filter(|turn| turn.status.state(now) == TurnState::Lost);
        let is_expected = |turn: &OpenTurn| self.fixed.contains(&turn.hold) || turn.ends.is_some();
        let in_time = loss == Loss::ByMaxHold || lost.all(is_expected);
        assert!(in_time || !self.is_calm, "a hold was lost although the store has answered in time");
    }

    /// Checks the promises that must be true at every moment.
    pub(super) fn check(&mut self) {
        self.watch_store();
        let now = self.now;
        let until = |turn: &OpenTurn| match turn.status.state(now) {
            TurnState::Held { until } => Some(until),
            TurnState::Lost | TurnState::Closed | TurnState::Released => None,
        };
        let held: Vec<_> = self.turns.iter().filter_map(|turn| Some((turn, until(turn)?))).collect();
        self.check_overlap(&held.iter().map(|(turn, _)| *turn).collect::<Vec<_>>());
        for (turn, until) in held {
            if self.evicted.contains(&self.claim_id(turn.hold)) {
                continue; // The client learns that an operator took the lock at the next renewal.
            }
            assert!(turn.ends.is_none_or(|end| until <= end), "a guard would hold the lock beyond its max_hold");
            let is_renewed = turn.ends.is_none() && !self.fixed.contains(&turn.hold) && !turn.is_downgrading;
            if is_renewed && until.since(now) > Duration::from_millis(400) {
                let due = self.slots[&turn.lane()].next_due().unwrap();
                assert!(due + Duration::from_millis(200) < until, "no renewal is planned before the deadline");
            }
            let is_passed = turn.is_downgrading
                && self.evicted.iter().any(|id| self.downgraded_to.get(&turn.hold) == Some(&id.number));
            assert!(is_passed || self.store_holds(turn, until), "a guard would hold what the store has given up");
            if matches!(self.family, TestFamily::Mutex | TestFamily::Fair) {
                assert_eq!(turn.fence.get(), self.last_fence, "a guard holds the lock after a later grant");
            }
        }
        for open in self.calls.values().filter(|open| open.arrived.is_some()) {
            let Some(limit) = open.limit else { continue };
            let slot = self.slots.get(&Lane::of(open.call.kind, open.call.ticket));
            let due = slot.and_then(Slot::next_due);
            assert!(due.is_some_and(|due| due <= limit), "a call would not time out");
        }
        self.check_note();
        self.check_next();
        self.check_attempts();
        for (result, was_lost) in &mut self.reports {
            if let Ok(result) = result.try_recv() {
                assert!(!(*was_lost && result.is_ok()), "the release of a lost lock reports success");
            }
        }
    }

    /// Checks that the guards of this client do not overlap in a way that their kind forbids.
    fn check_overlap(&self, held: &[&OpenTurn]) {
        // The caller of a downgrade has given up the guard of the writer, so it counts as a reader.
        let writers = held.iter().filter(|turn| matches!(turn.kind, Kind::Write) && !turn.is_downgrading).count();
        let permits = |turn: &&OpenTurn| match turn.kind {
            Kind::Permits { take, .. } => take.get(),
            Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write => 0,
        };
        let is_allowed = match self.family {
            TestFamily::Mutex | TestFamily::Fair => held.len() <= 1,
            TestFamily::ReadWrite => writers == 0 || held.len() == 1,
            TestFamily::Permits => held.iter().map(permits).sum::<u32>() <= PERMITS.get(),
        };
        // After an eviction, the old guards are lost only at the next renewal.
        let is_evicted = |turn: &&OpenTurn| self.evicted.contains(&self.claim_id(turn.hold));
        assert!(is_allowed || held.iter().any(is_evicted), "guards hold the lock at the same time");
    }

    /// Checks that the claim that is next in the queue of a fair mutex is woken: its slot has subscribed, or another call
    /// of this client holds the lock or claims it, and wakes the slot at its end.
    fn check_next(&self) {
        let Some(next) = self.store.next_in_queue(self.now).filter(|next| next.client == self.cx.client) else {
            return;
        };
        let lane = Lane::Fair(next.number);
        let Some(slot) = self.slots.get(&lane).filter(|_| self.is_calm) else { return };
        let sleeps = matches!(slot.stage, Stage::Waiting { .. }) && matches!(slot.wake_ups, WakeUps::Off);
        let wakes = |slot: &Slot| slot.is_held() || matches!(slot.stage, Stage::Claiming(_));
        let is_woken = self.slots.iter().any(|(other, slot)| *other != lane && wakes(slot));
        assert!(!sleeps || is_woken, "no notification reaches the next claim of the queue");
    }

    /// Checks that no claim waits for a call that has left the queue.
    fn check_attempts(&self) {
        for slot in self.slots.values() {
            let first = slot.queue.first().map(|waiter| waiter.terms.kind);
            if let (Stage::Waiting { attempt, .. }, Some(first)) = (&slot.stage, first) {
                let is_present = attempt.terms.kind == first || attempt.faults > 0;
                assert!(is_present, "a claim waits for a call that has left the queue");
            }
        }
    }

    /// Checks that no note about a starving waiter stays in the store after this client has stopped waiting. Otherwise
    /// the store would reserve the lock for a client that does not want it. Only this client writes such notes in this
    /// test.
    fn check_note(&self) {
        let is_over = self.slots.is_empty() && self.releases.is_empty() && self.outbox.is_empty();
        let is_quiet = self.steps.is_empty() && self.late.is_empty() && self.replies.is_empty();
        let is_held = self.store.row(&self.key, self.now).is_some();
        if is_over && is_quiet && is_held && !self.has_refused_release && self.store.is_starving() {
            panic!("a note stays behind that a waiter starves");
        }
    }

    /// Stops all faults. Then checks that every call gets its answer, and that nothing remains in the store.
    pub(super) fn finish(&mut self) {
        self.note("all faults stop");
        self.has_faults = false;
        if self.chance(4) {
            self.close();
        }
        for _ in 0..10_000 {
            while let Some(at) = self.turns.iter().position(|turn| !turn.is_downgrading) {
                let turn = self.turns.swap_remove(at);
                self.end_turn(&turn, false);
            }
            while !self.mailbox.is_empty() {
                self.read_mailbox();
            }
            while !self.subscribing.is_empty() {
                self.deliver_subscription();
            }
            self.answer_all();
            for late in self.take_late() {
                if self.rng.bool() {
                    self.note("a late request is applied");
                    self.sums.late += 1;
                    self.apply_now(&late.request);
                } else {
                    self.late.push(late);
                }
            }
            if self.other.is_some() {
                self.other_client();
            }
            self.check();
            let is_over = self.slots.is_empty() && self.releases.is_empty();
            if is_over && self.mailbox.is_empty() && self.turns.is_empty() {
                self.check_end();
                return;
            }
            if let Some(due) = self.next_due() {
                self.move_to(due.max(self.now));
                self.fire();
            }
        }
        panic!("calls or releases remain: {} calls, {} releases", self.calls.len(), self.releases.len());
    }

    fn close(&mut self) {
        self.note("the client closes");
        self.cx.is_closing = true;
        self.on_all(|| Event::Close);
        for turn in &self.turns {
            let state = turn.status.state(self.now);
            assert!(!matches!(state, TurnState::Held { .. }), "a guard survives its client: {state:?}");
        }
        assert!(!self.calls.values().any(|open| open.arrived.is_some()), "a call survives its client");
    }

    fn check_end(&mut self) {
        assert_eq!(self.sums.began, self.sums.ended, "the end of each turn is reported once");
        assert!(self.calls.is_empty(), "a call has no answer");
        // The store applies the late requests.
        for late in self.take_late() {
            self.apply_now(&late.request);
        }
        if self.has_refused_release {
            self.move_to(self.now + Duration::from_secs(10));
        }
        let row = self.store.row(&self.key, self.now);
        assert_eq!(row, None, "a lock stays behind");
        let is_present = self.store.places().iter().any(|place| self.now < place.until);
        assert!(!is_present, "a place stays behind: {:?}", self.store.places());
        assert!(self.fair_calls.oldest(&self.key).is_none(), "a fair call was forgotten");
        assert!(self.subscribed.lock().unwrap().is_empty(), "a subscription stays behind");
    }
}
