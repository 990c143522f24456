//! The rules: what becomes of a job's state when ticks come, runs end, nodes die and operators speak.
//!
//! All of it is plain functions from a state to a state, without I/O and without a clock. A node plans on its copy and
//! swaps the record; when the record was another one, it plans again on that.

use std::{num::NonZeroU32, sync::Arc};

use bandog_core::{Holding, Line, Result};

use crate::{
    Kind, OnCrash, Overlap, Paused, State,
    misfire::{self, Range},
    policy::Policy,
    state::{JobState, Live, Past, Waiting, time},
    trigger::{Ms, Trigger},
};

/// How many lines each ring of a job's history has.
pub(crate) const RING: u64 = 50;
/// How much earlier than its tick a run may be claimed, by the store's clock.
const EARLY: Ms = 500;

/// Who plans, when, and with how much room.
pub(crate) struct View<'a> {
    pub(crate) name: &'a str,
    pub(crate) trigger: &'a Trigger,
    pub(crate) policy: &'a Policy,
    /// The store's time, as well as this node knows it.
    pub(crate) now: Ms,
    /// This node, for people.
    pub(crate) node: &'a str,
    /// This node's session; none in this process only.
    pub(crate) session: Option<&'a Holding>,
    /// How many runs this node may start.
    pub(crate) places: usize,
    /// Whether this node may claim ticks of it: not one whose job is older than the store's.
    pub(crate) is_current: bool,
}

/// Something that has happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// A run of this node has ended.
    Ended(Ended),
    /// The node that had this session is dead.
    Dead(Holding),
    /// This tick ran without a claim while the store was away.
    Unclaimed(Ms),
    /// And this is how it ended.
    UnclaimedEnded(Arc<Past>),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) id: u64,
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
    pub(crate) state: State,
    pub(crate) at: Ms,
    pub(crate) error: Option<String>,
    pub(crate) note: Option<String>,
}

/// What operators say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    Run,
    Pause(Paused),
    Resume,
    /// One run, or all of them.
    Cancel(Option<u64>),
    Backfill(Vec<Ms>),
}

/// What follows, once the state is written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// How many runs this node claims.
    pub(crate) starts: usize,
    /// Lines for the history.
    pub(crate) lines: Vec<Line>,
    /// The store must refuse the state before this time.
    pub(crate) not_before: Option<Ms>,
    /// Something could start, but this node has no place for it.
    pub(crate) is_starved: bool,
    /// Other nodes have something to do now.
    pub(crate) is_news: bool,
    /// Runs that a word has reached.
    pub(crate) reached: Vec<u64>,
    /// A run ended that was not this node's any more.
    pub(crate) is_fenced: bool,
    /// Ticks that will not run, by why.
    pub(crate) skipped: u64,
    pub(crate) missed: u64,
    pub(crate) lost: u64,
}

/// Plans everything at once: what has happened, the ticks that are due, and what can start now.
pub(crate) fn plan(state: &mut JobState, view: &View<'_>, events: &[Event]) -> Plan {
    let mut plan = Plan::default();
    for event in events {
        match event {
            Event::Ended(ended) => state.ended(view, &mut plan, ended),
            Event::Dead(holding) => state.died(view, &mut plan, holding),
            Event::Unclaimed(tick) => state.watermark = state.watermark.max(*tick),
            Event::UnclaimedEnded(past) => state.unclaimed_ended(view, &mut plan, past),
        }
    }
    state.ticks(view, &mut plan);
    state.start(view, &mut plan);
    plan
}

/// Plans a word of somebody who runs nothing.
pub(crate) fn say(state: &mut JobState, name: &str, trigger: &Trigger, policy: &Policy, now: Ms, word: &Word) -> Plan {
    let view = View { name, trigger, policy, now, node: "", session: None, places: 0, is_current: false };
    let mut plan = Plan { is_news: true, ..Plan::default() };
    state.said(&view, &mut plan, word);
    plan
}

impl JobState {
    /// When the next tick is due that this node may claim; `Ms::MIN` if something can start at once.
    pub(crate) fn wakes(&self, name: &str, trigger: &Trigger, policy: &Policy) -> Option<Ms> {
        if !policy.enabled || self.paused.is_some() {
            return None;
        }
        let tick = trigger.next(self.place())?;
        Some(misfire::due(name, policy, tick))
    }

