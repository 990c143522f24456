//! Checks two laws. First, no client waits at a free lock for longer than a lost notification can explain. Second, no
//! client is passed over. A client is passed over if it waits while the other clients get the lock again and again.

use std::{collections::BTreeSet, time::Duration};

use super::{Call, Findings, History, Name, Verb};
use crate::{
    history::{Nanos, nanos},
    locks::share::Share,
    plan::{LIMIT, PLACE, RECHECK, SLACK, STARVING},
};

const FREE: &str = "no client waits at a free lock";
const STARVED: &str = "no client is passed over for ever";

/// Waits that are shorter than this time are not counted in the check for clients that are passed over.
const LONG_WAIT: Nanos = 2_000_000_000;
/// Maximum number of calls that can wait in the queue of a fair mutex.
const WAITERS: u32 = 24;
/// Maximum number of turns of each client while a client with priority waits. A turn is the time in which one client
/// has the lock. The maximum is greater than one, because several clients can have priority at the same time, and get
/// the lock in a random order.
const PASSED_OVER: usize = 12;

/// The start and the end of a time span.
pub(super) type Span = (Nanos, Nanos);

/// Finds time spans longer than `bound` in which a client waited for a lock that it could have had, although no fault
/// explains the wait.
pub(super) fn check(history: &History, bound: Nanos, findings: &mut Findings) {
    for name in 0..history.resources.len() {
        let calls: Vec<_> = history.calls.iter().filter(|call| call.name == name).collect();
        let shares: BTreeSet<_> = calls.iter().filter(|call| call.verb.waits()).map(|call| call.share).collect();
        for share in shares {
            // The first span has no length. The time before the first real span is a gap, too.
            let busy =
                busy(&calls, share, history.terms.end).into_iter().chain(disturbed(history, share)).chain([(0, 0)]);
            let gaps = between(&merged(busy.collect()), history.terms.end);
            let gaps: Vec<_> = gaps.into_iter().filter(|(from, to)| to - from > bound).collect();
            if gaps.is_empty() {
                continue;
            }
            for call in calls.iter().filter(|call| call.verb.waits() && call.share == share) {
                let (from, to) = (call.asked, call.answered_at().or(call.killed).unwrap_or(history.terms.end));
                let free = gaps.iter().map(|(begin, end)| (*end).min(to).saturating_sub((*begin).max(from))).max();
                if let Some(free) = free.filter(|free| *free > bound) {
                    let what = format!("{call} waited {} ms although it could have had the lock", free / 1_000_000);
                    findings.broken_at(FREE, &Name(name), from, what);
                }
            }
        }
    }
}

