//! Checks the beliefs of clients. A belief is a time span in which a client believed that it held a lock.

use std::collections::BTreeMap;

use super::{Call, Findings, History, excuse::Excuses, limits::Limits};
use crate::{
    history::{Nanos, nanos},
    plan::{GREATER_LIMIT, PASSED_ON},
    share::Share,
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
    overlaps(&beliefs, excuses, name, findings);
    permits(&beliefs, excuses, &Limits::of(history, name), name, findings);
    fences(&beliefs, excuses, name, findings);
}

/// Finds beliefs that overlap, although one of the two calls holds the lock alone.
fn overlaps(beliefs: &[Belief<'_>], excuses: &Excuses, name: usize, findings: &mut Findings) {
    // The earlier beliefs that have not ended yet.
    let mut open: Vec<&Belief<'_>> = Vec::new();
    for newer in beliefs {
        open.retain(|older| older.to > newer.from);
        let is_alone = |older: &&&Belief<'_>| older.call.share.is_exclusive() || newer.call.share.is_exclusive();
        for older in open.iter().filter(is_alone) {
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

/// Finds times at which more permits of a semaphore were held than its limit.
fn permits(beliefs: &[Belief<'_>], excuses: &Excuses, limits: &Limits<'_>, name: usize, findings: &mut Findings) {
    let mut open: Vec<&Belief<'_>> = Vec::new();
    for newer in beliefs.iter().filter(|belief| belief.call.share.permits() > 0) {
        open.retain(|older| older.to > newer.from);
        open.push(newer);
        // The last of these grants was made after the last of these calls had begun. A client can pass permits on from
        // an earlier call.
        let begun = open.iter().map(|belief| belief.call.asked).max().unwrap_or(newer.from);
        let limit = limits.greatest(begun.saturating_sub(nanos(PASSED_ON)), newer.from);
        let held: u32 = open.iter().map(|belief| belief.call.share.permits()).sum();
        if held <= limit {
            continue;
        }
        let excuse = |older: &&Belief<'_>| {
            let end = older.to.min(newer.to);
            let kind = excuses.find(older.call, newer.call, end).or_else(|| excuses.find(newer.call, older.call, end));
            kind.map(|kind| (kind, end - newer.from))
        };
        let older = || open.iter().copied().filter(|belief| !std::ptr::eq(*belief, newer));
        let lost: u32 = older().filter(|older| excuse(older).is_some()).map(|older| older.call.share.permits()).sum();
        if held - lost <= limit {
            older().filter_map(|older| excuse(&older)).take(1).for_each(|(kind, length)| {
                findings.excused(kind, length);
            });
            continue;
        }
        let others: Vec<_> = older().map(|older| older.call.to_string()).collect();
        let what = format!("{held} permits of {limit} are held by {} and {}", newer.call, others.join(", "));
        findings.broken(LIMIT, name, newer.from, what);
    }
}

/// Finds fences that did not increase. The fences of calls that can hold the lock at the same time have no order.
fn fences(beliefs: &[Belief<'_>], excuses: &Excuses, name: usize, findings: &mut Findings) {
    // For each share, the belief with the greatest fence so far.
    let mut greatest: BTreeMap<Share, &Belief<'_>> = BTreeMap::new();
    for belief in beliefs {
        let share = belief.call.share;
        let others = greatest.iter().filter(|(other, _)| share.conflicts(**other, GREATER_LIMIT));
        let before = others.map(|(_, before)| *before).max_by_key(|before| before.call.fence());
        let before = before.filter(|before| before.call.fence() >= belief.call.fence());
        let same = greatest.entry(share).or_insert(belief);
        if same.call.fence() < belief.call.fence() {
            *same = belief;
        }
        let Some(before) = before else { continue };
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
