//! Checks the beliefs of clients. A belief is a time span in which a client believed that it held a lock.

use super::{Call, Findings, History, excuse::Excuses};
use crate::history::Nanos;

const OVERLAP: &str = "no two clients hold one lock at the same time";
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
    overlaps(&beliefs, excuses, name, findings);
    fences(&beliefs, excuses, name, findings);
}

/// Finds beliefs that overlap.
fn overlaps(beliefs: &[Belief<'_>], excuses: &Excuses, name: usize, findings: &mut Findings) {
    // The earlier beliefs that have not ended yet.
    let mut open: Vec<&Belief<'_>> = Vec::new();
    for newer in beliefs {
        open.retain(|older| older.to > newer.from);
        for older in &open {
            let end = older.to.min(newer.to);
            // The order in which clients received their grants can differ from the order in which the store made the
            // grants. So both orders are tried.
            let excuse =
                excuses.find(older.call, newer.call, end).or_else(|| excuses.find(newer.call, older.call, end));
            match excuse {
                Some(kind) => findings.excused(kind, end - newer.from),
                None => {
                    let length = end - newer.from;
                    let what = format!("{} and {} overlap for {} µs", older.call, newer.call, length / 1_000);
                    findings.broken(OVERLAP, name, newer.from, what);
                }
            }
        }
        open.push(newer);
    }
}

/// Finds fences that did not increase.
fn fences(beliefs: &[Belief<'_>], excuses: &Excuses, name: usize, findings: &mut Findings) {
    // The belief with the greatest fence so far.
    let mut greatest: Option<&Belief<'_>> = None;
    for belief in beliefs {
        let Some(before) = greatest.filter(|before| before.call.fence() >= belief.call.fence()) else {
            greatest = Some(belief);
            continue;
        };
        // If the store loses a hold, the client still believes for some time that it has this hold. In this time, the
        // client can pass the hold on to another of its calls, with a fence that the client had reserved earlier. This
        // fence can be smaller than the fence of a new holder.
        let excused =
            before.call.fence() > belief.call.fence() && excuses.find(belief.call, before.call, belief.from).is_some();
        if !excused {
            let what = format!("the fence of {} is not smaller than that of the later {}", before.call, belief.call);
            findings.broken(FENCE, name, belief.from, what);
        }
    }
}
