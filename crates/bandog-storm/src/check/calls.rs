//! How calls ended, and when.

use super::{Call, Findings, History};
use crate::{
    history::{Nanos, Outcome, nanos},
    plan::{SLACK, TIMEOUT},
};

const LATE: &str = "every call ends in its time";
const NEVER: &str = "every call ends";
const ANSWER: &str = "a good call gets a documented answer";
const AGAIN: &str = "an owner gets its own lock again, with the same fence";

/// Looks at each call by itself.
pub(super) fn check(history: &History, findings: &mut Findings) {
    let still = Still::of(history);
    for call in &history.calls {
        ends(call, findings);
        if let Some(told) = call.told() {
            in_time(call, call.asked, told, call.limit, &still, findings);
        }
        if let Some(grant) = &call.grant {
            if let (Some((from, _)), Some((to, _))) = (grant.ended, call.answer) {
                in_time(call, from, to, nanos(TIMEOUT), &still, findings);
            }
            if grant.again.is_some_and(|again| again != grant.fence) {
                findings.broken(AGAIN, call.name, grant.at, format!("{call} got {:?}", grant.again));
            }
        }
        if let Some((at, outcome @ (Outcome::Refused | Outcome::Closed))) = call.answer {
            findings.broken(ANSWER, call.name, at, format!("{call} was answered: {}", outcome.word()));
        }
    }
}

fn ends(call: &Call, findings: &mut Findings) {
    let over = match &call.grant {
        Some(grant) => grant.ended.is_some(),
        None => call.answer.is_some(),
    };
    if !over && call.killed.is_none() {
        findings.broken(NEVER, call.name, call.asked, format!("{call} never ended"));
    }
}

fn in_time(call: &Call, from: Nanos, to: Nanos, limit: Nanos, still: &Still, findings: &mut Findings) {
    let took = to.saturating_sub(from);
    let allowed = limit.saturating_add(nanos(SLACK));
    if took <= limit {
        return;
    }
    let took = took.saturating_sub(still.during(call.process, from, to));
    findings.worst_overrun = findings.worst_overrun.max(took.saturating_sub(limit));
    if took > allowed {
        let what = format!("{call} took {} ms, and {} are allowed", took / 1_000_000, limit / 1_000_000);
        findings.broken(LATE, call.name, from, what);
    }
}

/// When processes could not run; a fault names the first client of a process.
struct Still(Vec<(Option<u32>, Nanos, Nanos)>);

impl Still {
    fn of(history: &History) -> Self {
        let stops = history.faults.iter().filter(|fault| fault.kind.stops_the_worker());
        let stops = stops.map(|fault| (fault.client, fault.from, fault.to));
        Self(stops.chain(history.blocked.iter().map(|(process, from, to)| (Some(*process), *from, *to))).collect())
    }

    fn during(&self, process: u32, from: Nanos, to: Nanos) -> Nanos {
        let ours = self.0.iter().filter(|(who, ..)| who.is_none_or(|who| who == process));
        ours.map(|(_, begin, end)| (*end).min(to).saturating_sub((*begin).max(from))).sum()
    }
}