/// The time spans in which a call for this share had to wait, because of the calls that held the lock, or because of
/// calls that have priority.
///
/// Readers wait for writers that wait, and calls for permits wait for calls that starve. This explains a wait only
/// while somebody holds the lock, because otherwise the call with priority gets the lock.
fn busy(calls: &[&Call], share: Share, end: Nanos) -> Vec<Span> {
    let mut changes: Vec<(Nanos, Load)> = Vec::new();
    let mut add = |(from, to): Span, load: Load| {
        if from < to {
            changes.extend([(from, load), (to, load.negative())]);
        }
    };
    for call in calls {
        if let Some(span) = occupied(call) {
            let permits = i64::from(call.share.permits());
            add(span, Load { holders: 1, alone: i64::from(call.share.is_exclusive()), permits, preferred: 0 });
        }
        if let Some(span) = preferred(call, share, end) {
            add(span, Load { preferred: 1, ..Load::default() });
        }
    }
    changes.sort_unstable_by_key(|(at, _)| *at);
    let mut spans = Vec::new();
    let (mut load, mut busy_since) = (Load::default(), None);
    for (at, change) in changes {
        load.add(change);
        match (busy_since, load.is_in_the_way_of(share)) {
            (None, true) => busy_since = Some(at),
            (Some(from), false) => {
                spans.push((from, at));
                busy_since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }
    spans.extend(busy_since.map(|from| (from, end)));
    spans
}

/// The calls that hold a lock, and the calls that have priority.
#[derive(Debug, Default, Clone, Copy)]
struct Load {
    /// Number of calls that hold the lock.
    holders: i64,
    /// Number of them that hold the lock alone.
    alone: i64,
    /// Number of permits that are held.
    permits: i64,
    /// Number of waiting calls that have priority.
    preferred: i64,
}

impl Load {
    fn negative(self) -> Self {
        Self { holders: -self.holders, alone: -self.alone, permits: -self.permits, preferred: -self.preferred }
    }

    fn add(&mut self, change: Self) {
        self.holders += change.holders;
        self.alone += change.alone;
        self.permits += change.permits;
        self.preferred += change.preferred;
    }

    /// Whether a call for this share has to wait.
    fn is_in_the_way_of(self, share: Share) -> bool {
        let is_held = match share {
            Share::Mutex | Share::Fair | Share::Write | Share::Leader => self.holders > 0,
            Share::Read => self.alone > 0,
            Share::Permits(number) => self.permits + i64::from(number) > i64::from(LIMIT),
        };
        is_held || self.holders > 0 && self.preferred > 0
    }
}

/// The time span in which this call waited and had priority over calls for `share`. The place of a killed call stays in
/// the store for some time.
fn preferred(call: &Call, share: Share, end: Nanos) -> Option<Span> {
    let since = match (call.share, share) {
        (Share::Write, Share::Read) => call.asked,
        // A smaller call that has priority gets its permits if there are enough for a larger one.
        (Share::Permits(number), Share::Permits(of)) if number > of => call.asked.saturating_add(nanos(STARVING) / 2),
        _ => return None,
    };
    let killed = call.killed.map(|killed| killed.saturating_add(nanos(PLACE)));
    Some((since, call.answered_at().or(killed).unwrap_or(end)))
}

/// Finds clients that waited while the other clients had too many turns, although no fault explains this.
pub(super) fn check_starved(history: &History, findings: &mut Findings) {
    let faults = merged(disturbed(history, Share::Mutex));
    let clients = history.calls.iter().map(|call| call.client).collect::<BTreeSet<_>>().len();
    for name in 0..history.resources.len() {
        let calls = || history.calls.iter().filter(|call| call.name == name);
        let grants = calls().filter_map(|call| Some((call.grant.as_ref()?.at, call.client)));
        let mut grants: Vec<_> = grants.collect();
        grants.sort_unstable();
        // A client can pass the lock on from one of its calls to its next call. So a new turn begins only when another
        // client gets the lock.
        let mut turns = grants.clone();
        turns.dedup_by_key(|(_, client)| *client);
        for call in calls().filter(|call| call.verb.waits()) {
            let end = call.answered_at().or(call.killed).unwrap_or(history.terms.end);
            let before_end = grants[..before(&grants, end)].iter().rev().take_while(|(at, _)| *at > call.asked);
            // The last time during this wait at which this client got the lock for another of its calls.
            let own = before_end.copied().find(|(_, client)| *client == call.client).map_or(0, |(at, _)| at);
            let last_fault = faults[..before(&faults, end)].last().map_or(0, |(_, to)| *to);
            // Turns count from this time on.
            let since = call.asked.max(own).max(last_fault).saturating_add(LONG_WAIT);
            let passed = before(&turns, end).saturating_sub(before(&turns, since));
            findings.most("turns of other clients during one wait, after 2 s", passed);
            if passed > PASSED_OVER * clients {
                let what = format!(
                    "{call} waited {} ms while other clients got the lock {passed} times",
                    (end - call.asked) / 1_000_000
                );
                findings.broken_at(STARVED, &Name(name), call.asked, what);
            }
        }
    }
}

/// Number of entries that begin before `moment`. The entries are sorted.
fn before<T>(spans: &[(Nanos, T)], moment: Nanos) -> usize {
    spans.partition_point(|(at, _)| *at < moment)
}

/// Time spans in which a fault, or the effects of a fault, can make calls for this share wait.
pub(super) fn disturbed(history: &History, share: Share) -> Vec<Span> {
    let faults = history.faults().map(|fault| (fault.from, aftermath(fault.to, share, history.terms.ttl)));
    let stalls = history
        .recorded
        .disturbances
        .stalls
        .iter()
        .map(|(_, from, to)| (*from, aftermath(*to, share, history.terms.ttl)));
    faults.chain(stalls).collect()
}

/// The time at which the effects of a fault have ended. `healed` is the end of the fault itself. After this end, all
/// earlier holds must first expire, and the waiters must poll the store again.
fn aftermath(healed: Nanos, share: Share, ttl: Nanos) -> Nanos {
    let effects = match share {
        Share::Mutex => Duration::ZERO,
        // A candidate repeats a write of the record after up to a second.
        Share::Leader => RECHECK,
        // The places of killed waiters stay for some time, and the permits of killed holders stay a little longer than
        // their ttl in Redis.
        Share::Read | Share::Write | Share::Permits(_) => PLACE,
        // A waiter might poll only once a second for each claim that is before it.
        Share::Fair => PLACE + RECHECK * WAITERS,
    };
    healed.saturating_add(ttl).saturating_add(nanos(effects + SLACK))
}

/// The time span in which this call might have held the lock. If the future of a call was dropped, the store might have
/// granted the lock nevertheless. The client then released the lock in the background. A call for several locks holds
/// some of them while it waits for the others.
fn occupied(call: &Call) -> Option<Span> {
    let from = match call.verb {
        Verb::Dropped | Verb::All | Verb::Downgrade => call.asked,
        Verb::Lock | Verb::TryLock | Verb::TryLockFor => call.answered_at()?,
    };
    let answered = || call.answered_at().or(call.killed.map(|killed| killed.saturating_add(call.ttl)));
    let to = match call.verb {
        Verb::Dropped | Verb::All => call.surely_free().or_else(answered)?,
        // If a downgrade fails, the hold might stay in the store until it expires.
        Verb::Downgrade => call.surely_free().or_else(|| Some(answered()?.saturating_add(call.ttl)))?,
        Verb::Lock | Verb::TryLock | Verb::TryLockFor => call.surely_free()?,
    };
    Some((from, to))
}

/// Sorts the spans, and merges those that overlap.
pub(super) fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            Some(_) | None => merged.push((from, to)),
        }
    }
    merged
}

/// The gaps between the spans, and the gap from the last span to `end`. The spans are sorted, and do not overlap.
fn between(spans: &[Span], end: Nanos) -> Vec<Span> {
    let ends = spans.iter().skip(1).map(|(from, _)| *from).chain([end]);
    spans.iter().zip(ends).filter(|((_, to), next)| to < next).map(|((_, to), next)| (*to, next)).collect()
}
