//! Plans jobs, and sends the swaps.

use std::sync::Arc;

use bandog_core::Swap;
use bandog_cron::Time;

use super::{
    Dispatcher, JobId, MAX_PER_ROUND, SlotPriority, at,
    entry::PendingSwap,
    store::{BATCH, job_key},
};
use crate::{
    pauses::AllJobsPause,
    plan::{Event, PlanContext, plan},
    state::JobState,
};

impl Dispatcher {
    pub(super) fn plan_ready(&mut self) {
        for _ in 0..MAX_PER_ROUND {
            let Some((job, priority)) = self.ready.pop_front() else { return };
            self.plan_one(job, priority);
        }
    }

    pub(super) fn plan_one(&mut self, job: JobId, priority: SlotPriority) {
        let is_stopping = self.stopping.is_some();
        let free_slots = self.free_slots();
        let entry = &mut self.entries[at(job)];
        if entry.pending.is_some() {
            entry.is_ready = true;
            return;
        }
        if entry.is_shared && self.is_store_down && !is_stopping {
            self.run_unclaimed(job, priority);
        }
        let entry = &self.entries[at(job)];
        let runs_here = entry.state.as_ref().is_some_and(|state| !state.running.is_empty());
        let has_news = !entry.events.is_empty() || self.needs_write(entry);
        if !has_news
            && (free_slots == 0 || (priority == SlotPriority::Normal && !self.slot_queue.is_empty()))
            && !runs_here
        {
            // Another node with a free slot may claim it now, this node later.
            if !is_stopping {
                self.join_slot_queue(job);
            }
            return;
        }
        let free_slots =
            if self.slot_queue.is_empty() || priority == SlotPriority::NextInQueue { free_slots } else { 0 };
        if entry.is_shared { self.plan_shared(job, free_slots) } else { self.plan_local(job, free_slots) }
    }

    pub(super) fn plan_local(&mut self, job: JobId, free_slots: usize) {
        let now = self.time.now();
        let is_current = self.stopping.is_none();
        let started = self.since(&self.entries[at(job)]);
        let entry = &mut self.entries[at(job)];
        let policy = &*entry.definition.policy;
        let mut state = entry.state.take().unwrap_or_else(|| Box::new(JobState::new(policy, started, None)));
        let context = PlanContext {
            name: &entry.definition.name,
            trigger: &entry.definition.trigger,
            policy,
            now,
            node: &self.node,
            session: None,
            free_slots,
            is_current,
            // Commands to all jobs do not reach a job outside the store.
            all: &AllJobsPause::default(),
        };
        let events = std::mem::take(&mut entry.events);
        let plan = plan(&mut state, &context, &events);
        entry.state = Some(state);
        self.apply(job, &plan);
    }

    pub(super) fn plan_shared(&mut self, job: JobId, free_slots: usize) {
        let now = self.time.now();
        let may_claim = self.may_claim(job);
        let node = Arc::clone(&self.node);
        let Some(store) = &mut self.store else { return };
        let entry = &mut self.entries[at(job)];
        let policy = entry.policy();
        let lease = policy.lease.unwrap_or_else(|| store.client().ttl());
        let session = store.session(lease);
        if session.is_none() && entry.events.is_empty() {
            // All jobs of this lease are planned again when the session is claimed.
            return;
        }
        let Some(state) = &entry.state else { return };
        let is_current = may_claim && session.is_some();
        let context = PlanContext {
            name: &entry.definition.name,
            trigger: &entry.definition.trigger,
            policy: &policy,
            now,
            node: &node,
            session: session.as_ref(),
            free_slots: if is_current { free_slots } else { 0 },
            is_current,
            all: &self.pauses.stored.all,
        };
        let mut next = (**state).clone();
        let plan = plan(&mut next, &context, &entry.events);
        // The local state contains a tick that ran unclaimed, but the store does not.
        let is_told = !entry.events.iter().any(|event| matches!(event, Event::RanUnclaimed(_)));
        if next == **state && is_told {
            entry.events.clear();
            self.apply(job, &plan);
            return;
        }
        let (Ok(key), Ok(value)) = (job_key(&entry.definition.name), next.write()) else { return };
        let not_before = plan.not_before.map(|time| Time::from_millisecond(time).into());
        let held = session.filter(|_| plan.starts > 0 || plan.not_before.is_some());
        let lines = plan.lines.clone();
        let swap = Swap { lines, not_before, held, ..Swap::new(key, entry.version, value) };
        self.reserved += plan.starts;
        let events = entry.events.len();
        entry.pending = Some(Box::new(PendingSwap { next, plan, events }));
        self.swaps.push((job, swap));
    }

    /// Sends the round's swaps together, and publishes the news.
    pub(super) fn send(&mut self) {
        let sent = self.time.moment();
        let Some(store) = &mut self.store else { return };
        while !self.swaps.is_empty() {
            let rest = self.swaps.split_off(self.swaps.len().min(BATCH));
            let (jobs, swaps) = std::mem::replace(&mut self.swaps, rest).into_iter().unzip();
            store.swap(sent, jobs, swaps);
        }
        store.publish_news();
    }
}
