//! The rules: what becomes of a job's state when ticks come, runs end, nodes die and operators speak.
//!
//! All of it is plain functions from a state to a state, without I/O and without a clock. A node plans on its copy and
//! swaps the record; when the record was another one, it plans again on that.

mod ends;
mod lines;
mod memory;
mod reset;
mod ticks;
mod words;

use std::{num::NonZeroU32, sync::Arc};

use bandog_core::{Holding, Line};

use crate::{
    Overlap, Paused, State,
    misfire::{self, Range},
    pauses::All,
    policy::Policy,
    state::{JobState, Past},
    trigger::{Ms, Trigger},
};

pub(crate) use self::{memory::Memory, ticks::EARLY};

/// Who plans, when, and with how much room.
pub(crate) struct View<'a> {
    pub(crate) name: &'a str,
    pub(crate) trigger: &'a Trigger,
    pub(crate) policy: &'a Policy,
    /// The store's time, as well as this node knows it.
    pub(crate) now: Ms,
    /// This node, for people.
    pub(crate) node: &'a Arc<str>,
    /// This node's session; none in this process only.
    pub(crate) session: Option<&'a Holding>,
    /// How many runs this node may start.
    pub(crate) places: usize,
    /// Whether this node may claim ticks of it: not one whose job is older than the store's.
    pub(crate) is_current: bool,
    /// The last word to all jobs that this node has heard.
    pub(crate) all: &'a All,
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
    /// The store has lost what this node remembers.
    Lost(Memory),
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
    /// To all jobs.
    All(All),
    /// One run, or all of them.
    Cancel(Option<u64>),
    Backfill(Vec<Ms>),
    /// Who sets a watermark of the future back, and why.
    Reset {
        by: String,
        reason: String,
    },
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
    pub(crate) missed: Range,
    pub(crate) lost: Range,
    /// Ticks whose node died, and that run again.
    pub(crate) died: Range,
    /// They are of a record that the store has lost.
    pub(crate) is_recalled: bool,
}

/// Plans everything at once: what has happened, the ticks that are due, and what can start now.
pub(crate) fn plan(state: &mut JobState, view: &View<'_>, events: &[Event]) -> Plan {
    let mut plan = Plan::default();
    state.obey(view, &mut plan, view.all);
    if view.session.is_some() && state.is_to_be_seen(view.now) {
        state.seen = view.now;
    }
    let told = events.iter().rposition(|event| matches!(event, Event::UnclaimedEnded(_)));
    for (nth, event) in events.iter().enumerate() {
        match event {
            Event::Ended(ended) => state.ended(view, &mut plan, ended),
            Event::Dead(holding) => state.died(view, &mut plan, holding),
            Event::Unclaimed(tick) => state.ran_unclaimed(view, *tick, told.is_none_or(|told| told < nth)),
            Event::UnclaimedEnded(past) => state.unclaimed_ended(view, &mut plan, past),
            Event::Lost(memory) => plan.is_recalled |= state.recall(view, &mut plan, memory),
        }
    }
    state.drop_deaths();
    if plan.is_recalled {
        // It is written first. The session may be lost as well, and must hold up nothing.
        state.start(&View { places: 0, ..*view }, &mut plan);
        return plan;
    }
    state.ticks(view, &mut plan);
    state.start(view, &mut plan);
    plan
}

/// Plans a word of somebody who runs nothing.
pub(crate) fn say(state: &mut JobState, name: &str, trigger: &Trigger, policy: &Policy, now: Ms, word: &Word) -> Plan {
    let (node, all) = (&Arc::from(""), &All::default());
    let view = View { name, trigger, policy, now, node, session: None, places: 0, is_current: false, all };
    let mut plan = Plan { is_news: true, ..Plan::default() };
    state.said(&view, &mut plan, word);
    state.drop_deaths();
    plan
}

impl JobState {
    /// When the next tick is due that this node may claim; `Ms::MIN` if something can start at once.
    pub(crate) fn wakes(&self, name: &str, trigger: &Trigger, policy: &Policy) -> Option<Ms> {
        if !policy.enabled || self.is_paused() {
            return None;
        }
        let tick = trigger.next(self.place())?;
        Some(misfire::due(name, policy, tick))
    }

    /// Whether something waits that could start.
    pub(crate) fn can_start(&self, policy: &Policy) -> bool {
        !self.queue.is_empty() && self.running.len() < at_a_time(policy.overlap)
    }
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
pub(crate) fn delay(trigger: &Trigger) -> Ms {
    match trigger {
        Trigger::FixedDelay(delay) => *delay,
        Trigger::Cron(_) | Trigger::FixedRate(_) | Trigger::At(_) | Trigger::Once | Trigger::Never => 0,
    }
}

#[cfg(test)]
mod tests;
