//! Checks the beliefs of clients. A belief is a time span in which a client believed that it held a lock. The rules are
//! those of [`bandog_judge`]. Here the breaches that a fault explains are separated from the others.

use bandog_judge::{Breach, Grant, Ledger};

use super::{Call, Findings, History, Name, excuse::Excuses, limits::Limits};
use crate::{
    fault::FaultKind,
    history::{Nanos, nanos},
    plan::{GREATER_LIMIT, HANDED_OVER},
};

const OVERLAP: &str = "no two clients hold one lock at the same time";
const LIMIT: &str = "no more permits are held than the limit";
const FENCE: &str = "fences increase with every grant";

/// The time span in which the client of `call` believed that it held the lock.
struct Belief<'a> {
    call: &'a Call,
    from: Nanos,
    to: Nanos,
}

/// Checks the beliefs under one name, in the order of their starts.
pub(super) fn check(history: &History, excuses: &Excuses, name: usize, findings: &mut Findings) {
    let of_name = history.calls.iter().filter(|call| call.name == name);
    let beliefs = of_name.filter_map(|call| call.belief().map(|(from, to)| Belief { call, from, to }));
    let mut beliefs: Vec<_> = beliefs.collect();
    beliefs.sort_by_key(|belief| belief.from);
    let (limits, mut ledger) = (Limits::of(history, name), Ledger::new(GREATER_LIMIT));
    for newer in &beliefs {
        let limit = |open: &[Grant<&Belief<'_>>]| {
            // The last of these grants was made after the last of these calls had begun. A client can pass permits on
            // from an earlier call.
            let begun = open.iter().map(|grant| grant.of.call.asked).max().unwrap_or(newer.from);
            limits.greatest(begun.saturating_sub(nanos(HANDED_OVER)), newer.from)
        };
        let grant = Grant { part: newer.call.share.part(), fence: newer.call.fence(), of: newer };
        for breach in ledger.enter(grant, |older| older.to > newer.from, limit) {
            match breach {
                Breach::Overlap { older } => newer.overlaps(older.of, excuses, name, findings),
                Breach::TooMany { held, limit, older } => {
                    newer.exceeds((held, limit), &older, excuses, name, findings);
                }
                Breach::Fence { before } => newer.follows(before.of, excuses, name, findings),
            }
        }
    }
}

impl Belief<'_> {
    /// This belief overlaps an earlier one, although one of the two calls holds the lock alone.
    fn overlaps(&self, older: &Self, excuses: &Excuses, name: usize, findings: &mut Findings) {
        let length = older.to.min(self.to) - self.from;
        match self.excuse(older, excuses) {
            Some(kind) => findings.excuse_for(kind.word(), length),
            None => {
                let what = format!("{} and {} overlap for {} µs", older.call, self.call, length / 1_000);
                findings.broken_at(OVERLAP, &Name(name), self.from, what);
            }
        }
    }

    /// With this belief, more permits are held than the limit.
    fn exceeds(
        &self,
        (held, limit): (u32, u32),
        older: &[Grant<&Self>],
        excuses: &Excuses,
        name: usize,
        findings: &mut Findings,
    ) {
        let others = || older.iter().map(|grant| grant.of);
        let excuse = |older: &Self| self.excuse(older, excuses).map(|kind| (kind, older.to.min(self.to) - self.from));
        let lost: u32 = others().filter(|older| excuse(older).is_some()).map(|older| older.call.share.permits()).sum();
        if held - lost <= limit {
            others().filter_map(excuse).take(1).for_each(|(kind, length)| findings.excuse_for(kind.word(), length));
            return;
        }
        let others: Vec<_> = others().map(|older| older.call.to_string()).collect();
        let what = format!("{held} permits of {limit} are held by {} and {}", self.call, others.join(", "));
        findings.broken_at(LIMIT, &Name(name), self.from, what);
    }

    /// The fence of this belief is not greater than that of an earlier one. The fences of calls that can hold the lock at
    /// the same time have no order.
    fn follows(&self, before: &Self, excuses: &Excuses, name: usize, findings: &mut Findings) {
        // If the store loses a hold, the client still believes for some time that it has this hold. In this time, the
        // client can hand the hold over to another of its calls, with a fence that the client had reserved earlier. This
        // fence can be smaller than the fence of a new holder.
        let excused =
            before.call.fence() > self.call.fence() && excuses.find(self.call, before.call, self.from).is_some();
        if !excused {
            let what = format!("the fence of {} is not smaller than that of the later {}", before.call, self.call);
            findings.broken_at(FENCE, &Name(name), self.from, what);
        }
    }

    /// The kind of the fault that explains an overlap with an earlier belief. The order in which clients received their
    /// grants can differ from the order in which the store made the grants. So both orders are tried.
    fn excuse(&self, older: &Self, excuses: &Excuses) -> Option<FaultKind> {
        let end = older.to.min(self.to);
        excuses.find(older.call, self.call, end).or_else(|| excuses.find(self.call, older.call, end))
    }
}
