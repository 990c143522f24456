//! The history of locks. A call for a lock, what its holder records, and its release are combined into one `Call`.

mod words;

use std::{collections::HashMap, fmt, io};

pub(super) use self::words::{Locks, Name, Note, Op, ResourceWrite, Verb, claim_number};
use super::share::Share;
use crate::{
    calls::{self, Outcome, Recorded},
    fault::{Fault, FaultKind},
    history::{CallId, Files, Nanos, lines, nanos},
    plan::{RESOURCES, TIMEOUT},
};

/// If a call ended without an answer, its operation is not applied later than this time after the end: the client
/// repeats it for three request timeouts, and faults hold requests back for at most 1.1 s.
const MAYBE_APPLIED: Nanos = 10_000_000_000;

/// A call for a latch or a barrier.
pub(super) type StepCall = calls::Call<Locks>;

/// The calls, the faults, and the other events of a run.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) recorded: Recorded<Locks>,
    /// The calls for locks, in the order of their beginnings.
    pub(super) calls: Vec<Call>,
    /// The calls for latches and barriers, in the order of their beginnings.
    pub(super) steps: Vec<StepCall>,
    /// The positions of claims in the queues of fair mutexes, as the store reported them.
    pub(super) positions: Vec<Position>,
    /// The changes of the limits of semaphores.
    pub(super) limits: Vec<LimitChange>,
    /// The leaders of elections, as the store reported them.
    pub(super) observations: Vec<Observation>,
    /// For each lock name, the writes that were made under this lock, in the order in which they were made.
    pub(super) resources: Vec<Vec<ResourceWrite>>,
    pub(super) terms: Terms,
    /// For each call, its index in `calls`. The key is the client and the id of the call.
    index: HashMap<(u32, CallId), usize>,
}

/// The times of a run.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Terms {
    /// The watchdog's ttl.
    pub(super) ttl: Nanos,
    /// Time for which the store keeps the place of a waiting client that sends nothing.
    pub(super) place: Nanos,
    /// The time when all clients had ended.
    pub(super) end: Nanos,
}

/// One call for a lock, from its beginning to its end.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) client: u32,
    pub(super) id: CallId,
    task: u32,
    /// The number of the lock's name.
    pub(super) name: usize,
    /// The share that the call asks for.
    pub(super) share: Share,
    /// The method of the call.
    pub(super) verb: Verb,
    /// The time at which the call began.
    pub(super) asked: Nanos,
    pub(super) ttl: Nanos,
    /// Whether a watchdog renews the lock. If not, the lock has a fixed lease.
    pub(super) watched: bool,
    pub(super) grant: Option<Grant>,
    /// The time and the result of the call's end. If the lock was granted, this is the end of the release.
    pub(super) answer: Option<(Nanos, Outcome)>,
    /// The time at which the client's process was killed.
    pub(super) killed: Option<Nanos>,
}

/// A grant, and the later observations of the holder.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) at: Nanos,
    pub(super) fence: u64,
    /// A number for the id of the claim in the store.
    pub(super) claim: u64,
    /// The end of the hold without a renewal (its deadline), as known at the time of the grant.
    pub(super) granted_until: Nanos,
    /// The deadline as known at the last check that found the lock held.
    pub(super) until: Nanos,
    /// Number of writes that the holder had made before the last check of its guard that found the lock held. So it is
    /// certain that the holder believed at each of these writes that it held the lock.
    pub(super) sure_writes: u32,
    /// The time of the holder's last check of its guard, and whether the lock was held then. `None` if the holder made
    /// no last check, because it was killed.
    pub(super) ended: Option<(Nanos, bool)>,
    /// The fence that the owner got when it locked the same lock again during this grant.
    pub(super) again: Option<u64>,
}

/// A change of the limit of a semaphore, at some time between `from` and `to`.
#[derive(Debug, Clone, Copy)]
pub(super) struct LimitChange {
    pub(super) name: usize,
    pub(super) limit: u32,
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    /// Whether the change was certainly applied.
    pub(super) sure: bool,
}

