//! The results of the checker.

use std::{collections::BTreeMap, fmt::Debug};

use crate::history::Nanos;

/// Maximum number of violations of one law that are reported in full.
const REPORTED: usize = 5;

/// The results of the checker.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// The cases that the documentation allows, by their reason.
    pub(crate) excused: BTreeMap<&'static str, Excused>,
    /// Figures that only this kind of traffic has.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// The longest time by which a call exceeded its limit.
    pub(crate) worst_overrun: Nanos,
}

/// A promise that was broken.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) law: &'static str,
    /// The details, as text for people.
    pub(crate) what: String,
    /// The text of the object and the time, if the report shows the events around the violation.
    pub(crate) place: Option<(String, Nanos)>,
}

/// Cases that are allowed for one reason.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Excused {
    pub(crate) cases: u64,
    /// The duration of the longest one, if they have a duration.
    pub(crate) longest: Nanos,
}

impl Findings {
    pub(crate) fn broken(&mut self, law: &'static str, what: String) {
        self.violations.push(Violation { law, what, place: None });
    }

    /// Adds a violation at this object and time.
    pub(crate) fn broken_at(&mut self, law: &'static str, object: &impl Debug, at: Nanos, what: String) {
        self.violations.push(Violation { law, what, place: Some((format!("{object:?}"), at)) });
    }

    pub(crate) fn excuse(&mut self, reason: &'static str) {
        self.excuse_for(reason, 0);
    }

    /// Adds an allowed case of this duration.
    pub(crate) fn excuse_for(&mut self, reason: &'static str, length: Nanos) {
        let excused = self.excused.entry(reason).or_default();
        excused.cases += 1;
        excused.longest = excused.longest.max(length);
    }

    /// Adds to a figure.
    pub(crate) fn count(&mut self, what: &'static str, number: usize) {
        *self.counts.entry(what).or_default() += number as u64;
    }

    /// Keeps the greatest value of a figure.
    pub(crate) fn most(&mut self, what: &'static str, number: usize) {
        let most = self.counts.entry(what).or_default();
        *most = (*most).max(number as u64);
    }

    /// Number of violations of each law.
    pub(crate) fn laws(&self) -> BTreeMap<&'static str, usize> {
        let mut laws = BTreeMap::new();
        self.violations.iter().for_each(|violation| *laws.entry(violation.law).or_default() += 1);
        laws
    }

    /// The first violations of each law.
    pub(crate) fn reported(&self) -> impl Iterator<Item = &Violation> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        self.violations.iter().filter(move |violation| {
            let count = seen.entry(violation.law).or_default();
            *count += 1;
            *count <= REPORTED
        })
    }
}
