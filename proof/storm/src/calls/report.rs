//! The report of a run: for people, and as JSON.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde_json::json;

use super::{
    call::{Words, word},
    findings::{Findings, Violation},
    recorded::Recorded,
};
use crate::history::Nanos;

/// For each violation, the report shows the events that are at most this many nanoseconds earlier or later.
const AROUND: Nanos = 100_000_000;
/// Maximum number of events that are shown for a violation.
const LINES: usize = 16;

/// The figures of a history.
#[derive(Debug)]
pub(crate) struct Figures {
    calls: usize,
    /// Number of calls of each group and each result.
    results: BTreeMap<String, u64>,
    /// The names and the values of other figures of this traffic.
    pub(crate) rows: Vec<(&'static str, String)>,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    stalls: usize,
    pub(crate) findings: Findings,
    /// The first violations of each law, with the events around them.
    scenes: Vec<String>,
}

impl Figures {
    pub(crate) fn of<W: Words>(recorded: &Recorded<W>, findings: Findings) -> Self {
        let (mut results, mut faults) = (BTreeMap::new(), BTreeMap::new());
        for call in &recorded.calls {
            let outcome = call.outcome.map_or_else(|| "killed".into(), |outcome| word(&outcome));
            *results.entry(format!("{} {outcome}", W::label(call.object, call.op))).or_default() += 1;
        }
        let disturbances = &recorded.disturbances;
        disturbances.faults.iter().for_each(|fault| *faults.entry(fault.kind.word()).or_default() += 1);
        let scenes = findings.reported().map(|violation| scene(recorded, violation)).collect();
        let (calls, stalls) = (recorded.calls.len(), disturbances.stalls.len());
        Self { calls, results, rows: Vec::new(), faults, stalls, findings, scenes }
    }

    /// Adds a figure.
    pub(crate) fn with(mut self, what: &'static str, value: impl ToString) -> Self {
        self.rows.push((what, value.to_string()));
        self
    }
}

/// A run on one store.
#[derive(Debug)]
pub(crate) struct Report {
    /// What was called.
    pub(crate) mode: String,
    pub(crate) store: String,
    pub(crate) seed: u64,
    pub(crate) figures: Figures,
    /// Duration of the traffic, and time from the stop order until all workers had ended.
    pub(crate) took: (Duration, Duration),
    /// Problems that the history does not contain, such as a worker that died.
    pub(crate) wrong: Vec<String>,
    /// The command that repeats this run.
    pub(crate) repeat: String,
    /// The directory of the history, if it is kept.
    pub(crate) kept: Option<PathBuf>,
}

impl Report {
    pub(crate) fn is_well(&self) -> bool {
        self.figures.findings.violations.is_empty() && self.wrong.is_empty()
    }

    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.json());
            return;
        }
        let Self { mode, store, seed, figures, took, wrong, repeat, kept } = self;
        let Figures { calls, results, rows, faults, stalls, findings, scenes } = figures;
        println!("{mode} on {store}, seed {seed}: {calls} calls in {} s", took.0.as_secs());
        let row = |what: &str, value: &str| println!("  {what:<44}{value}");
        results.iter().for_each(|(result, count)| row(result, &count.to_string()));
        rows.iter().for_each(|(what, value)| row(what, value));
        findings.counts.iter().for_each(|(what, count)| row(what, &count.to_string()));
        row("longest time above a limit", &format!("{} ms", findings.worst_overrun / 1_000_000));
        row("time until all workers had ended", &format!("{} ms", took.1.as_millis()));
        faults.iter().for_each(|(fault, count)| row(&format!("fault: {fault}"), &count.to_string()));
        row("stalls of the machine", &stalls.to_string());
        for (reason, excused) in &findings.excused {
            let longest = match excused.longest / 1_000_000 {
                0 => String::new(),
                longest => format!(", longest: {longest} ms"),
            };
            row(&format!("allowed: {reason}"), &format!("{}{longest}", excused.cases));
        }
        findings.laws().iter().for_each(|(law, count)| row(&format!("BROKEN {law}"), &count.to_string()));
        scenes.iter().for_each(|scene| print!("{scene}"));
        wrong.iter().for_each(|what| println!("  WRONG: {what}"));
        if let Some(kept) = kept {
            println!("  the history: {}", kept.display());
        }
        match self.is_well() {
            true => println!("nothing is wrong"),
            false => println!("something is wrong; to repeat this run: {repeat}"),
        }
    }

    fn json(&self) -> serde_json::Value {
        let Self { mode, store, seed, figures, took, wrong, repeat, kept } = self;
        let Figures { calls, results, rows, faults, stalls, findings, scenes } = figures;
        let excused = findings.excused.iter().map(|(reason, excused)| {
            (*reason, json!({ "cases": excused.cases, "longest_us": excused.longest / 1_000 }))
        });
        json!({
            "mode": mode, "store": store, "seed": seed, "calls": calls, "results": results,
            "rows": rows.iter().cloned().collect::<BTreeMap<_, _>>(), "counts": findings.counts, "faults": faults,
            "stalls": stalls, "excused": excused.collect::<BTreeMap<_, _>>(),
            "overrun_us": findings.worst_overrun / 1_000, "traffic_s": took.0.as_secs(), "end_ms": took.1.as_millis(),
            "broken": findings.laws(), "violations": scenes, "wrong": wrong, "repeat": repeat, "kept": kept,
            "well": self.is_well(),
        })
    }
}

/// A violation, and the events around it at the same object.
fn scene<W: Words>(recorded: &Recorded<W>, violation: &Violation) -> String {
    let mut text = format!("  {}: {}\n", violation.law, violation.what);
    let Some((place, moment)) = &violation.place else { return text };
    let is_near = |from: Nanos, to: Nanos| from <= moment + AROUND && to.saturating_add(AROUND) >= *moment;
    let is_here = |object: &W::Object| format!("{object:?}") == *place;
    let mut events: Vec<(Nanos, String)> = Vec::new();
    for call in recorded.calls.iter().filter(|call| is_near(call.begin, call.end) && is_here(&call.object)) {
        let name = format!("client {} task {} call {}", call.client, call.task, call.id);
        events.push((call.begin, format!("{name} begins: {:?}", call.op)));
        events.extend(call.outcome.map(|outcome| (call.end, format!("{name} ends: {outcome:?}"))));
    }
    for (client, other) in &recorded.others {
        if let Some((object, at)) = W::place(other).filter(|(object, at)| is_near(*at, *at) && is_here(object)) {
            events.push((at, format!("client {client} at {object:?}: {other:?}")));
        }
    }
    for fault in recorded.disturbances.faults.iter().filter(|fault| is_near(fault.from, fault.to)) {
        let of = fault.client.map_or(String::new(), |client| format!(" of client {client}"));
        let at = fault.name.map_or(String::new(), |name| format!(" at name {name}"));
        events.push((fault.from, format!("fault {}{of}{at} begins", fault.kind.word())));
        events.push((fault.to, format!("fault {}{of}{at} is over", fault.kind.word())));
    }
    events.sort();
    let from = events.partition_point(|(at, _)| at < moment).saturating_sub(LINES / 2);
    for (at, event) in events.iter().skip(from).take(LINES) {
        let micros = (i128::from(*at) - i128::from(*moment)) / 1_000;
        text += &format!("    {micros:>+10} µs  {event}\n");
    }
    text
}
