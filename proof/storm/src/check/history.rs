//! The whole history of a run. The events of each call are combined into one `Call`.

use std::{
    collections::HashMap,
    fmt, fs,
    io::{self, BufRead, BufReader},
    path::Path,
    str::FromStr,
};

use super::facts::{Observation, Position, StepCall};
use crate::{
    fault::{Fault, FaultKind},
    history::{CallId, Event, Files, Nanos, Outcome, ResourceWrite, Verb, nanos},
    plan::STALL,
    share::Share,
    worker_pool::Life,
};

/// The calls, the faults, and the other events of a run.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) calls: Vec<Call>,
    pub(crate) faults: Vec<Fault>,
    /// Time spans in which a process could not run, because the machine or its disk was busy. Each entry has the number
    /// of the process (the number of its first client), the start and the end.
    pub(crate) stalled: Vec<(u32, Nanos, Nanos)>,
    /// Time spans in which a task blocked the runtime of a process. The entries have the same fields as in `stalled`.
    pub(crate) blocked: Vec<(u32, Nanos, Nanos)>,
    /// The positions of claims in the queues of fair mutexes, as the store reported them.
    pub(crate) positions: Vec<Position>,
    /// The changes of the limits of semaphores.
    pub(crate) limits: Vec<LimitChange>,
    /// The calls for latches and barriers.
    pub(crate) steps: Vec<StepCall>,
    /// The leaders of elections, as the store reported them.
    pub(crate) observations: Vec<Observation>,
    /// For each lock name, the writes that were made under this lock, in the order in which they were made.
    pub(crate) resources: Vec<Vec<ResourceWrite>>,
    /// The watchdog's ttl.
    pub(crate) ttl: Nanos,
    /// Time for which the store keeps the place of a waiting client that sends nothing.
    pub(crate) place: Nanos,
    /// The time when all clients had ended.
    pub(crate) end: Nanos,
    /// For each call, its index in `calls`. The key is the client and the id of the call.
    pub(super) index: HashMap<(u32, CallId), usize>,
    /// The same for `steps`.
    pub(super) step_index: HashMap<(u32, CallId), usize>,
}

/// A change of the limit of a semaphore, at some time between `from` and `to`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitChange {
    pub(crate) name: usize,
    pub(crate) limit: u32,
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
    /// Whether the change was certainly applied.
    pub(crate) sure: bool,
}

/// One call, from its beginning to its end.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) client: u32,
    /// The number of the client's process. A process has the number of its first client.
    pub(crate) process: u32,
    pub(crate) id: CallId,
    pub(crate) task: u32,
    /// The number of the lock's name.
    pub(crate) name: usize,
    /// The share that the call asks for.
    pub(crate) share: Share,
    /// The method of the call.
    pub(crate) verb: Verb,
    /// The time at which the call began.
    pub(crate) asked: Nanos,
    /// The time limit of the call.
    pub(crate) limit: Nanos,
    pub(crate) ttl: Nanos,
    /// Whether a watchdog renews the lock. If not, the lock has a fixed lease.
    pub(crate) watched: bool,
    pub(crate) grant: Option<Grant>,
    /// The time and the result of the call's end. If the lock was granted, this is the end of the release.
    pub(crate) answer: Option<(Nanos, Outcome)>,
    /// The time at which the client's process was killed.
    pub(crate) killed: Option<Nanos>,
}

/// A grant, and the later observations of the holder.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) at: Nanos,
    pub(crate) fence: u64,
    /// A number for the id of the claim in the store.
    pub(crate) claim: u64,
    /// The end of the hold without a renewal (its deadline), as known at the time of the grant.
    pub(crate) granted_until: Nanos,
    /// The deadline as known at the last check that found the lock held.
    pub(crate) until: Nanos,
    /// Number of writes that the holder had made before the last check of its guard that found the lock held. So it is
    /// certain that the holder believed at each of these writes that it held the lock.
    pub(crate) sure_writes: u32,
    /// The time of the holder's last check of its guard, and whether the lock was held then. `None` if the holder made
    /// no last check, because it was killed.
    pub(crate) ended: Option<(Nanos, bool)>,
    /// The fence that the owner got when it locked the same lock again during this grant.
    pub(crate) again: Option<u64>,
}

impl Call {
    /// The time span in which the holder certainly believed that it held the lock. The span begins at the grant. If the
    /// lock was held at the last check, the span ends at that check. If the lock was lost or the holder was killed, the
    /// span ends at the loss or the kill, but not later than the last known deadline.
    pub(crate) fn belief(&self) -> Option<(Nanos, Nanos)> {
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
    pub(crate) fn surely_free(&self) -> Option<Nanos> {
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
    pub(crate) fn answered_at(&self) -> Option<Nanos> {
        self.grant.as_ref().map(|grant| grant.at).or(self.answer.map(|(at, _)| at))
    }

    pub(crate) fn fence(&self) -> u64 {
        self.grant.as_ref().map_or(0, |grant| grant.fence)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, task, id, share, verb, .. } = self;
        let kind = if self.watched { "watched" } else { "lease" };
        write!(f, "client {client} task {task} call {id} ({share}, {}, {kind}", verb.word())?;
        match &self.grant {
            Some(grant) => write!(f, ", fence {})", grant.fence),
            None => f.write_str(")"),
        }
    }
}

impl History {
    /// Reads all files.
    ///
    /// # Errors
    /// If a file cannot be read, or has a line that cannot be parsed. Only the last line of a file is allowed to be
    /// incomplete.
    pub(crate) fn read(
        files: &Files,
        lives: &[Life],
        names: usize,
        faults: Vec<Fault>,
        (ttl, place, end): (Nanos, Nanos, Nanos),
    ) -> io::Result<Self> {
        let mut history = Self { faults, ttl, place, end, ..Self::default() };
        for life in lives {
            lines(&files.client(life.client), |event| history.add(life, event))?;
            // A process records that it did not run when it runs again. A killed process did not record this.
            let mut last_beat = None;
            lines(&files.pulse(life.client), |beat: Nanos| last_beat = Some(beat))?;
            let silent =
                life.killed.zip(last_beat).filter(|(killed, beat)| killed.saturating_sub(*beat) > nanos(STALL));
            history.stalled.extend(silent.map(|(killed, beat)| (life.process, beat, killed)));
        }
        for name in 0..names {
            let mut entries = Vec::new();
            lines(&files.resource(name), |entry| entries.push(entry))?;
            history.resources.push(entries);
        }
        history.tidy();
        Ok(history)
    }

