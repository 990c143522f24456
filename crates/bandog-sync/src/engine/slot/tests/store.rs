//! The actions of the store, of other clients and of the clock.

use std::{mem, num::NonZeroU32, time::Duration};

use bandog_core::{Answer, ClaimId, ClientId, Error, ErrorKind, Kind, Released, Step, Verdict};

use super::{
    super::*,
    world::{LateRequest, PERMITS, Reply, Request, TestFamily, World},
};
use crate::lane::Lane;

impl World {
    pub(super) fn apply(&mut self) {
        if !self.renewals.is_empty() && self.rng.bool() {
            let (claim, asked_at) = self.renewals.swap_remove(self.rng.usize(..self.renewals.len()));
            self.apply_request(Request::Renew(claim), asked_at);
        } else if let Some((step, asked_at)) = self.steps.pop_front() {
            self.apply_request(Request::Step(step), asked_at);
        }
    }

    /// Applies a request. In some cases the request or its answer is lost, or the request is applied late.
    fn apply_request(&mut self, request: Request, asked_at: Moment) {
        let fate = if self.has_faults { self.rng.u8(..32) } else { 31 };
        let (error, late) = match fate {
            // The answer is lost.
            0 => {
                self.detail(|| "the next answer is lost".to_owned());
                self.apply_now(&request);
                (Some(Error::unavailable("no answer").ambiguous()), None)
            }
            // The request is lost.
            1 => (Some(Error::unavailable("no answer").ambiguous()), None),
            // The request arrives after its error.
            2 => {
                let id = self.number();
                self.detail(|| format!("late: {request:?}"));
                self.late.push(LateRequest { request: request.clone(), until: None, id });
                (Some(Error::unavailable("no answer").ambiguous()), Some(id))
            }
            3 => (Some(Error::unavailable("no connection")), None),
            4 if self.chance(8) => (Some(Error::new(ErrorKind::Denied, "denied")), None),
            _ => (None, None),
        };
        let reply = match (request, error) {
            (Request::Step(step), Some(error)) => Reply::Step(step, Err(error)),
            (Request::Renew(claim), Some(error)) => Reply::Renewal(claim, Err(error)),
            (Request::Step(step), None) => {
                let answer = self.apply_step(&step);
                Reply::Step(step, Ok(answer))
            }
            (Request::Renew(claim), None) => {
                let answer = self.store.renew(&claim, self.now);
                self.detail(|| format!("renew {}: {answer:?}", claim.id.number));
                Reply::Renewal(claim, Ok(answer))
            }
        };
        self.replies.push_back((reply, asked_at, late));
    }

    pub(super) fn apply_now(&mut self, request: &Request) {
        match request {
            Request::Step(step) => drop(self.apply_step(step)),
            Request::Renew(claim) => {
                let answer = self.store.renew(claim, self.now);
                self.detail(|| format!("renew {}: {answer:?}", claim.id.number));
            }
        }
    }

    fn apply_step(&mut self, step: &Step) -> Answer {
        let answer = self.store.apply(step, self.now).unwrap();
        self.detail(|| format!("{} {:?}: {answer:?}", step.verb(), SlotId::of_step(step).lane));
        if self.store.wakes_others(step, &answer) {
            self.notify();
        }
        answer
    }

    /// Notifies the subscribers: for a fair mutex the next claim of the queue, otherwise all.
    pub(super) fn notify(&mut self) {
        let next = self.store.next_in_queue(self.now).map(|id| Lane::Fair(id.number));
        let subscribed = self.subscribed.lock().unwrap();
        let is_meant = |lane: &&Lane| !matches!(lane, Lane::Fair(_)) || Some(**lane) == next;
        self.notifications.extend(subscribed.iter().filter(is_meant));
    }

    pub(super) fn other_client(&mut self) {
        self.note("another client");
        if let Some(claim) = self.other.take() {
            if self.store.apply(&Step::Release(claim), self.now).unwrap() != Answer::Released(Released::NotHeld) {
                self.notify();
            }
            return;
        }
        let kind = self.family.random_kind(&mut self.rng);
        let id = ClaimId { client: ClientId::random(), number: self.number() };
        let ttl = Duration::from_millis(if self.chance(8) { self.rng.u64(50..2000) } else { 20 });
        let joins = !matches!(self.family, TestFamily::Mutex) && self.chance(2);
        let offers = joins && matches!(self.family, TestFamily::Permits);
        let claim = Claim { joins, offers, ..Claim::new(self.key.clone(), id, kind, ttl) };
        match self.store.apply(&Step::Claim(claim.clone()), self.now).unwrap() {
            Answer::Claimed(Verdict::Granted { mut fences, .. }) => {
                let fence = fences.take().unwrap().get();
                assert!(fence > self.last_fence, "the fence of another client did not rise");
                self.last_fence = fence;
                self.other = Some(claim);
            }
            answer => {
                self.detail(|| format!("another client: {answer:?}"));
                self.other = Some(claim).filter(|claim| claim.joins);
            }
        }
    }

