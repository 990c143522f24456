//! Values that one task writes, and values that all tasks change with compare and set.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    calls::{Findings, JUDGE, Outcome},
    grid::history::{Call, History, Op},
    history::Nanos,
};

/// Each read finds the last acknowledged value, or that of a write that may have been applied since.
pub(super) fn owned(history: &History, calls: &[&Call], findings: &mut Findings) {
    let mut keys: BTreeMap<u64, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        if let Op::Write { key, .. } | Op::Read { key } | Op::Peek { key } = call.op {
            keys.entry(key).or_default().push(call);
        }
    }
    for calls in keys.into_values() {
        owned_key(history, &calls, findings);
    }
}

fn owned_key(history: &History, calls: &[&Call], findings: &mut Findings) {
    // The last write that is certain, and its value.
    let (mut last, mut value) = (None::<&Call>, 0);
    let mut unclear: Vec<(u64, Nanos)> = Vec::new();
    let mut written: HashSet<u64> = HashSet::from([0]);
    for &call in calls {
        match (call.op, call.outcome) {
            (Op::Write { value: new, .. }, _) => {
                written.insert(new);
                if call.is_ok() {
                    (last, value) = (Some(call), new);
                    unclear.retain(|(_, end)| history.recorded.disturbances.applied_until(*end) >= call.begin);
                } else if call.is_unclear() {
                    unclear.push((new, call.end));
                }
            }
            // A copy may be of an earlier time.
            (Op::Peek { .. }, Some(Outcome::Found(found))) if !written.contains(&found) => {
                findings.broken("values", format!("a copy of a value that was never written: {call}"));
            }
            (Op::Read { .. }, Some(Outcome::Found(found))) => {
                let is_expected = found == value || unclear.iter().any(|(new, _)| *new == found);
                let (begin, end) = last.map_or((0, 0), |last| (last.begin, last.end));
                match history.recorded.disturbances.loss(begin, end, call.end).filter(|_| written.contains(&found)) {
                    _ if is_expected => {}
                    Some(reason) => {
                        findings.excuse(reason);
                        value = found;
                    }
                    None => {
                        let last = last.map_or("no write".to_owned(), ToString::to_string);
                        findings.broken("values", format!("{last}; {call}"));
                        value = found;
                    }
                }
            }
            _ => {}
        }
    }
}

/// Each version has one successor, and is the present one or has a successor.
pub(super) fn shared(history: &History, calls: &[&Call], findings: &mut Findings) {
    let mut keys: BTreeMap<u64, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        if let Op::Swap { key, .. } | Op::Read { key } = call.op {
            keys.entry(key).or_default().push(call);
        }
    }
    for calls in keys.into_values() {
        shared_key(history, &calls, findings);
    }
}

fn shared_key(history: &History, calls: &[&Call], findings: &mut Findings) {
    let (mut successors, mut seen) = (HashMap::<u64, &Call>::new(), HashSet::<u64>::new());
    // The versions that a swap without an answer may have replaced, and the versions that swaps may have written over
    // any version.
    let (mut maybe, mut anything) = (HashSet::<u64>::new(), Vec::<&Call>::new());
    let mut last = None;
    for &call in calls {
        // The task has read this version before.
        if let Op::Swap { from: Some(from), .. } = call.op {
            seen.insert(from);
        }
        let (from, to) = match (call.op, call.outcome) {
            (Op::Swap { from: Some(from), to, .. }, Some(Outcome::Ok)) => (from, to),
            (Op::Swap { from: None, to, .. }, Some(Outcome::Found(from))) => (from, to),
            (Op::Swap { from, .. }, _) if call.is_unclear() => {
                match from {
                    Some(from) => _ = maybe.insert(from),
                    None => anything.push(call),
                }
                continue;
            }
            (Op::Read { .. }, Some(Outcome::Found(found))) if call.client == JUDGE => {
                seen.insert(found);
                last = Some((found, call));
                continue;
            }
            _ => continue,
        };
        seen.insert(from);
        if let Some(first) = successors.insert(from, call) {
            match history.recorded.disturbances.loss_between(first.begin.min(call.begin), first.end.max(call.end)) {
                Some(reason) => findings.excuse(reason),
                None => findings.broken("versions", format!("{from} was replaced twice: {first}; {call} by {to}")),
            }
        }
    }
    // A swap that may have been applied over any version was applied if its version was seen.
    let mut applied =
        anything.iter().filter(|call| matches!(call.op, Op::Swap { to, .. } if seen.contains(&to))).count();
    let Some((last, read)) = last else { return };
    for call in calls {
        let to = match (call.op, call.outcome) {
            (Op::Swap { from: Some(_), to, .. }, Some(Outcome::Ok)) => to,
            (Op::Swap { from: None, to, .. }, Some(Outcome::Found(_))) => to,
            _ => continue,
        };
        if to == last || successors.contains_key(&to) || maybe.contains(&to) {
            continue;
        }
        match history.recorded.disturbances.loss(call.begin, call.end, read.end) {
            Some(reason) => findings.excuse(reason),
            None if applied > 0 => applied -= 1,
            None => {
                findings.broken("versions", format!("{to} has no successor, and is not the last one: {call}; {read}"))
            }
        }
    }
}
