//! Counters and unique numbers.

use std::collections::HashMap;

use crate::{
    calls::{Findings, Outcome},
    grid::history::{Call, History, Kind, Object, Op},
    history::Nanos,
};

pub(super) fn counter(history: &History, object: Object, calls: &[&Call], findings: &mut Findings) {
    let (mut certain, mut unclear, mut since_loss, mut end) = (0, Vec::new(), 0, None);
    let lost = history
        .recorded
        .disturbances
        .faults
        .iter()
        .filter(|fault| fault.kind.loses_objects())
        .map(|fault| fault.to)
        .max();
    let mut sums: Vec<(&Call, u64)> = Vec::new();
    for call in calls {
        match (call.op, call.outcome) {
            (Op::Add(by), Some(Outcome::Found(sum))) => {
                certain += by;
                sums.push((call, sum));
                if lost.is_none_or(|lost| call.begin > lost) {
                    since_loss += by;
                }
            }
            (Op::Add(by), _) if call.is_unclear() => unclear.push(by),
            (Op::Sum, Some(Outcome::Found(sum))) => end = Some(sum),
            _ => {}
        }
    }
    rising(history, &sums, findings);
    let Some(end) = end else { return };
    let most = certain + unclear.iter().sum::<u64>();
    let least = if lost.is_some() { since_loss } else { certain };
    let is_possible = match lost {
        None if object.0 == Kind::ExactCounter => end >= certain && is_sum(end - certain, &unclear),
        _ => (least..=most).contains(&end),
    };
    if !is_possible {
        let what = format!("{object:?} is {end}; acknowledged are {least}, and one of {unclear:?} may be applied");
        findings.broken("sums", what);
    }
}

/// An addition that began after another one had ended has a greater sum.
fn rising(history: &History, sums: &[(&Call, u64)], findings: &mut Findings) {
    let mut ended: Vec<(Nanos, u64, &Call)> = sums.iter().map(|(call, sum)| (call.end, *sum, *call)).collect();
    ended.sort_unstable_by_key(|(end, sum, _)| (*end, *sum));
    let (mut next, mut greatest) = (0, None::<(u64, &Call)>);
    for (call, sum) in sums {
        while next < ended.len() && ended[next].0 < call.begin {
            let (_, sum, before) = ended[next];
            if greatest.is_none_or(|(greatest, _)| sum > greatest) {
                greatest = Some((sum, before));
            }
            next += 1;
        }
        let Some((_, before)) = greatest.filter(|(greatest, _)| sum <= greatest) else { continue };
        if history.recorded.disturbances.loss_between(before.begin, call.end).is_none() {
            findings.broken("sums", format!("the sum does not rise: {before}; {call}"));
        }
        // Only the first addition after a loss is smaller than those before.
        greatest = None;
    }
}

/// Whether some of these numbers have this sum.
fn is_sum(sum: u64, numbers: &[u64]) -> bool {
    let Ok(sum) = usize::try_from(sum) else { return false };
    let mut reachable = vec![false; sum + 1];
    reachable[0] = true;
    for number in numbers.iter().filter_map(|number| usize::try_from(*number).ok()) {
        for at in (number..=sum).rev() {
            reachable[at] |= reachable[at - number];
        }
    }
    reachable[sum]
}

pub(super) fn numbers(history: &History, calls: &[&Call], findings: &mut Findings) {
    let mut seen: HashMap<u64, &Call> = HashMap::new();
    for call in calls {
        let (Op::Next, Some(Outcome::Found(number))) = (call.op, call.outcome) else { continue };
        let Some(first) = seen.insert(number, call) else { continue };
        // The numbers of a block can be given long after it was reserved.
        match history.recorded.disturbances.loss_between(0, call.end.max(first.end)) {
            Some(reason) => findings.excuse(reason),
            None => findings.broken("numbers", format!("{number}: {first}; {call}")),
        }
    }
}
