//! Planning one job, and sending what was planned.

use std::sync::Arc;

use bandog_core::Swap;
use bandog_cron::Time;

use super::{
    Dispatch, JobId, ROUND, Turn, at,
    desk::{BATCH, key},
    entry::Flight,
};
use crate::{
    pauses::All,
    plan::{Event, View, plan},
    state::JobState,
};

impl Dispatch {
    pub(super) fn plan_ready(&mut self) {
        for _ in 0..ROUND {
            let Some((job, turn)) = self.ready.pop_front() else { return };
            self.plan_one(job, turn);
        }
    }

    pub(super) fn plan_one(&mut self, job: JobId, turn: Turn) {
        let is_stopping = self.stopping.is_some();
        let places = self.free();
        let entry = &mut self.entries[at(job)];
        if entry.flight.is_some() {
            entry.again = true;
            return;
        }
        if entry.is_shared && self.is_away && !is_stopping {
            self.open(job, turn);
        }
        let entry = &self.entries[at(job)];
        let runs_here = entry.state.as_ref().is_some_and(|state| !state.running.is_empty());
        let has_news = !entry.events.is_empty() || self.is_behind(entry);
        if !has_news && (places == 0 || (turn == Turn::Usual && !self.line.is_empty())) && !runs_here {
            // Whoever has a place may claim it: other nodes now, this one later.
            if !is_stopping {
                self.stand_in_line(job);
            }
            return;
        }
        let places = if self.line.is_empty() || turn == Turn::Served { places } else { 0 };
        if entry.is_shared { self.plan_shared(job, places) } else { self.plan_local(job, places) }
    }

    pub(super) fn plan_local(&mut self, job: JobId, places: usize) {
        let now = self.time.now();
        let is_current = self.stopping.is_none();
        let started = self.since(&self.entries[at(job)]);
        let entry = &mut self.entries[at(job)];
        let policy = &*entry.task.policy;
        let mut state = entry.state.take().unwrap_or_else(|| Box::new(JobState::new(policy, started, None)));
        let view = View {
            name: &entry.task.name,
            trigger: &entry.task.trigger,
            policy,
            now,
            node: &self.node,
            session: None,
            places,
            is_current,
            // No word reaches a job that is not in the store.
            all: &All::default(),
        };
        let events = std::mem::take(&mut entry.events);
        let plan = plan(&mut state, &view, &events);
        entry.state = Some(state);
        self.follow(job, &plan);
    }

    pub(super) fn plan_shared(&mut self, job: JobId, places: usize) {
        let now = self.time.now();
        let may_claim = self.may_claim(job);
        let node = Arc::clone(&self.node);
        let Some(desk) = &mut self.desk else { return };
        let entry = &mut self.entries[at(job)];
        let policy = entry.policy();
        let lease = policy.lease.unwrap_or_else(|| desk.client().ttl());
        let session = desk.session(lease);
        if session.is_none() && entry.events.is_empty() {
            // The session's coming wakes every job of its lease.
            return;
        }
        let Some(state) = &entry.state else { return };
        let is_current = may_claim && session.is_some();
        let view = View {
            name: &entry.task.name,
            trigger: &entry.task.trigger,
            policy: &policy,
            now,
            node: &node,
            session: session.as_ref(),
            places: if is_current { places } else { 0 },
            is_current,
            all: &self.pauses.standing.all,
        };
        let mut next = (**state).clone();
        let plan = plan(&mut next, &view, &entry.events);
        // A tick that ran unclaimed is taken in already, but the store does not know it.
        let is_told = !entry.events.iter().any(|event| matches!(event, Event::Unclaimed(_)));
        if next == **state && is_told {
            entry.events.clear();
            self.follow(job, &plan);
            return;
        }
        let (Ok(key), Ok(value)) = (key(&entry.task.name), next.write()) else { return };
        let not_before = plan.not_before.map(|time| Time::from_millisecond(time).into());
        let held = session.filter(|_| plan.starts > 0 || plan.not_before.is_some());
        let lines = plan.lines.clone();
        let swap = Swap { lines, not_before, held, ..Swap::new(key, entry.version, value) };
        self.reserved += plan.starts;
        let events = entry.events.len();
        entry.flight = Some(Box::new(Flight { next, plan, events }));
        self.out.push((job, swap));
    }

    /// Sends the round's swaps together.
    pub(super) fn send(&mut self) {
        let sent = self.time.moment();
        let Some(desk) = &mut self.desk else { return };
        while !self.out.is_empty() {
            let rest = self.out.split_off(self.out.len().min(BATCH));
            let (jobs, swaps) = std::mem::replace(&mut self.out, rest).into_iter().unzip();
            desk.swap(sent, jobs, swaps);
        }
        desk.tell();
    }
}