/// A report about the leader of an election.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    /// The client and the task that asked.
    pub(super) by: (u32, u32),
    /// The beginning and the end of the question.
    pub(super) from: Nanos,
    pub(super) at: Nanos,
    pub(super) name: usize,
    /// Whether an observer reported a change. Else the present leader was asked for.
    pub(super) follows: bool,
    /// The fence, the client and the call of the leader.
    pub(super) leader: Option<(u64, u32, CallId)>,
}

/// A claim at a position of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    /// The client and the task that asked for the queue.
    pub(super) by: (u32, u32),
    /// The beginning and the end of the question.
    pub(super) from: Nanos,
    pub(super) at: Nanos,
    pub(super) name: usize,
    pub(super) position: u32,
    pub(super) claim: u64,
}

impl Call {
    /// The time span in which the holder certainly believed that it held the lock. The span begins at the grant. If the
    /// lock was held at the last check, the span ends at that check. If the lock was lost or the holder was killed, the
    /// span ends at the loss or the kill, but not later than the last known deadline.
    pub(super) fn belief(&self) -> Option<(Nanos, Nanos)> {
        let grant = self.grant.as_ref()?;
        let to = match grant.ended {
            Some((at, true)) => at,
            Some((at, false)) => grant.until.min(at),
            None => grant.until.min(self.killed.unwrap_or(Nanos::MAX)),
        };
        // A downgrade begins while the writer holds the lock. If the reader's guard is not lost at the grant, the client
        // held the lock at least as a reader all the time.
        let is_held = grant.granted_until > grant.at;
        let from = if self.verb == Verb::Downgrade && is_held { self.asked } else { grant.at };
        (from < to).then_some((from, to))
    }

    /// The earliest time at which this call certainly does not hold the lock any more. `None` if the call never got the
    /// lock.
    pub(super) fn surely_free(&self) -> Option<Nanos> {
        let grant = self.grant.as_ref()?;
        Some(match (grant.ended, self.killed) {
            (Some((at, true)), _) => self.answer.map_or(at, |(answered, _)| answered),
            // When the client noticed the loss, a renewal might have been on its way to the store. The renewal could
            // extend the hold by one ttl.
            (Some((at, false)), _) => at.saturating_add(self.ttl),
            (None, killed) => killed.unwrap_or(grant.until).saturating_add(self.ttl),
        })
    }

    /// The time at which the caller received the answer.
    pub(super) fn answered_at(&self) -> Option<Nanos> {
        self.grant.as_ref().map(|grant| grant.at).or(self.answer.map(|(at, _)| at))
    }

    pub(super) fn fence(&self) -> u64 {
        self.grant.as_ref().map_or(0, |grant| grant.fence)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, task, id, share, verb, .. } = self;
        let kind = if self.watched { "watched" } else { "lease" };
        write!(f, "client {client} task {task} call {id} ({share:?}, {verb:?}, {kind}")?;
        match &self.grant {
            Some(grant) => write!(f, ", fence {})", grant.fence),
            None => f.write_str(")"),
        }
    }
}

impl StepCall {
    /// Whether the store has answered the call.
    pub(super) fn is_sure(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Ok | Outcome::No | Outcome::Found(_) | Outcome::Opened))
    }

    /// The latest time at which the store may have applied the operation.
    fn latest(&self) -> Nanos {
        if self.is_sure() { self.end } else { self.end.saturating_add(MAYBE_APPLIED) }
    }

    /// Whether the store may have applied the operation at some time between `from` and `to`.
    pub(super) fn may_be_between(&self, from: Nanos, to: Nanos) -> bool {
        self.begin <= to && self.latest() >= from
    }
}

impl History {
    /// Reads the writes to the resources.
    ///
    /// # Errors
    /// If a file cannot be read, or has a line that cannot be parsed.
    pub(super) fn resources(files: &Files) -> io::Result<Vec<Vec<ResourceWrite>>> {
        let read = |name| {
            let mut writes = Vec::new();
            lines(&files.resource(name), |write| writes.push(write)).map(|()| writes)
        };
        (0..RESOURCES).map(read).collect()
    }

