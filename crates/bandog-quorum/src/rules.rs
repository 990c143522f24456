//! The rules by which the answers of the nodes become one answer. They do no I/O and read no clock.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{Error, Fence, Fences, Moment, Released, Renewal};

/// The part of one node in the answer of the quorum.
#[derive(Debug, Clone)]
pub(crate) enum Vote<T> {
    /// The node has not answered yet.
    Awaited,
    /// The node has answered.
    Given(T),
    /// The node refuses the step with this error. A repetition would not help, and the node has changed nothing.
    Refused(Error),
    /// The node did not answer, or its answer does not count.
    Missing(Error),
}

/// The answer of a node to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The claim holds the key at this node, at least until this moment.
    Granted { fences: Fences, until: Moment },
    /// Another claim holds the key at this node.
    Busy { retry_after: Duration },
}

/// The answer of the quorum to a claim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The answers that are still awaited can change the result.
    Wait,
    /// A majority has stored the same fences.
    Granted { fences: Fences, until: Moment },
    /// A majority has granted the claim with different fences. The claim must be sent to these nodes again, with this
    /// value of [`bandog_core::Claim::above`].
    Raise { above: Fence, nodes: Vec<usize> },
    /// The claim is refused. Some nodes may have granted it.
    Busy { retry_after: Duration },
    /// Fewer nodes refuse the claim than can prevent a majority, and others have no vote or have not answered.
    Split { retry_after: Duration },
    /// Too few nodes have answered.
    Failed,
}

/// The number of nodes of a majority. Any two majorities of the same nodes have a node in common.
pub(crate) fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Decides about a claim that requests `count` fences. `is_over`: no more answers will come.
///
/// A grant needs a majority that stores the same fences. Then each later grant has a node in common with this majority,
/// and this node gives the later grant greater fences.
pub(crate) fn claimed(votes: &[Vote<Choice>], count: NonZeroU32, is_over: bool) -> Decision {
    let needed = majority(votes.len());
    let awaited = if is_over { 0 } else { awaited(votes) };
    let (mut granted, mut busy) = (Vec::new(), Vec::new());
    for (node, vote) in votes.iter().enumerate() {
        match vote {
            Vote::Given(Choice::Granted { fences, until }) => granted.push((node, fences, *until)),
            Vote::Given(Choice::Busy { retry_after }) => busy.push(*retry_after),
            Vote::Awaited | Vote::Refused(_) | Vote::Missing(_) => {}
        }
    }
    for (_, fences, _) in &granted {
        let same = granted.iter().filter(|(_, other, _)| other == fences).map(|(_, _, until)| *until);
        if let Some(until) = nth_greatest(same.collect(), needed) {
            return Decision::Granted { fences: (*fences).clone(), until };
        }
    }
    if granted.len() + awaited < needed {
        busy.sort_unstable();
        // After this time, enough of the other holds have expired.
        let expired = busy.get(needed - granted.len() - 1).or(busy.last());
        let retry_after = expired.copied().unwrap_or_default();
        return if busy.len() > votes.len() - needed {
            Decision::Busy { retry_after }
        } else if awaited > 0 {
            Decision::Wait
        } else if granted.len() + busy.len() >= needed {
            Decision::Split { retry_after }
        } else {
            Decision::Failed
        };
    }
    if awaited > 0 {
        return Decision::Wait;
    }
    let highest = granted.iter().max_by_key(|(_, fences, _)| fences.last()).map(|(_, fences, _)| *fences);
    let Some(highest) = highest else { return Decision::Failed };
    let above = Fence::new(highest.last().get().saturating_sub(u64::from(count.get())));
    let nodes = granted.iter().filter(|(_, fences, _)| *fences != highest).map(|(node, _, _)| *node);
    Decision::Raise { above, nodes: nodes.collect() }
}

/// The part of a claim that a node keeps after a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The hold, until this moment.
    Hold(Moment),
    /// A place. The node has not granted the claim, even if a majority of the nodes has granted it.
    Place,
    Nothing,
}

