//! Checks count-down latches. A latch is set many times in a run. Each successful `set` begins a *life* of the latch,
//! which ends when the latch opens.
//!
//! The store applies an operation at some time between the begin and the end of its call. So for each observation there
//! is a least and a greatest number of count-downs that the store can have applied before.

use super::{Findings, HORIZON, History, Name, Op, Outcome, StepCall};
use crate::{history::Nanos, plan::LATCHES};

const EARLY: &str = "a latch opens only after as many count-downs as it was set to";
const TWICE: &str = "each count-down of a latch counts once";
const NOT_COUNTED: &str = "each answered count-down of a latch counts";

/// Checks all latches.
pub(super) fn check(history: &History, findings: &mut Findings) {
    for name in LATCHES {
        let mut calls: Vec<_> = history.steps.iter().filter(|call| call.object == Name(name)).collect();
        calls.sort_by_key(|call| call.begin);
        let mut lives: Vec<_> = calls.iter().copied().filter_map(Life::of).collect();
        let mut before = 0;
        for life in &mut lives {
            life.before = before;
            before = before.max(life.to);
        }
        let losses = history.faults().filter(|fault| fault.name.is_none() && fault.kind.undoes());
        let losses = losses.map(|fault| (fault.from, fault.to)).collect();
        let latch = Latch { name, calls, lives, losses };
        latch.calls.iter().for_each(|call| latch.check(call, findings));
    }
}

/// The calls for one latch.
struct Latch<'a> {
    name: usize,
    /// The calls in the order in which they began.
    calls: Vec<&'a StepCall>,
    /// The lives in the order in which the calls of `set` began.
    lives: Vec<Life>,
    /// The time spans in which the store may have lost its data.
    losses: Vec<(Nanos, Nanos)>,
}

/// A successful call of `set`: the time span in which the store applied it, and the count.
#[derive(Debug, Clone, Copy)]
struct Life {
    from: Nanos,
    to: Nanos,
    count: u64,
    /// The end of the last earlier call of `set`. Such a call can have begun long before: a call without an answer is
    /// repeated.
    before: Nanos,
}

impl Life {
    fn of(call: &StepCall) -> Option<Self> {
        match (call.op, call.outcome) {
            (Op::Set(count), Some(Outcome::Ok)) => Some(Self { from: call.begin, to: call.end, count, before: 0 }),
            _ => None,
        }
    }
}

impl Latch<'_> {
    /// Checks what this call shows about the count.
    fn check(&self, call: &StepCall, findings: &mut Findings) {
        // The last life that certainly had begun before this call.
        let begun = self.lives.partition_point(|life| life.from < call.begin);
        let Some(index) = self.lives[..begun].iter().rposition(|life| life.to <= call.begin) else { return };
        let Some(outcome) = call.outcome else { return };
        match (call.op, outcome) {
            (Op::Set(_) | Op::Wait, Outcome::Ok) | (Op::CountDown(_) | Op::Count, Outcome::Found(0)) => {
                self.was_open(call, self.lives[index], findings);
            }
            (Op::CountDown(_) | Op::Count, Outcome::Found(count)) => self.had(call, index, (count, count), findings),
            (Op::Set(_) | Op::Wait, Outcome::No) | (Op::Delete, Outcome::Ok) => {
                self.had(call, index, (1, u64::MAX), findings);
            }
            // The latch was open. But it might have been set and deleted during this call.
            (Op::Delete, Outcome::No) => self.was_open(call, self.lives[index], findings),
            _ => {}
        }
    }

    /// The latch was open during this call. So the life that had begun before was over.
    fn was_open(&self, call: &StepCall, life: Life, findings: &mut Findings) {
        let to = call.end;
        if self.is_disturbed(life, to) {
            return;
        }
        let possible = self.sum(life.from, to, |down| down.may_be_between(life.from, to));
        if possible < life.count {
            let set = life.count;
            let what = format!("{call} found the latch open after at most {possible} count-downs of {set}");
            findings.broken_at(EARLY, &Name(self.name), to, what);
        }
    }

    /// The count was between these numbers during this call. It is checked if it certainly was the count of this life.
    fn had(&self, call: &StepCall, index: usize, (least, greatest): (u64, u64), findings: &mut Findings) {
        let (life, to) = (self.lives[index], call.end);
        let is_alone = life.before <= life.from && self.lives.get(index + 1).is_none_or(|next| next.from >= to);
        if !is_alone || self.is_disturbed(life, to) {
            return;
        }
        let is_before = |down: &StepCall| down.begin >= life.to && down.is_sure() && down.end <= call.begin;
        let certain =
            self.sum(life.from, to, |down| is_before(down) || std::ptr::eq(down, call) && down.begin >= life.to);
        let possible = self.sum(life.from, to, |down| down.may_be_between(life.from, to));
        if life.count.saturating_sub(certain) < least {
            let what = format!("{call} found a closed latch after {certain} count-downs of {}", life.count);
            findings.broken_at(NOT_COUNTED, &Name(self.name), to, what);
        }
        if greatest < life.count.saturating_sub(possible) {
            let what = format!("{call} came after at most {possible} count-downs of {}", life.count);
            findings.broken_at(TWICE, &Name(self.name), to, what);
        }
    }

    /// Whether a deletion, the loss of the store's data, or a `set` without an answer can have changed the count between
    /// the beginning of this life and `to`.
    fn is_disturbed(&self, life: Life, to: Nanos) -> bool {
        let unknown = |call: &StepCall| match call.op {
            Op::Delete => call.outcome != Some(Outcome::No),
            Op::Set(_) => !call.is_sure(),
            _ => false,
        };
        self.losses.iter().any(|(begin, end)| *begin <= to && *end >= life.from)
            || self.near(life.from, to).any(|call| unknown(call) && call.may_be_between(life.from, to))
    }

    /// The sum of these count-downs.
    fn sum(&self, from: Nanos, to: Nanos, which: impl Fn(&StepCall) -> bool) -> u64 {
        let number = |call: &&StepCall| if let Op::CountDown(number) = call.op { Some(number) } else { None };
        self.near(from, to).filter(|call| which(call)).filter_map(|call| number(&call)).sum()
    }

    /// The calls that can have changed the latch between `from` and `to`, and some others.
    fn near(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = &StepCall> {
        let begin = self.calls.partition_point(|call| call.begin < from.saturating_sub(HORIZON));
        let end = self.calls.partition_point(|call| call.begin <= to);
        self.calls[begin..end].iter().copied()
    }
}
