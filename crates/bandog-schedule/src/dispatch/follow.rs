//! What follows from a state that stands: tasks that begin or are dropped, and the next tick.

use std::{cmp::Reverse, collections::HashSet, sync::Arc, time::Duration};

use bandog_core::Fence;
use bandog_cron::Time;

use super::{
    Dispatch, Entry, JobId, at,
    carry::{Hand, Limit, Order},
};
use crate::{
    cancel::{Cancel, Why},
    plan::{Event, Plan},
    run::Facts,
    state::Live,
    trigger::{Ms, Place},
};

/// How much later than an idle node a node claims whose pool is nearly full.
const STAND_BACK: Ms = 20;

impl Dispatch {
    /// What follows from a state that stands: tasks, the next tick, a place in the line.
    pub(super) fn follow(&mut self, job: JobId, plan: &Plan) {
        self.reconcile(job);
        self.leave_out(job, plan);
        self.note_backlog(job);
        if plan.is_news
            && let Some(desk) = &mut self.desk
        {
            desk.add_news(&self.entries[at(job)].task.name);
        }
        if plan.is_starved && self.stopping.is_none() {
            self.stand_in_line(job);
        }
        self.arm(job);
    }

    /// Makes what runs here what the state says that should.
    pub(super) fn reconcile(&mut self, job: JobId) {
        let entry = &self.entries[at(job)];
        let Some(state) = &entry.state else { return };
        let session = match &mut self.desk {
            Some(desk) if entry.is_shared => {
                let lease = entry.task.policy.lease.unwrap_or_else(|| desk.client().ttl());
                desk.session(lease)
            }
            Some(_) | None => None,
        };
        let is_shared = entry.is_shared;
        let ended = |event: &Event| if let Event::Ended(ended) = event { Some(ended.fence) } else { None };
        let over: Vec<u64> = entry.events.iter().filter_map(ended).collect();
        let is_ours = |live: &&Live| {
            let is_here = !is_shared || (session.is_some() && live.holding() == session);
            is_here && !over.contains(&live.fence)
        };
        if is_shared {
            let ours: HashSet<u64> = state.running.iter().filter(is_ours).map(|live| live.fence).collect();
            let here = self.runs.range((job, 0)..=(job, u64::MAX));
            here.filter(|((_, fence), hand)| !hand.is_unclaimed() && !ours.contains(fence))
                .for_each(|(_, hand)| hand.drop_now(Why::Lost));
        }
        let mut nth = 0;
        while let Some(live) = self.running(job).get(nth) {
            nth += 1;
            match self.runs.get(&(job, live.fence)) {
                _ if !is_ours(&live) => {}
                Some(hand) if live.cancel => hand.cancel(Why::Asked),
                Some(_) => {}
                None => {
                    let new = self.prepare(job, live);
                    self.begin(new);
                }
            }
        }
    }

    fn running(&self, job: JobId) -> &[Live] {
        self.entries[at(job)].state.as_ref().map_or(&[], |state| &state.running)
    }

    /// What begins this run, and a hand on it.
    pub(super) fn prepare(&self, job: JobId, live: &Live) -> (Order, Hand) {
        let entry = &self.entries[at(job)];
        let last_success = entry.state.as_ref().and_then(|state| state.last_success);
        let facts = Facts {
            name: Arc::clone(&entry.task.name),
            id: live.id,
            tick: Time::from_millisecond(live.tick),
            due: Time::from_millisecond(live.due),
            started: live.started,
            kind: live.kind,
            fence: Fence::new(live.fence),
            last_success: last_success.map(Time::from_millisecond),
            note: std::sync::Mutex::default(),
            cancel: Cancel::default(),
        };
        let order = Order {
            job,
            attempt: live.attempt,
            facts: Arc::new(facts),
            body: Arc::clone(&entry.task.body),
            policy: entry.policy(),
            limit: self.limit(entry),
            mail: self.starts.mail(),
        };
        let hand = order.hand(self.time.moment());
        if live.cancel {
            hand.cancel(Why::Asked);
        }
        if self.stopping.is_some() {
            hand.stop();
        }
        if self.stopping.as_ref().is_some_and(|stopping| stopping.is_cancelled) {
            hand.cancel(Why::Stop);
        }
        (order, hand)
    }

    pub(super) fn begin(&mut self, (order, hand): (Order, Hand)) {
        self.runs.insert((order.job, order.facts.fence.get()), hand);
        self.starts.push(order);
    }

    /// When it is too late for another try of a run that begins now.
    fn limit(&self, entry: &Entry) -> Option<Box<Limit>> {
        let limit = entry.task.policy.retry.limit(|| self.next_tick(entry))?;
        let clock = self.time.clock();
        Some(Box::new(Limit { clock, until: clock.now() + limit }))
    }

    /// How long it is until the job's next tick.
    fn next_tick(&self, entry: &Entry) -> Option<Duration> {
        let place = entry.state.as_ref().filter(|_| entry.task.policy.enabled)?.place();
        let next = entry.task.trigger.next(Place { watermark: self.time.now(), ..place })?;
        Some(self.time.until(next))
    }

    /// Says when the job is looked at again.
    pub(super) fn arm(&mut self, job: JobId) {
        let busy = Ms::try_from(self.runs.len()).unwrap_or(Ms::MAX);
        let size = Ms::try_from(self.pool).unwrap_or(Ms::MAX);
        let entry = &self.entries[at(job)];
        if entry.is_in_line {
            return;
        }
        let Some(wakes) = entry.wakes(self.since(entry)) else { return };
        if !self.may_claim(job) {
            // Somebody with a newer job claims its ticks, or this node stops, or has no session yet.
            return;
        }
        let back = if entry.is_shared { STAND_BACK.saturating_mul(busy) / size } else { 0 };
        self.arm_at(job, wakes.saturating_add(back.min(STAND_BACK)));
    }

    pub(super) fn may_claim(&self, job: JobId) -> bool {
        let entry = &self.entries[at(job)];
        let spec = entry.state.as_ref().and_then(|state| state.spec.as_ref());
        let is_held = entry.is_shared && (self.is_held || self.runs_unclaimed(job));
        self.stopping.is_none() && !is_held && spec.is_none_or(|spec| spec.revision <= entry.task.policy.revision)
    }

    /// Whether a run of it is under way here that the record knows nothing of: its end comes first.
    fn runs_unclaimed(&self, job: JobId) -> bool {
        self.runs.range((job, 0)..=(job, u64::MAX)).any(|(_, hand)| hand.is_unclaimed())
    }

    pub(super) fn arm_at(&mut self, job: JobId, time: Ms) {
        let entry = &mut self.entries[at(job)];
        if entry.armed != time {
            entry.armed = time;
            self.agenda.push(Reverse((time, job)));
        }
    }
}