    pub(crate) fn find(&self, client: u32, call: CallId) -> Option<&Call> {
        self.index.get(&(client, call)).map(|at| &self.calls[*at])
    }

    /// Adds one event of a client.
    pub(crate) fn add(&mut self, life: &Life, event: Event) {
        let client = life.client;
        match event {
            Event::Asked { call: id, at: asked, task, name, share, verb, limit, ttl, watched } => {
                let (process, grant, answer, killed) = (life.process, None, None, life.killed);
                self.index.insert((client, id), self.calls.len());
                self.calls.push(Call {
                    client,
                    process,
                    id,
                    task,
                    name,
                    share,
                    verb,
                    asked,
                    limit,
                    ttl,
                    watched,
                    grant,
                    answer,
                    killed,
                });
            }
            Event::Granted { call, at, fence, until, claim } => self.change(client, call, |call| {
                let (granted_until, sure_writes, ended, again) = (until, 0, None, None);
                call.grant = Some(Grant { at, fence, claim, granted_until, until, sure_writes, ended, again });
            }),
            Event::Held { call, until, writes, .. } => self.change_grant(client, call, |grant| {
                (grant.until, grant.sure_writes) = (until, writes);
            }),
            Event::Ended { call, at, held, writes } => self.change_grant(client, call, |grant| {
                grant.ended = Some((at, held));
                if held {
                    grant.sure_writes = writes;
                }
            }),
            Event::Reentered { call, fence, .. } => {
                self.change_grant(client, call, |grant| grant.again = Some(fence));
            }
            Event::Answered { call, at, outcome } => {
                self.change(client, call, |call| call.answer = Some((at, outcome)));
            }
            Event::Evicted { from, to, name } => {
                let same = |fault: &&mut Fault| fault.kind == FaultKind::Evict && fault.from == from;
                // An eviction is recorded twice: first with an estimated end, and later with the real end. So if there
                // is a record of this eviction already, only its end is corrected.
                match self.faults.iter_mut().rev().take(64).find(same) {
                    Some(fault) => fault.to = to,
                    None => {
                        self.faults.push(Fault { kind: FaultKind::Evict, from, to, client: None, name: Some(name) });
                    }
                }
            }
            Event::Queued { task, from, at, name, position, claim } => {
                self.positions.push(Position { by: (client, task), from, at, name, position, claim });
            }
            Event::Limited { from, to, name, limit, sure } => {
                let change = LimitChange { name, limit, from, to, sure };
                // A change is recorded twice, as an eviction is.
                let same = |earlier: &&mut LimitChange| earlier.name == name && earlier.from == from;
                match self.limits.iter_mut().rev().take(64).find(same) {
                    Some(earlier) => *earlier = change,
                    None => self.limits.push(change),
                }
            }
            Event::Began { call: id, at: began, task, name, step, limit } => {
                let (process, killed) = (life.process, life.killed);
                self.step_index.insert((client, id), self.steps.len());
                self.steps.push(StepCall { client, process, id, task, name, step, limit, began, answer: None, killed });
            }
            Event::Returned { call, at, reply } => {
                if let Some(index) = self.step_index.get(&(client, call)) {
                    self.steps[*index].answer = Some((at, reply));
                }
            }
            Event::Observed { task, from, at, name, follows, fence, client: of, call } => {
                let (by, leader) = ((client, task), (fence > 0).then_some((fence, of, call)));
                self.observations.push(Observation { by, from, at, name, follows, leader });
            }
            Event::Stalled { from, to } => self.stalled.push((life.process, from, to)),
            Event::Blocked { from, to } => self.blocked.push((life.process, from, to)),
        }
    }

    /// Sorts the faults, and the time spans in which runtimes were blocked. Call this method after the last `add`.
    pub(crate) fn tidy(&mut self) {
        self.faults.sort_by_key(|fault| fault.from);
        self.blocked.sort_unstable();
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

/// Parses each line of a file, and passes the values to `take`. The last line can be incomplete if its process was
/// killed. An incomplete line is ignored. A missing file counts as empty.
fn lines<T: FromStr<Err: fmt::Display>>(path: &Path, mut take: impl FnMut(T)) -> io::Result<()> {
    if !fs::exists(path)? {
        return Ok(());
    }
    let mut file = BufReader::new(fs::File::open(path)?);
    let mut line = String::new();
    while file.read_line(&mut line)? > 0 {
        if line.ends_with('\n') {
            let value =
                line.trim_end().parse().map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
            take(value);
        }
        line.clear();
    }
    Ok(())
}
