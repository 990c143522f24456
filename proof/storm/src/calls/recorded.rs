//! Reads the files of all clients.

use std::{collections::HashMap, fs, io, path::Path};

use super::{
    call::{Call, Words},
    disturbances::Disturbances,
    findings::Findings,
    lines::Event,
    outcome::Outcome,
};
use crate::{
    fault::{Fault, FaultKind},
    history::{CallId, Files, Nanos, nanos},
    plan::SLACK,
    worker_pool::Life,
};

/// What the clients have recorded.
#[derive(Debug, Clone)]
pub(crate) struct Recorded<W: Words> {
    /// All calls, in the order of their beginnings.
    pub(crate) calls: Vec<Call<W>>,
    /// The other lines, with their clients. Those of a client are in their order.
    pub(crate) others: Vec<(u32, W::Other)>,
    pub(crate) disturbances: Disturbances,
}

impl<W: Words> Default for Recorded<W> {
    fn default() -> Self {
        Self { calls: Vec::new(), others: Vec::new(), disturbances: Disturbances::default() }
    }
}

impl<W: Words> Recorded<W> {
    /// Reads the files of all clients. `is_one_process`: all clients run in one process, so faults concern all of them.
    ///
    /// # Errors
    /// If a file cannot be read, or a line cannot be parsed.
    pub(crate) fn read(files: &Files, lives: &[Life], faults: &[Fault], is_one_process: bool) -> io::Result<Self> {
        let mut recorded = Self::default();
        recorded.disturbances.faults = faults.to_vec();
        for life in lives {
            recorded.disturbances.killed.extend(life.killed.map(|at| (life.client, at)));
        }
        for entry in fs::read_dir(files.dir())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(client) = name.strip_prefix("client-").and_then(|number| number.parse().ok()) else { continue };
            recorded.read_client(client, &path, is_one_process)?;
        }
        if is_one_process {
            recorded.disturbances.faults.iter_mut().for_each(|fault| fault.client = None);
        }
        for call in recorded.calls.iter_mut().filter(|call| call.outcome.is_none()) {
            call.end = recorded.disturbances.killed.get(&call.client).copied().unwrap_or(Nanos::MAX);
        }
        recorded.calls.sort_by_key(|call| (call.begin, call.client, call.id));
        Ok(recorded)
    }

    fn read_client(&mut self, client: u32, path: &Path, is_one_process: bool) -> io::Result<()> {
        let mut open: HashMap<CallId, usize> = HashMap::new();
        for line in fs::read_to_string(path)?.lines() {
            let event: Event<W> =
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
                Event::Killed { at } => _ = self.disturbances.killed.insert(client, at),
                Event::Stalled { from, to } => {
                    self.disturbances.stalls.push(((!is_one_process).then_some(client), from, to));
                }
                Event::Other(other) => self.others.push((client, other)),
            }
        }
        Ok(())
    }

    /// Checks the laws `late` and `errors`: each call ends in time, and none gets an error that it must not get.
    pub(crate) fn check_ends(&self, findings: &mut Findings) {
        for call in &self.calls {
            self.in_time(call, findings);
            self.no_errors(call, findings);
        }
    }

    fn in_time(&self, call: &Call<W>, findings: &mut Findings) {
        let took = call.end.saturating_sub(call.begin);
        if call.outcome.is_none() || took <= call.limit {
            return;
        }
        let took = took.saturating_sub(self.disturbances.stopped(call.client, call.begin, call.end));
        findings.worst_overrun = findings.worst_overrun.max(took.saturating_sub(call.limit));
        if took > call.limit.saturating_add(nanos(SLACK)) {
            findings.broken("late", format!("{call} took {} ms", took / 1_000_000));
        }
    }

    fn no_errors(&self, call: &Call<W>, findings: &mut Findings) {
        let is_wrong = match call.outcome {
            Some(Outcome::Broken) => true,
            Some(Outcome::Denied) => {
                let is_missing = |fault: &&Fault| fault.kind == FaultKind::RightMissing;
                let mut missing = self.disturbances.faults.iter().filter(is_missing);
                !missing.any(|fault| fault.from <= call.end && call.begin <= fault.to)
            }
            _ => false,
        };
        if is_wrong {
            findings.broken("errors", call.to_string());
        }
    }
}