/// The answer of a node to a renewal that was sent at this moment.
pub(crate) fn kept(renewal: Renewal, sent: Moment) -> Kept {
    match renewal {
        Renewal::Extended { valid_for } => Kept::Hold(sent + valid_for),
        Renewal::Waiting { .. } => Kept::Place,
        Renewal::Gone => Kept::Nothing,
    }
}

/// The answer to a renewal. None if the answer needs more votes.
pub(crate) fn renewed(votes: &[Vote<Kept>], is_over: bool) -> Option<Result<Kept, Error>> {
    let needed = majority(votes.len());
    let until = |kept: &Kept| if let Kept::Hold(until) = kept { Some(*until) } else { None };
    let held: Vec<_> = given(votes).filter_map(until).collect();
    let without = given(votes).count() - held.len();
    let gone = given(votes).filter(|kept| **kept == Kept::Nothing).count();
    if let Some(until) = nth_greatest(held, needed) {
        return Some(Ok(Kept::Hold(until)));
    }
    // The other nodes, even if all of them still had the hold, would be no majority.
    if votes.len() - without < needed {
        let has_place = given(votes).count() - gone >= needed;
        return Some(Ok(if has_place { Kept::Place } else { Kept::Nothing }));
    }
    (is_over || awaited(votes) == 0).then(|| Err(failure(votes)))
}

/// The answer to a release. None if the answer needs more votes.
pub(crate) fn released(votes: &[Vote<Released>], is_over: bool) -> Option<Result<Released, Error>> {
    let needed = majority(votes.len());
    let is_over = is_over || awaited(votes) == 0;
    let freed = given(votes).filter(|released| matches!(released, Released::Freed { .. }));
    if freed.clone().count() >= needed {
        let others = freed.map(|released| match released {
            Released::Freed { others } => *others,
            Released::LeftQueue | Released::NotHeld => None,
        });
        // The greatest number. None if one of the nodes does not know its number.
        let others = others.collect::<Option<Vec<_>>>().and_then(|others| others.into_iter().max());
        return is_over.then_some(Ok(Released::Freed { others }));
    }
    // The nodes without an answer might have had the hold.
    if freed.count() + votes.len() - given(votes).count() >= needed {
        return is_over.then(|| Err(failure(votes)));
    }
    if !is_over {
        return None;
    }
    let has_left = given(votes).any(|released| matches!(released, Released::LeftQueue));
    Some(Ok(if has_left { Released::LeftQueue } else { Released::NotHeld }))
}

/// The error if too few nodes have answered. If the nodes that refuse the request leave no
/// majority, a repetition does not help: then it is the error of the first of these nodes.
pub(crate) fn failure<T>(votes: &[Vote<T>]) -> Error {
    let (nodes, needed) = (votes.len(), majority(votes.len()));
    let refused: Vec<_> =
        votes.iter().filter_map(|vote| if let Vote::Refused(error) = vote { Some(error) } else { None }).collect();
    if refused.len() > nodes - needed {
        return refused[0].clone();
    }
    let mut reasons = Vec::new();
    for vote in votes {
        if let Vote::Refused(error) | Vote::Missing(error) = vote {
            let reason = error.without_kind();
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    let given = given(votes).count();
    let reasons = reasons.join("; ");
    Error::unavailable(format!(
        "{given} of the {nodes} nodes of the quorum have given an answer that counts, and {needed} are needed: {reasons}"
    ))
}

/// The answers of the nodes that have given one.
fn given<T>(votes: &[Vote<T>]) -> impl Iterator<Item = &T> + Clone {
    votes.iter().filter_map(|vote| match vote {
        Vote::Given(answer) => Some(answer),
        Vote::Awaited | Vote::Refused(_) | Vote::Missing(_) => None,
    })
}

fn awaited<T>(votes: &[Vote<T>]) -> usize {
    votes.iter().filter(|vote| matches!(vote, Vote::Awaited)).count()
}

/// The moment that `number` of these moments reach. None if there are fewer moments.
fn nth_greatest(mut moments: Vec<Moment>, number: usize) -> Option<Moment> {
    moments.sort_unstable();
    moments.len().checked_sub(number).and_then(|at| moments.get(at).copied())
}

#[cfg(test)]
mod tests;
