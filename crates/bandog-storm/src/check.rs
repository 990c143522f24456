//! What must be true of a history, whatever was done to those who wrote it.
//!
//! - `beliefs`: no two believe at the same time that they hold one lock, and fences rise;
//! - `resource`: no holder writes with a smaller fence after a greater one, as long as it believes;
//! - `calls`: every call ends in its time, and as documented;
//! - `waits`: nobody waits at a free lock, and no client is passed over for ever.

mod beliefs;
mod calls;
mod excuse;
mod history;
mod resource;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::BTreeMap;

use self::excuse::Excuses;
pub(crate) use self::history::{Call, History};
use crate::{
    fault::Kind,
    history::{Nanos, nanos},
    plan::{RECHECK, SLACK},
};

/// How many violations of one law are told in full.
const TOLD: usize = 3;

/// What the checker found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// Overlaps that docs/GUARANTEES.md foresees, by the fault.
    pub(crate) excused: BTreeMap<Kind, Excused>,
    /// Writes of those who had been overtaken, which the fence refuses.
    pub(crate) stale_writes: u64,
    /// Writes in all.
    pub(crate) writes: u64,
    /// The longest time by which a call overran its limit, or was about to.
    pub(crate) worst_overrun: Nanos,
    /// How often other clients came, at most, while a client waited that had waited for two seconds.
    pub(crate) most_passed_over: usize,
}

/// Overlaps under one kind of fault.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Excused {
    pub(crate) overlaps: u64,
    pub(crate) longest: Nanos,
}

/// A promise that was broken.
#[derive(Debug, Clone)]
pub(crate) struct Violation {
    pub(crate) law: &'static str,
    pub(crate) what: String,
    pub(crate) name: usize,
    pub(crate) at: Nanos,
}

/// Checks everything.
pub(crate) fn check(history: &History) -> Findings {
    let excuses = Excuses::of(history);
    let mut findings = Findings::default();
    for name in 0..history.resources.len() {
        beliefs::check(history, &excuses, name, &mut findings);
        resource::check(history, &excuses, name, &mut findings);
    }
    calls::check(history, &mut findings);
    waits::check(history, nanos(RECHECK + SLACK), &mut findings);
    waits::check_starved(history, &mut findings);
    findings
}

impl Findings {
    /// How often each law was broken.
    pub(crate) fn laws(&self) -> BTreeMap<&'static str, usize> {
        let mut laws = BTreeMap::new();
        for violation in &self.violations {
            *laws.entry(violation.law).or_default() += 1;
        }
        laws
    }

    /// The first few of each law.
    pub(crate) fn told(&self) -> impl Iterator<Item = &Violation> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        self.violations.iter().filter(move |violation| {
            let count = seen.entry(violation.law).or_default();
            *count += 1;
            *count <= TOLD
        })
    }

    fn broken(&mut self, law: &'static str, name: usize, at: Nanos, what: String) {
        self.violations.push(Violation { law, what, name, at });
    }

    fn excused(&mut self, kind: Kind, length: Nanos) {
        let excused = self.excused.entry(kind).or_default();
        excused.overlaps += 1;
        excused.longest = excused.longest.max(length);
    }
}
