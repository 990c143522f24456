//! The parts of a history beside the calls for locks.

use std::fmt;

use crate::{
    history::{CallId, Nanos},
    step::{Reply, Step},
};

/// If a call ended without an answer, its operation is not applied later than this time after the end: the client
/// repeats it for three request timeouts, and faults hold requests back for at most 1.1 s.
const MAYBE_APPLIED: Nanos = 10_000_000_000;

/// A report about the leader of an election.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observation {
    /// The client and the task that asked.
    pub(crate) by: (u32, u32),
    /// The beginning and the end of the question.
    pub(crate) from: Nanos,
    pub(crate) at: Nanos,
    pub(crate) name: usize,
    /// Whether an observer reported a change. Else the present leader was asked for.
    pub(crate) follows: bool,
    /// The fence, the client and the call of the leader.
    pub(crate) leader: Option<(u64, u32, CallId)>,
}

/// A claim at a position of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    /// The client and the task that asked for the queue.
    pub(crate) by: (u32, u32),
    /// The beginning and the end of the question.
    pub(crate) from: Nanos,
    pub(crate) at: Nanos,
    pub(crate) name: usize,
    pub(crate) position: u32,
    pub(crate) claim: u64,
}

/// A call for a latch or a barrier.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepCall {
    pub(crate) client: u32,
    /// The number of the client's process.
    pub(crate) process: u32,
    pub(crate) id: CallId,
    pub(crate) task: u32,
    pub(crate) name: usize,
    pub(crate) step: Step,
    /// The time limit of the call.
    pub(crate) limit: Nanos,
    pub(crate) began: Nanos,
    /// The time and the result of the call's end.
    pub(crate) answer: Option<(Nanos, Reply)>,
    /// The time at which the client's process was killed.
    pub(crate) killed: Option<Nanos>,
}

impl StepCall {
    pub(crate) fn reply(&self) -> Option<Reply> {
        self.answer.map(|(_, reply)| reply)
    }

    /// Whether the store has answered the call.
    pub(super) fn is_sure(&self) -> bool {
        self.reply().is_some_and(Reply::is_sure)
    }

    /// The time at which the call ended, or at which its process was killed.
    pub(crate) fn ended(&self) -> Nanos {
        self.answer.map(|(at, _)| at).or(self.killed).unwrap_or(Nanos::MAX)
    }

    /// The latest time at which the store may have applied the operation.
    pub(super) fn latest(&self) -> Nanos {
        if self.is_sure() { self.ended() } else { self.ended().saturating_add(MAYBE_APPLIED) }
    }

    /// Whether the store may have applied the operation at some time between `from` and `to`.
    pub(super) fn may_be_between(&self, from: Nanos, to: Nanos) -> bool {
        self.began <= to && self.latest() >= from
    }
}

impl fmt::Display for StepCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, task, id, step, .. } = self;
        write!(f, "client {client} task {task} call {id} ({step}")?;
        match self.answer {
            Some((_, reply)) => write!(f, ", answer: {reply})"),
            None => f.write_str(")"),
        }
    }
}
