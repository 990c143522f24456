//! Checks barriers. A party is *present* from the begin of its call to the end. A barrier opens at a moment at which all
//! parties for which it opens are present.

use super::{
    Findings, HORIZON, History, Name, Outcome, StepCall,
    waits::{Span, disturbed, merged},
};
use crate::{
    history::{Nanos, nanos},
    locks::share::Share,
    plan::{self, BARRIERS, RECHECK, SLACK},
};

const TOO_FEW: &str = "a barrier opens only when enough parties wait";
const TWO_LEADERS: &str = "each time a barrier opens, it has one leader and its own parties";
const NO_LEADER: &str = "each party that passes a barrier has a leader";
const STUCK: &str = "no party waits at a barrier when enough parties wait";

/// Maximum time after the end of a cancelled call in which its party can still be counted, outside of faults. In this
/// time the client releases the party's mutex in the background.
const LEAVES: Nanos = 250_000_000;

/// Checks all barriers.
pub(super) fn check(history: &History, findings: &mut Findings) {
    let faults = merged(disturbed(history, Share::Mutex));
    for name in BARRIERS {
        let mut calls: Vec<_> = history.steps.iter().filter(|call| call.object == Name(name)).collect();
        calls.sort_by_key(|call| call.begin);
        let visits = calls.iter().map(|call| Visit { call, from: call.begin, to: leaves(call, &faults) }).collect();
        let parties = plan::parties(name) as usize;
        let undone = history.faults().filter(|fault| fault.kind.undoes()).map(|fault| (fault.from, fault.to));
        let barrier = Barrier { name, parties, visits, undone: undone.collect() };
        barrier.check_passed(findings);
        barrier.check_leaders(findings);
        barrier.check_waits(&faults, nanos(RECHECK + SLACK), findings);
    }
}

/// The latest time at which the barrier can have opened for this call.
fn leaves(call: &StepCall, faults: &[Span]) -> Nanos {
    if call.is_sure() {
        return call.end;
    }
    let mut end = call.end.saturating_add(LEAVES);
    for (from, to) in &faults[faults.partition_point(|(_, to)| *to < call.end)..] {
        if *from > end {
            break;
        }
        end = end.max(to.saturating_add(LEAVES));
    }
    end
}

/// One call, and the time span in which its party may have been present.
struct Visit<'a> {
    call: &'a StepCall,
    from: Nanos,
    to: Nanos,
}

/// The calls for one barrier.
struct Barrier<'a> {
    name: usize,
    parties: usize,
    /// The visits in the order in which they began.
    visits: Vec<Visit<'a>>,
    /// The time spans in which the store may have lost an opening. Then the barrier opens again for the parties that have
    /// not seen it.
    undone: Vec<Span>,
}

impl Barrier<'_> {
    /// For each party that has passed, there was a moment at which enough parties were present, and a leader.
    fn check_passed(&self, findings: &mut Findings) {
        for visit in &self.visits {
            let Some(outcome @ (Outcome::Ok | Outcome::Opened)) = visit.call.outcome else { continue };
            let together: Vec<_> = self.near(visit.from, visit.to).collect();
            // The number of present parties grows only when a party arrives.
            let moments = together.iter().map(|other| other.from.max(visit.from));
            let present = |at: Nanos| together.iter().filter(|other| other.from <= at && other.to >= at).count();
            let most = moments.map(present).max().unwrap_or(0);
            if most < self.parties {
                let what = format!("{} passed when at most {most} parties of {} waited", visit.call, self.parties);
                findings.broken_at(TOO_FEW, &Name(self.name), visit.to, what);
            }
            let may_lead = |other: &&Visit<'_>| other.call.outcome == Some(Outcome::Opened) || !other.call.is_sure();
            if outcome == Outcome::Ok && !together.iter().any(may_lead) {
                let what = format!("{} passed without a leader", visit.call);
                findings.broken_at(NO_LEADER, &Name(self.name), visit.to, what);
            }
        }
    }

    /// Two leaders are leaders of two openings, and no party belongs to both. So for two leaders, twice as many parties
    /// were present as the barrier has.
    fn check_leaders(&self, findings: &mut Findings) {
        let mut leaders: Vec<_> =
            self.visits.iter().filter(|visit| visit.call.outcome == Some(Outcome::Opened)).collect();
        leaders.sort_by_key(|visit| visit.to);
        for (one, other) in leaders.iter().zip(leaders.iter().skip(1)) {
            let (from, to) = (one.from.min(other.from), one.to.max(other.to));
            let present = self.near(from, to).count();
            let is_undone = self.undone.iter().any(|(begin, end)| *begin <= one.to && *end >= one.from);
            if present < 2 * self.parties && !is_undone {
                let what = format!("{} and {} were leaders, with {present} parties", one.call, other.call);
                findings.broken_at(TWO_LEADERS, &Name(self.name), other.to, what);
            }
        }
    }

    /// Finds time spans longer than `bound` in which the same parties waited, although they were enough.
    fn check_waits(&self, faults: &[Span], bound: Nanos, findings: &mut Findings) {
        let long = self.visits.iter().map(|visit| visit.call).filter(|call| call.end - call.begin > bound);
        let long: Vec<_> = long.collect();
        for (index, last) in long.iter().enumerate() {
            let present = long[..index].iter().chain([last]).map(|call| call.end).filter(|end| *end > last.begin);
            let mut ends: Vec<_> = present.collect();
            if ends.len() < self.parties {
                continue;
            }
            ends.sort_unstable_by(|a, b| b.cmp(a));
            let (from, to) = (last.begin, ends[self.parties - 1]);
            let mut begin = from;
            let mut longest = 0;
            for (fault, end) in faults.iter().filter(|(fault, end)| *fault < to && *end > from) {
                longest = longest.max(fault.saturating_sub(begin));
                begin = begin.max(*end);
            }
            longest = longest.max(to.saturating_sub(begin));
            if longest > bound {
                let what = format!("{last} and enough other parties waited {} ms", longest / 1_000_000);
                findings.broken_at(STUCK, &Name(self.name), from, what);
            }
        }
    }

    /// The visits that have a moment between `from` and `to`.
    fn near(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = &Visit<'_>> {
        let begin = self.visits.partition_point(|visit| visit.from < from.saturating_sub(HORIZON));
        let end = self.visits.partition_point(|visit| visit.from <= to);
        self.visits[begin..end].iter().filter(move |visit| visit.to >= from)
    }
}
