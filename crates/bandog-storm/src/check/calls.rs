//! Checks the results of calls, and how long the calls took.

use std::fmt;

use super::{Call, Findings, History, limits::Limits, steps};
use crate::{
    history::{Nanos, Outcome, nanos},
    plan::{SLACK, TIMEOUT},
};

const LATE: &str = "every call ends within its limit";
const NEVER: &str = "every call ends";
const ANSWER: &str = "a correct call gets a documented answer";
const AGAIN: &str = "an owner gets its own lock again, with the same fence";

/// Checks each call.
pub(super) fn check(history: &History, findings: &mut Findings) {
    let pauses = Pauses::of(history);
    let limits: Vec<_> = (0..history.resources.len()).map(|name| Limits::of(history, name)).collect();
    steps::check(history, &pauses, findings);
    for call in &history.calls {
        ends(call, findings);
        let of = (call.name, call.process);
        if let Some(answered) = call.answered_at() {
            pauses.in_time(call, of, (call.asked, answered), call.limit, findings);
        }
        if let Some(grant) = &call.grant {
            // The release of the lock must end within the request timeout.
            if let (Some((from, _)), Some((to, _))) = (grant.ended, call.answer) {
                pauses.in_time(call, of, (from, to), nanos(TIMEOUT), findings);
            }
            if grant.again.is_some_and(|again| again != grant.fence) {
                findings.broken(AGAIN, call.name, grant.at, format!("{call} locked again, and got {:?}", grant.again));
            }
        }
        let Some((at, outcome)) = call.answer else { continue };
        let is_documented = match outcome {
            Outcome::Refused | Outcome::Closed => false,
            Outcome::OtherLimit => limits[call.name].may_be_other(at),
            _ => true,
        };
        if !is_documented {
            findings.broken(ANSWER, call.name, at, format!("{call} was answered: {}", outcome.word()));
        }
    }
}

/// Checks that the call has ended, unless its process was killed.
fn ends(call: &Call, findings: &mut Findings) {
    let has_ended = match &call.grant {
        Some(grant) => grant.ended.is_some(),
        None => call.answer.is_some(),
    };
    if !has_ended && call.killed.is_none() {
        findings.broken(NEVER, call.name, call.asked, format!("{call} never ended"));
    }
}

/// Time spans in which a process could not run, in the order of their starts. Each entry has the start, the end, and
/// the number of the process (the number of its first client). `None` means all processes.
pub(super) struct Pauses(Vec<(Nanos, Nanos, Option<u32>)>);

impl Pauses {
    fn of(history: &History) -> Self {
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
