//! The results of the checker.

use std::collections::BTreeMap;

use crate::{fault::FaultKind, history::Nanos};

/// Maximum number of violations of one law that are reported in full.
const REPORTED: usize = 3;

/// The results of the checker.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// The overlaps that a fault explains, so that they are not violations. In an overlap, two clients believe at the
    /// same time that they hold the same lock. The key is the kind of the fault. docs/GUARANTEES.md lists the allowed
    /// overlaps.
    pub(crate) excused: BTreeMap<FaultKind, Excused>,
    /// Number of writes of overtaken holders. A resource that checks the fence would refuse such a write.
    pub(crate) stale_writes: u64,
    /// Number of all writes.
    pub(crate) writes: u64,
    /// The longest time by which a call exceeded its limit.
    pub(crate) worst_overrun: Nanos,
    /// The greatest number of turns that the other clients had while one client waited. A turn is the time in which one
    /// client has the lock. The first two seconds of the wait do not count.
    pub(crate) most_passed_over: usize,
}

/// Overlaps under one kind of fault.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Excused {
    pub(crate) overlaps: u64,
    /// The duration of the longest overlap.
    pub(crate) longest: Nanos,
}

/// A promise that was broken.
#[derive(Debug, Clone)]
pub(crate) struct Violation {
    /// The law that was broken.
    pub(crate) law: &'static str,
    /// The details, as text for people.
    pub(crate) what: String,
    /// The number of the lock's name.
    pub(crate) name: usize,
    /// The time of the violation.
    pub(crate) at: Nanos,
}

impl Findings {
    /// Number of violations of each law.
    pub(crate) fn laws(&self) -> BTreeMap<&'static str, usize> {
        let mut laws = BTreeMap::new();
        for violation in &self.violations {
            *laws.entry(violation.law).or_default() += 1;
        }
        laws
    }

    /// The first violations of each law.
    pub(crate) fn report(&self) -> impl Iterator<Item = &Violation> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        self.violations.iter().filter(move |violation| {
            let count = seen.entry(violation.law).or_default();
            *count += 1;
            *count <= REPORTED
        })
    }

    /// Adds a violation.
    pub(super) fn broken(&mut self, law: &'static str, name: usize, at: Nanos, what: String) {
        self.violations.push(Violation { law, what, name, at });
    }

    /// Adds an overlap that a fault of this kind allows.
    pub(super) fn excused(&mut self, kind: FaultKind, length: Nanos) {
        let excused = self.excused.entry(kind).or_default();
        excused.overlaps += 1;
        excused.longest = excused.longest.max(length);
    }
}