    /// Whether something waits that could start.
    pub(crate) fn can_start(&self, policy: &Policy) -> bool {
        !self.queue.is_empty() && self.running.len() < at_a_time(policy.overlap)
    }

    fn ended(&mut self, view: &View<'_>, plan: &mut Plan, ended: &Ended) {
        let is_it = |live: &Live| live.id == ended.id && live.fence == ended.fence;
        let Some(at) = self.running.iter().position(is_it) else {
            plan.is_fenced = true;
            return;
        };
        let live = self.running.remove(at);
        self.busy = Some((live.started, ended.at.max(live.started)));
        let is_cut_short = matches!(ended.state, State::Interrupted | State::Lost);
        let again = is_cut_short && view.policy.on_crash == OnCrash::Retry && !live.cancel;
        if again {
            self.queue.push_front(Waiting(live.id, live.kind, live.tick, ended.attempt + 1));
            plan.is_news = true;
        } else {
            self.next_due = Some(ended.at.saturating_add(delay(view.trigger)));
        }
        match ended.state {
            State::Ok => {
                self.counts.ok += 1;
                self.streak = 0;
                self.last_success = self.last_success.max(Some(live.tick));
            }
            State::Failed | State::TimedOut => {
                self.counts.failed += 1;
                self.streak += 1;
                self.pause_after(view);
            }
            // Its tick is counted when it ends for good.
            State::Interrupted | State::Lost if again => {}
            State::Cancelled | State::Interrupted => self.counts.failed += 1,
            State::Lost => {
                self.counts.lost += 1;
                plan.lost += 1;
            }
            // No run ends so.
            State::Queued | State::Running | State::Skipped | State::Missed => {}
        }
        self.remember(view, plan, live, ended.clone());
    }

    fn unclaimed_ended(&mut self, view: &View<'_>, plan: &mut Plan, past: &Past) {
        self.next_due = Some(past.ended.saturating_add(delay(view.trigger)));
        if past.state == State::Ok {
            self.counts.ok += 1;
            self.last_success = self.last_success.max(Some(past.tick));
        } else {
            self.counts.failed += 1;
        }
        self.last = Some(Box::new(Past { note: None, ..past.clone() }));
        self.line(plan, past.clone());
    }

    fn pause_after(&mut self, view: &View<'_>) {
        if view.policy.pause_after.is_some_and(|most| self.streak >= most.get()) && self.paused.is_none() {
            let reason = format!("{} runs failed in a row", self.streak);
            self.paused = Some(Box::new(Paused { by: "bandog".into(), reason, at: time(view.now) }));
        }
    }

    fn died(&mut self, view: &View<'_>, plan: &mut Plan, holding: &Holding) {
        while let Some(at) = self.running.iter().position(|live| live.holding().as_ref() == Some(holding)) {
            let live = self.running.remove(at);
            // Ticks since then did not come while it ran: nobody knows when it died.
            let (id, attempt, fence) = (live.id, live.attempt, live.fence);
            if view.policy.on_crash == OnCrash::Retry && !live.cancel {
                self.queue.push_front(Waiting(id, live.kind, live.tick, attempt + 1));
                continue;
            }
            self.counts.lost += 1;
            plan.lost += 1;
            self.next_due = Some(view.now.saturating_add(delay(view.trigger)));
            let error = Some("its node died or lost its session".to_owned());
            let ended = Ended { id, fence, attempt, state: State::Lost, at: view.now, error, note: None };
            self.remember(view, plan, live, ended);
        }
    }

    fn said(&mut self, view: &View<'_>, plan: &mut Plan, word: &Word) {
        match word {
            Word::Run => plan.reached.push(self.enqueue(Kind::Manual, view.now)),
            Word::Backfill(ticks) => {
                for tick in ticks {
                    let id = self.enqueue(Kind::Backfill, *tick);
                    plan.reached.push(id);
                }
            }
            Word::Pause(paused) => self.paused = Some(Box::new(paused.clone())),
            Word::Resume => self.resume(view, plan),
            Word::Cancel(run) => self.cancel(view, plan, *run),
        }
    }

