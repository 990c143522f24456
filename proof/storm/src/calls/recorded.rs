//! Reads the files of all clients.

use std::{collections::HashMap, fs, io};

use super::{
    call::{Call, Words},
    disturbances::Disturbances,
    event::Event,
    findings::Findings,
    outcome::Outcome,
};
use crate::{
    fault::{Fault, FaultKind},
    history::{CallId, Files, Nanos, lines, nanos},
    plan::{SLACK, STALL},
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
    /// The indices of the calls that have not ended.
    open: HashMap<(u32, CallId), usize>,
}

impl<W: Words> Default for Recorded<W> {
    fn default() -> Self {
        let disturbances = Disturbances::default();
        Self { calls: Vec::new(), others: Vec::new(), disturbances, open: HashMap::new() }
    }
}

impl<W: Words> Recorded<W> {
    /// Reads the files of all clients.
    ///
    /// # Errors
    /// If a file cannot be read, or a line cannot be parsed.
    pub(crate) fn read(files: &Files, lives: &[Life], faults: &[Fault]) -> io::Result<Self> {
        let mut recorded = Self::default();
        recorded.disturbances.faults = faults.to_vec();
        recorded.disturbances.faults.sort_by_key(|fault| fault.from);
        for life in lives {
            recorded.disturbances.killed.extend(life.killed.map(|at| (life.client, at)));
            // A process records that it did not run when it runs again. A killed process did not record this.
            let mut last_beat = None;
            lines(&files.pulse(life.client), |beat: Nanos| last_beat = Some(beat))?;
            let killed = life.killed.zip(last_beat);
            let silent = killed.filter(|(killed, beat)| killed.saturating_sub(*beat) > nanos(STALL));
            recorded.disturbances.stalls.extend(silent.map(|(killed, beat)| (Some(life.client), beat, killed)));
        }
        for entry in fs::read_dir(files.dir())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(client) = name.strip_prefix("client-").and_then(|number| number.parse().ok()) else { continue };
            lines(&path, |event| recorded.add(client, event))?;
        }
        recorded.tidy();
        Ok(recorded)
    }

    /// Adds a line of a client.
    pub(crate) fn add(&mut self, client: u32, event: Event<W>) {
        match event {
            Event::Began { call: id, at, task, object, op, limit } => {
                self.open.insert((client, id), self.calls.len());
                let (begin, end) = (at, at);
                self.calls.push(Call { client, id, task, object, op, begin, limit, end, outcome: None });
            }
            Event::Ended { call, at, outcome } => {
                let Some(index) = self.open.remove(&(client, call)) else { return };
                (self.calls[index].end, self.calls[index].outcome) = (at, Some(outcome));
            }
            Event::Killed { at } => _ = self.disturbances.killed.insert(client, at),
            Event::Stalled { from, to } => self.disturbances.stalls.push((Some(client), from, to)),
            Event::Blocked { from, to } => self.disturbances.blocked.push((Some(client), from, to)),
            Event::Other(other) => self.others.push((client, other)),
        }
    }

    /// Sets the ends of the calls that have not ended, and sorts the calls. To be called after the last `add`.
    pub(crate) fn tidy(&mut self) {
        for index in self.open.drain().map(|(_, index)| index) {
            let killed = self.disturbances.killed.get(&self.calls[index].client);
            self.calls[index].end = killed.copied().unwrap_or(Nanos::MAX);
        }
        self.calls.sort_by_key(|call| (call.begin, call.client, call.id));
    }

    /// Checks the laws `late` and `errors`: each call ends in time, and none gets an error that it must not get.
    pub(crate) fn check_ends(&self, findings: &mut Findings) {
        for call in &self.calls {
            self.in_time(call, findings);
            self.no_errors(call, findings);
        }
    }

    /// Checks the law `never`: each call ends, unless its client is killed.
    pub(crate) fn check_all_end(&self, findings: &mut Findings) {
        let has_no_end = |call: &&Call<W>| call.outcome.is_none() && call.end == Nanos::MAX;
        for call in self.calls.iter().filter(has_no_end) {
            findings.broken_at("never", &call.object, call.begin, call.to_string());
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
            let what = format!("{call} took {} ms", took / 1_000_000);
            findings.broken_at("late", &call.object, call.begin, what);
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
            findings.broken_at("errors", &call.object, call.end, call.to_string());
        }
    }
}