    pub(super) fn of(recorded: Recorded<Locks>, resources: Vec<Vec<ResourceWrite>>, terms: Terms) -> Self {
        let mut history = Self { resources, terms, ..Self::default() };
        let mut evictions = Vec::new();
        for call in &recorded.calls {
            let (Name(name), from, to) = (call.object, call.begin, call.end);
            // The store may apply an operation without an answer for some time after its begin.
            let until = |timeouts: u32| if call.is_ok() { to } else { from + nanos(TIMEOUT * timeouts) };
            match call.op {
                Op::Lock { .. } => history.add(call, recorded.disturbances.killed.get(&call.client).copied()),
                Op::Release { of } => {
                    if let Some(outcome) = call.outcome.filter(|outcome| *outcome != Outcome::Cancelled) {
                        history.change(call.client, of, |call| call.answer = Some((to, outcome)));
                    }
                }
                Op::Evict => {
                    let (kind, to) = (FaultKind::Evict, until(3));
                    evictions.push(Fault { kind, from, to, client: None, name: Some(name) });
                }
                Op::Limit(limit) => {
                    history.limits.push(LimitChange { name, limit, from, to: until(8), sure: call.is_ok() });
                }
                Op::Leader { follows } => {
                    let leader = match call.outcome {
                        Some(Outcome::Leader { fence, client, call }) => Some((fence, client, call)),
                        Some(Outcome::No) => None,
                        _ => continue,
                    };
                    let by = (call.client, call.task);
                    history.observations.push(Observation { by, from, at: to, name, follows, leader });
                }
                Op::Set(_) | Op::CountDown(_) | Op::Delete | Op::Count | Op::Wait | Op::Meet => {
                    history.steps.push(*call);
                }
            }
        }
        for (client, note) in recorded.others.iter().copied() {
            history.note(client, note);
        }
        history.recorded = recorded;
        let faults = &mut history.recorded.disturbances.faults;
        faults.extend(evictions);
        faults.sort_by_key(|fault| fault.from);
        history
    }

    pub(super) fn find(&self, client: u32, call: CallId) -> Option<&Call> {
        self.index.get(&(client, call)).map(|at| &self.calls[*at])
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.recorded.disturbances.faults.iter()
    }

    /// Adds a call for a lock.
    fn add(&mut self, call: &calls::Call<Locks>, killed: Option<Nanos>) {
        let calls::Call { client, id, task, object: Name(name), op, begin: asked, end, outcome, .. } = *call;
        let Op::Lock { share, verb, ttl, watched } = op else { return };
        let (grant, answer) = match outcome {
            Some(Outcome::Granted { fence, until, claim }) => {
                let (at, granted_until, sure_writes, ended, again) = (end, until, 0, None, None);
                (Some(Grant { at, fence, claim, granted_until, until, sure_writes, ended, again }), None)
            }
            outcome => (None, outcome.map(|outcome| (end, outcome))),
        };
        self.index.insert((client, id), self.calls.len());
        self.calls.push(Call { client, id, task, name, share, verb, asked, ttl, watched, grant, answer, killed });
    }

    /// Adds what a holder has recorded, or the position of a claim.
    fn note(&mut self, client: u32, note: Note) {
        match note {
            Note::Held { call, until, writes, .. } => self.change_grant(client, call, |grant| {
                (grant.until, grant.sure_writes) = (until, writes);
            }),
            Note::Left { call, at, held, writes, .. } => self.change_grant(client, call, |grant| {
                grant.ended = Some((at, held));
                if held {
                    grant.sure_writes = writes;
                }
            }),
            Note::Again { call, fence } => self.change_grant(client, call, |grant| grant.again = Some(fence)),
            Note::Queued { task, from, at, name: Name(name), position, claim } => {
                self.positions.push(Position { by: (client, task), from, at, name, position, claim });
            }
        }
    }

    /// Changes this call, if it is known.
    fn change(&mut self, client: u32, call: CallId, change: impl FnOnce(&mut Call)) {
        if let Some(at) = self.index.get(&(client, call)) {
            change(&mut self.calls[*at]);
        }
    }

    /// Changes the grant of this call, if the call was granted the lock.
    fn change_grant(&mut self, client: u32, call: CallId, change: impl FnOnce(&mut Grant)) {
        self.change(client, call, |call| {
            if let Some(grant) = &mut call.grant {
                change(grant);
            }
        });
    }
}
