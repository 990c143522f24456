//! The results of the checker.

use std::collections::BTreeMap;

use crate::history::Nanos;

/// Maximum number of violations of one law that are reported in full.
const REPORTED: usize = 5;

/// The results of the checker.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<(&'static str, String)>,
    /// Number of cases that the documentation allows, by their reason.
    pub(crate) excused: BTreeMap<&'static str, u64>,
    /// Number of elements that were pushed with an acknowledgement, and number of deliveries.
    pub(crate) pushed: u64,
    pub(crate) delivered: u64,
    /// The longest time by which a call exceeded its limit.
    pub(crate) worst_overrun: Nanos,
}

impl Findings {
    pub(crate) fn broken(&mut self, law: &'static str, what: String) {
        self.violations.push((law, what));
    }

    pub(crate) fn excuse(&mut self, reason: &'static str) {
        *self.excused.entry(reason).or_default() += 1;
    }

    /// Number of violations of each law.
    pub(crate) fn laws(&self) -> BTreeMap<&'static str, usize> {
        let mut laws = BTreeMap::new();
        self.violations.iter().for_each(|(law, _)| *laws.entry(*law).or_default() += 1);
        laws
    }

    /// The first violations of each law.
    pub(crate) fn report(&self) -> Vec<String> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let reported = self.violations.iter().filter(|(law, _)| {
            let count = seen.entry(law).or_default();
            *count += 1;
            *count <= REPORTED
        });
        reported.map(|(law, what)| format!("{law}: {what}")).collect()
    }
}