    pub(super) fn fault(&mut self) {
        if !self.late.is_empty() {
            let at = self.rng.usize(..self.late.len());
            let late = self.late.swap_remove(at);
            if late.until.is_none_or(|until| self.now < until) && self.rng.bool() {
                self.note("a late request is applied");
                self.sums.late += 1;
                self.apply_now(&late.request);
            }
        } else if self.has_faults && self.chance(4) {
            self.note("an operator takes the lock");
            self.evicted.extend(self.store.holds().iter().map(|hold| hold.id));
            self.store.evict(self.now);
            self.notify();
            self.on_all(|| Event::Recheck);
        } else if self.has_faults && self.chance(4) {
            self.note("the store is reached again");
            self.on_all(|| Event::Reconnected);
        }
    }

    pub(super) fn on_all(&mut self, event: impl Fn() -> Event) {
        for lane in self.slots.keys().copied().collect::<Vec<_>>() {
            self.on(lane, event());
        }
    }

    pub(super) fn pass_time(&mut self) {
        let millis = match self.rng.u8(..8) {
            0 if self.has_faults => self.rng.u64(..3000),
            1 | 2 => self.rng.u64(..50),
            _ => self.rng.u64(..4),
        };
        let until = self.now + Duration::from_millis(millis);
        if self.has_faults && self.chance(4) {
            self.note("the process stops for a while");
            self.move_to(until);
            return;
        }
        // The process does not stop, so the engine's timers fire in time. In episodes without faults, answers come
        // within milliseconds.
        self.run_timers(until);
        if self.is_calm {
            self.answer_all();
        }
    }

    fn run_timers(&mut self, until: Moment) {
        while let Some(due) = self.next_due().filter(|due| *due <= until) {
            self.move_to(due.max(self.now));
            self.fire();
        }
        self.move_to(until);
    }

    pub(super) fn next_due(&self) -> Option<Moment> {
        let slots = self.slots.values().filter_map(Slot::next_due);
        slots.chain(self.releases.next_due()).min()
    }

    pub(super) fn fire(&mut self) {
        self.cx.now = self.now;
        while let Some(lane) = self.due_slot(self.now) {
            self.cx.now = self.now;
            self.change(lane, |slot, cx| slot.on(Event::Due, cx));
        }
        while let Some(step) = self.releases.take_due(self.now) {
            self.outbox.push_back(Request::Step(step));
        }
        if self.is_calm {
            self.answer_all();
        }
    }

    /// Sends and applies all requests, and delivers all answers.
    pub(super) fn answer_all(&mut self) {
        self.send();
        while !(self.steps.is_empty() && self.renewals.is_empty() && self.replies.is_empty()) {
            self.apply();
            self.deliver();
            self.send();
        }
    }

    pub(super) fn move_to(&mut self, moment: Moment) {
        self.watch_store();
        self.now = moment;
        self.late.retain(|late| late.until.is_none_or(|until| moment < until));
    }

    /// Remembers whether a call can be answered with "held" now.
    pub(super) fn watch_store(&mut self) {
        let is_resting = self.slots.values().any(|slot| matches!(slot.stage, Stage::Resting { .. }));
        let is_held = self.slots.values().any(|slot| slot.is_held() || slot.downgrade.is_some());
        let kinds: &[Kind] = match self.family {
            TestFamily::Mutex => &[Kind::Mutex],
            TestFamily::Fair => &[Kind::Fair],
            TestFamily::ReadWrite => &[Kind::Read, Kind::Write],
            TestFamily::Permits => &[Kind::Permits { take: PERMITS, of: PERMITS }],
        };
        let key = &self.key;
        let is_refused = |kind: &Kind| {
            let (id, ttl) = (ClaimId { client: ClientId::random(), number: 0 }, Duration::from_millis(1));
            let fences = NonZeroU32::MIN;
            let claim = Claim { fences, ..Claim::new(key.clone(), id, *kind, ttl) };
            let answer = self.store.clone().apply(&Step::Claim(claim), self.now).unwrap();
            matches!(answer, Answer::Claimed(Verdict::Busy { .. }))
        };
        if is_resting || is_held || kinds.iter().any(is_refused) {
            self.busy_at = self.now;
        }
    }

    /// Takes the late requests that the store can still apply.
    pub(super) fn take_late(&mut self) -> Vec<LateRequest> {
        let now = self.now;
        mem::take(&mut self.late).into_iter().filter(|late| late.until.is_none_or(|until| now < until)).collect()
    }
}