    /// Ticks that came meanwhile are skipped.
    fn resume(&mut self, view: &View<'_>, plan: &mut Plan) {
        if self.paused.take().is_none() {
            return;
        }
        self.streak = 0;
        let skipped = Range::until(view.trigger, self.place(), view.now);
        if skipped.ticks > 0 {
            self.watermark = skipped.last;
            if self.spec.as_ref().is_some_and(|spec| !spec.enabled) {
                // They would not have run anyway.
                return;
            }
            self.next_due = self.next_due.map(|due| due.max(view.now));
            self.leave_out(view, plan, State::Skipped, skipped);
        }
    }

    fn cancel(&mut self, view: &View<'_>, plan: &mut Plan, run: Option<u64>) {
        let is_meant = |id: u64| run.is_none_or(|run| run == id);
        for live in self.running.iter_mut().filter(|live| is_meant(live.id)) {
            live.cancel = true;
            plan.reached.push(live.id);
        }
        let (gone, left) = self.queue.iter().partition::<Vec<Waiting>, _>(|waiting| is_meant(waiting.0));
        self.queue = left.into();
        for Waiting(id, kind, tick, attempt) in gone {
            self.counts.failed += 1;
            plan.reached.push(id);
            let (due, ended) = (tick, view.now);
            let (from, node, fence, started, error, note) = (None, None, None, None, None, None);
            let state = State::Cancelled;
            self.line(
                plan,
                Past { id, kind, tick, from, ticks: 1, attempt, node, fence, due, started, ended, state, error, note },
            );
        }
        if self.running.is_empty() && self.queue.is_empty() {
            self.next_due = self.next_due.or(Some(view.now.saturating_add(delay(view.trigger))));
        }
    }

    fn ticks(&mut self, view: &View<'_>, plan: &mut Plan) {
        if !view.policy.enabled || !view.is_current || self.paused.is_some() {
            return;
        }
        let busy = self.busy.filter(|_| at_a_time(view.policy.overlap) == 1);
        let since = misfire::since(view.name, view.trigger, view.policy, self.place(), busy, view.now);
        let Some(last) = since.last else { return };
        self.watermark = last;
        self.next_due = None;
        plan.not_before = Some(last.saturating_sub(EARLY));
        let mut skipped = Range::default();
        let is_blocked = !self.running.is_empty();
        let mut runs = since.run;
        match view.policy.overlap {
            Overlap::Skip => {
                since.overlapped.iter().for_each(|tick| skipped.add(*tick));
                // Ticks that waited together for a place or a node would come while the one before them runs.
                let caught = runs.iter().filter(|(_, kind)| *kind == Kind::CatchUp).count();
                let latest = runs.len().saturating_sub(1).max(caught);
                runs.drain(caught..latest).for_each(|(tick, _)| skipped.add(tick));
            }
            Overlap::Queue(_) | Overlap::Allow(_) | Overlap::Replace => {
                runs.extend(since.overlapped.iter().map(|tick| (*tick, Kind::Scheduled)));
                runs.sort_unstable_by_key(|(tick, _)| *tick);
            }
        }
        if view.policy.overlap == Overlap::Replace {
            self.replace(view, plan, &mut runs, &mut skipped);
        }
        for (tick, kind) in runs {
            let waiting = self.queue.len();
            let has_room = match view.policy.overlap {
                Overlap::Skip => !is_blocked,
                Overlap::Queue(most) => waiting < most_of(most),
                Overlap::Allow(most) => waiting + self.running.len() < most_of(most),
                Overlap::Replace => true,
            };
            if has_room {
                self.enqueue(kind, tick);
            } else {
                skipped.add(tick);
            }
        }
        self.leave_out(view, plan, State::Skipped, skipped);
        self.leave_out(view, plan, State::Missed, since.missed);
        if self.running.is_empty() && self.queue.is_empty() {
            self.next_due = Some(view.now.saturating_add(delay(view.trigger)));
        }
    }

    /// The last tick takes the place of everything before it.
    fn replace(&mut self, view: &View<'_>, plan: &mut Plan, runs: &mut Vec<(Ms, Kind)>, skipped: &mut Range) {
        let Some(last) = runs.pop() else { return };
        runs.drain(..).for_each(|(tick, _)| skipped.add(tick));
        runs.push(last);
        let by_hand = |waiting: &Waiting| matches!(waiting.1, Kind::Manual | Kind::Backfill);
        let (kept, gone) = self.queue.iter().partition::<Vec<Waiting>, _>(|waiting| by_hand(waiting));
        gone.iter().for_each(|waiting| skipped.add(waiting.2));
        self.queue = kept.into();
        for live in &mut self.running {
            live.cancel = true;
            plan.is_news |= live.node != view.node;
        }
    }

