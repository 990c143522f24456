//! The times in which processes could not run, and the limits of calls.

use std::fmt;

use super::{Findings, History};
use crate::{
    history::{Nanos, nanos},
    plan::SLACK,
};

const LATE: &str = "every call ends within its limit";

/// Time spans in which a process could not run, in the order of their starts. Each entry has the start, the end, and
/// the number of the process (the number of its first client). `None` means all processes.
pub(super) struct Pauses(Vec<(Nanos, Nanos, Option<u32>)>);

impl Pauses {
    pub(super) fn of(history: &History) -> Self {
        let stops = history.faults.iter().filter(|fault| fault.kind.stops_the_worker());
        let stops = stops.map(|fault| (fault.from, fault.to, fault.client));
        let others =
            history.blocked.iter().chain(&history.stalled).map(|(process, from, to)| (*from, *to, Some(*process)));
        let mut spans: Vec<_> = stops.chain(others).collect();
        spans.sort_unstable();
        Self(spans)
    }

    /// Checks that one part of a call, from the one time to the other, took no longer than `limit` plus the tolerance.
    /// Time in which the process could not run does not count. `of`: the number of the name, and of the process.
    pub(super) fn in_time(
        &self,
        call: &impl fmt::Display,
        of: (usize, u32),
        (from, to): (Nanos, Nanos),
        limit: Nanos,
        findings: &mut Findings,
    ) {
        let ((name, process), took) = (of, to.saturating_sub(from));
        let allowed = limit.saturating_add(nanos(SLACK));
        if took <= limit {
            return;
        }
        let took = took.saturating_sub(self.during(process, from, to));
        findings.worst_overrun = findings.worst_overrun.max(took.saturating_sub(limit));
        if took > allowed {
            let what = format!("{call} took {} ms, but its limit is {} ms", took / 1_000_000, limit / 1_000_000);
            findings.broken(LATE, name, from, what);
        }
    }

    /// The total time between `from` and `to` in which this process could not run. The spans can overlap: the stop of a
    /// process is recorded as a fault, and the process itself records the same time as a stall.
    fn during(&self, process: u32, from: Nanos, to: Nanos) -> Nanos {
        let (mut paused, mut seen) = (0, from);
        for (begin, end, _) in self.0.iter().filter(|(.., who)| who.is_none_or(|who| who == process)) {
            let (begin, end) = ((*begin).max(seen), (*end).min(to));
            paused += end.saturating_sub(begin);
            seen = seen.max(end);
        }
        paused
    }
}
