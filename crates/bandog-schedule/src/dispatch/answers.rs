//! Handles the answer of the store to the swap of a job's record. The swap replaces the record if the record still has
//! the version that this node knows.

use std::time::Duration;

use bandog_core::{Record, Result, Swapped};

use super::{
    entry::{JobEntry, PendingSwap},
    polls::{POLL_INTERVAL, RETRY},
};
use crate::{meters, plan::Plan};

/// The effect of an answer to a swap on the job.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// Number of slots of the pool that were reserved when the swap was sent, one slot for each run that the swap
    /// claims. The planner ends the reservation, whatever the answer is.
    pub(super) starts: usize,
    pub(super) next: AfterAnswer,
}

/// The next step of the planner after an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AfterAnswer {
    /// The store has written the new state. So the planner applies the plan of the swap. `has_more`: the planner must
    /// plan the job again, because the job got events or became ready while the swap was in flight.
    Apply { plan: Plan, has_more: bool },
    /// The swap was refused, because another process has written the record in the meantime. The value is the present
    /// record.
    Take(Record),
    /// There is no record: either an operator has removed the job, or the store has lost the record. To find out which
    /// of the two has happened, the node reads the record again together with the board. The board is a record that
    /// contains the era: a random id of the store's present data. A new era means that the store has lost its data.
    Read,
    /// The job is planned again after this delay.
    PlanAfter(Duration),
}

/// Applies the answer to the entry. Returns none if no swap was in flight. `retry`: if the store did not answer, the
/// job is planned again after this delay.
pub(super) fn take_answer(entry: &mut JobEntry, answer: Result<Swapped>, retry: Duration) -> Option<Answered> {
    let PendingSwap { next: state, plan, events } = *entry.pending.take()?;
    let was_ready = std::mem::take(&mut entry.is_ready);
    // A swap that claims a tick has a time `not_before`: the store refuses the swap before this time.
    let (starts, is_claim) = (plan.starts, plan.not_before.is_some());
    let count_claim = |result| {
        if is_claim {
            meters::claimed(result);
        }
    };
    let next = match answer {
        Ok(Swapped::Done(version)) => {
            count_claim("won");
            entry.events.drain(..events);
            entry.is_fault_logged = false;
            entry.version = version;
            entry.state = Some(Box::new(state));
            AfterAnswer::Apply { plan, has_more: was_ready || !entry.events.is_empty() }
        }
        Ok(Swapped::Differs(record)) => {
            count_claim("lost");
            record.map_or(AfterAnswer::Read, AfterAnswer::Take)
        }
        Ok(Swapped::Early(missing)) => {
            meters::claimed("early");
            AfterAnswer::PlanAfter(missing.saturating_add(Duration::from_millis(1)))
        }
        // The session of this node has expired. The lock client notices this when it renews the session's lock the next
        // time. Until then, the store refuses each claim of this node.
        Ok(Swapped::NotHeld) => AfterAnswer::PlanAfter(RETRY),
        Err(error) => {
            count_claim("error");
            if !error.is_retryable() && !std::mem::replace(&mut entry.is_fault_logged, true) {
                tracing::error!(job = %entry.definition.name, %error, "the job cannot be claimed");
            }
            AfterAnswer::PlanAfter(if error.is_retryable() { retry } else { POLL_INTERVAL })
        }
    };
    Some(Answered { starts, next })
}

#[cfg(test)]
mod tests {
    use bandog_core::{Error, Holding, Version};

    use super::*;
    use crate::{Job, Run, plan::Event, state::JobState};

    /// Delay before a job is planned again, if the store does not answer.
    const SLOW: Duration = Duration::from_millis(800);

    /// An entry with two events and a swap in flight. The swap contains only the first event.
    fn entry() -> JobEntry {
        // `None`: the job gets the lease of a scheduler without a client.
        let mut entry = JobEntry::new(Job::once("job").run(async |_: Run| ()).prepare(None).unwrap());
        let died = |number: u32| {
            let id = format!("00000000-0000-8000-8000-000000000001:{number}").parse().unwrap();
            Event::NodeDied(Holding { key: bandog_core::Key::new("schedule/node/1").unwrap(), id })
        };
        entry.events = vec![died(1), died(2)];
        let next = JobState { run: 7, ..JobState::new(&entry.definition.policy, 1000, None) };
        let plan = Plan { starts: 3, not_before: Some(5), ..Plan::default() };
        entry.pending = Some(Box::new(PendingSwap { next, plan, events: 1 }));
        entry
    }

    /// Handles the answer for this entry, and returns the next step of the planner.
    fn after(entry: &mut JobEntry, answer: Result<Swapped>) -> AfterAnswer {
        let Answered { starts, next } = take_answer(entry, answer, SLOW).unwrap();
        assert_eq!((starts, entry.pending.is_none()), (3, true));
        next
    }

    #[test]
    fn a_written_swap_becomes_the_state_and_later_events_are_kept() {
        let mut entry = entry();
        let next = after(&mut entry, Ok(Swapped::Done(Version::new(9))));
        assert!(matches!(next, AfterAnswer::Apply { has_more: true, plan: Plan { starts: 3, .. } }), "{next:?}");
        assert_eq!((entry.events.len(), entry.version), (1, Version::new(9)));
        assert_eq!(entry.state.as_ref().map(|state| state.run), Some(7));
        assert_eq!(take_answer(&mut entry, Ok(Swapped::NotHeld), SLOW), None, "no swap is in flight");
    }

    #[test]
    fn a_job_that_became_ready_meanwhile_is_planned_again() {
        for (was_ready, has_more) in [(true, true), (false, false)] {
            let mut entry = entry();
            entry.events.pop();
            entry.is_ready = was_ready;
            let next = after(&mut entry, Ok(Swapped::Done(Version::new(9))));
            assert!(matches!(next, AfterAnswer::Apply { has_more: more, .. } if more == has_more));
            assert!(!entry.is_ready);
        }
    }

    #[test]
    fn any_other_answer_leaves_the_state_and_the_events() {
        let record = Record { version: Version::new(4).unwrap(), value: "x".into() };
        // An error of a call that can never succeed. A retry does not help.
        let refused = || Err(Error::misused("no"));
        for (answer, expected) in [
            (Ok(Swapped::Differs(Some(record.clone()))), AfterAnswer::Take(record)),
            (Ok(Swapped::Differs(None)), AfterAnswer::Read),
            (Ok(Swapped::Early(Duration::from_millis(20))), AfterAnswer::PlanAfter(Duration::from_millis(21))),
            (Ok(Swapped::NotHeld), AfterAnswer::PlanAfter(RETRY)),
            (Err(Error::unavailable("down")), AfterAnswer::PlanAfter(SLOW)),
            (refused(), AfterAnswer::PlanAfter(POLL_INTERVAL)),
        ] {
            let mut entry = entry();
            let is_fault = answer.as_ref().is_err_and(|error| !error.is_retryable());
            assert_eq!(after(&mut entry, answer), expected);
            assert_eq!((entry.events.len(), entry.state.is_none(), entry.version), (2, true, None));
            assert_eq!(entry.is_fault_logged, is_fault);
        }
    }
}
