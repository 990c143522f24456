//! The history of calls on objects: for each client a file of lines.
//!
//! As in the history of locks, a line is written before the client acts on it, so it survives `kill -9`. The content of
//! the store at the end is a part of the history, too: the calls of the client [`JUDGE`].

mod call;
mod lines;

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::Path,
};

pub(super) use self::{
    call::{Call, Heard, How, Kind, Object, Op, Outcome},
    lines::Event,
};
use crate::{
    fault::{Fault, FaultKind},
    history::{CallId, Files, Nanos},
    worker_pool::Life,
};

/// The client that reads the objects at the end, when all faults are removed and all other clients have ended.
pub(super) const JUDGE: u32 = 1_000_000;
/// Number of objects of most kinds.
pub(super) const OBJECTS: u32 = 2;

/// The events of one subscription, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Subscription {
    pub(super) events: Vec<(Nanos, Heard)>,
}

/// The whole history.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// All calls, in the order of their beginnings.
    pub(super) calls: Vec<Call>,
    pub(super) subscriptions: BTreeMap<(Object, u32, CallId), Subscription>,
    /// The times at which clients were killed.
    pub(super) killed: BTreeMap<u32, Nanos>,
    pub(super) faults: Vec<Fault>,
    /// Times in which a client could not run, because of the machine. `None`: all clients.
    pub(super) stalls: Vec<(Option<u32>, Nanos, Nanos)>,
    /// Whether messages of topics that are not sharded go from server to server, which can lose and delay them.
    pub(super) relays: bool,
    /// What was left in the store at the end, besides the objects.
    pub(super) left: Vec<String>,
}

impl History {
    /// Reads the files of all clients. `is_one_process`: all clients run in one process, so faults concern all of them.
    ///
    /// # Errors
    /// If a file cannot be read, or a line cannot be parsed.
    pub(super) fn read(files: &Files, lives: &[Life], faults: &[Fault], is_one_process: bool) -> io::Result<Self> {
        let mut history = Self { faults: faults.to_vec(), ..Self::default() };
        for life in lives {
            history.killed.extend(life.killed.map(|at| (life.client, at)));
        }
        for entry in fs::read_dir(files.dir())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(client) = name.strip_prefix("client-").and_then(|number| number.parse().ok()) else { continue };
            history.read_client(client, &path, is_one_process)?;
        }
        if is_one_process {
            history.faults.iter_mut().for_each(|fault| fault.client = None);
        }
        for call in history.calls.iter_mut().filter(|call| call.outcome.is_none()) {
            call.end = history.killed.get(&call.client).copied().unwrap_or(Nanos::MAX);
        }
        history.calls.sort_by_key(|call| (call.begin, call.client, call.id));
        Ok(history)
    }

    fn read_client(&mut self, client: u32, path: &Path, is_one_process: bool) -> io::Result<()> {
        let mut open: HashMap<CallId, usize> = HashMap::new();
        for line in fs::read_to_string(path)?.lines() {
            let event: Event =
                line.parse().map_err(|()| io::Error::other(format!("client {client} wrote {line:?}")))?;
            match event {
                Event::Began { call: id, at, task, object, op, limit } => {
                    open.insert(id, self.calls.len());
                    let (begin, end) = (at, at);
                    self.calls.push(Call { client, id, task, object, op, begin, limit, end, outcome: None });
                }
                Event::Ended { call, at, outcome } => {
                    let Some(index) = open.remove(&call) else { continue };
                    (self.calls[index].end, self.calls[index].outcome) = (at, Some(outcome));
                }
                Event::Heard { subscription, at, object, heard } => {
                    let events = &mut self.subscriptions.entry((object, client, subscription)).or_default().events;
                    events.push((at, heard));
                }
                Event::Killed { at } => _ = self.killed.insert(client, at),
                Event::Stalled { from, to } => self.stalls.push(((!is_one_process).then_some(client), from, to)),
            }
        }
        Ok(())
    }

    /// The faults that concern this client, or the store.
    pub(super) fn faults_of(&self, client: u32) -> impl Iterator<Item = &Fault> {
        self.faults.iter().filter(move |fault| fault.client.is_none_or(|other| other == client))
    }

    /// Whether a fault or a stall has disturbed this client, or the store, between these times.
    pub(super) fn is_disturbed(&self, client: u32, from: Nanos, to: Nanos) -> bool {
        let faults = self.faults_of(client).map(|fault| (fault.from, fault.to));
        faults.chain(self.stalls_of(client)).any(|(begin, end)| begin <= to && end >= from)
    }

    fn stalls_of(&self, client: u32) -> impl Iterator<Item = (Nanos, Nanos)> {
        let stalls = self.stalls.iter().filter(move |(of, ..)| of.is_none_or(|of| of == client));
        stalls.map(|(_, from, to)| (*from, *to))
    }

    /// The total time between `from` and `to` in which this client could not run.
    pub(super) fn stopped(&self, client: u32, from: Nanos, to: Nanos) -> Nanos {
        let stops = self.faults_of(client).filter(|fault| {
            // The calls of a memory store have no timeout while they are held.
            fault.kind.stops_the_worker() || matches!(fault.kind, FaultKind::HoldRequests | FaultKind::HoldAnswers)
        });
        let mut spans: Vec<_> = stops.map(|fault| (fault.from, fault.to)).chain(self.stalls_of(client)).collect();
        spans.retain(|(begin, end)| *begin <= to && *end >= from);
        spans.sort_unstable();
        let (mut sum, mut seen) = (0, from);
        for (begin, end) in spans {
            sum += end.min(to).saturating_sub(begin.max(seen));
            seen = seen.max(end);
        }
        sum
    }
}