    fn start(&mut self, view: &View<'_>, plan: &mut Plan) {
        while self.can_start(view.policy) {
            if plan.starts >= view.places {
                plan.is_starved = view.is_current;
                return;
            }
            let Some(Waiting(id, kind, tick, attempt)) = self.queue.pop_front() else { return };
            self.fence = (self.fence + 1).max(u64::try_from(view.now.saturating_mul(1000)).unwrap_or(0));
            let due = if kind == Kind::Scheduled { misfire::due(view.name, view.policy, tick) } else { tick };
            let session = view.session.map(|held| (held.key.to_string(), held.id.to_string()));
            let (fence, started, node) = (self.fence, view.now, view.node.to_owned());
            self.running.reserve_exact(1);
            self.running.push(Live { id, kind, tick, due, attempt, fence, started, node, session, cancel: false });
            plan.starts += 1;
        }
    }

    fn enqueue(&mut self, kind: Kind, tick: Ms) -> u64 {
        self.run += 1;
        if self.queue.is_empty() {
            self.queue.reserve_exact(1);
        }
        self.queue.push_back(Waiting(self.run, kind, tick, 1));
        self.run
    }

    /// Writes down a run that has ended.
    fn remember(&mut self, view: &View<'_>, plan: &mut Plan, live: Live, ended: Ended) {
        let past = Past {
            id: live.id,
            kind: live.kind,
            tick: live.tick,
            from: None,
            ticks: 1,
            attempt: ended.attempt,
            node: Some(live.node),
            fence: Some(live.fence),
            due: live.due,
            started: Some(live.started),
            ended: ended.at,
            state: ended.state,
            error: ended.error,
            note: ended.note,
        };
        if view.session.is_some() || self.spec.is_some() {
            self.last = Some(Box::new(Past { note: None, ..past.clone() }));
        }
        self.line(plan, past);
    }

    /// Writes down ticks that do not run, as one.
    fn leave_out(&mut self, view: &View<'_>, plan: &mut Plan, state: State, range: Range) {
        let Some(first) = range.first else { return };
        if state == State::Missed {
            self.counts.missed += range.ticks;
            plan.missed += range.ticks;
        } else {
            self.counts.skipped += range.ticks;
            plan.skipped += range.ticks;
        }
        let past = Past {
            id: 0,
            kind: Kind::Scheduled,
            tick: range.last,
            from: Some(first),
            ticks: range.ticks,
            attempt: 0,
            node: None,
            fence: None,
            due: range.last,
            started: None,
            ended: view.now,
            state,
            error: None,
            note: None,
        };
        self.line(plan, past);
    }

    /// A line in the ring that its state belongs to. Jobs of this process have no history to write.
    fn line(&mut self, plan: &mut Plan, past: Past) {
        if self.spec.is_none() {
            return;
        }
        let (ring, name) = match past.state {
            State::Ok => (0, "ok"),
            State::Skipped | State::Missed => (2, "left"),
            State::Queued | State::Running => return,
            State::Failed | State::TimedOut | State::Cancelled | State::Interrupted | State::Lost => (1, "failed"),
        };
        let slot = format!("{name}:{}", self.rings[ring] % RING);
        self.rings[ring] += 1;
        if let Ok(value) = to_line(&past) {
            plan.lines.push(Line { slot, value });
        }
    }
}

fn to_line(past: &Past) -> Result<String> {
    serde_json::to_string(past).map_err(|source| bandog_core::Error::misused("a line of history").caused_by(source))
}

/// How many runs the overlap policy allows at a time.
fn at_a_time(overlap: Overlap) -> usize {
    match overlap {
        Overlap::Skip | Overlap::Queue(_) | Overlap::Replace => 1,
        Overlap::Allow(most) => most_of(most),
    }
}

fn most_of(most: NonZeroU32) -> usize {
    usize::try_from(most.get()).unwrap_or(usize::MAX)
}

/// A fixed delay's; what other triggers keep as their next due is never asked.
fn delay(trigger: &Trigger) -> Ms {
    match trigger {
        Trigger::FixedDelay(delay) => *delay,
        Trigger::Cron(_) | Trigger::FixedRate(_) | Trigger::At(_) | Trigger::Once | Trigger::Never => 0,
    }
}

#[cfg(test)]
mod tests;
