//! The report of a run: for people, and as JSON.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use serde_json::json;

use crate::{
    args::Args,
    check::{Call, Findings, History, Violation},
    fault::{Fault, FaultKind},
    history::{Nanos, Outcome},
    plan,
    settings::{Profile, StoreKind},
    step::Reply,
};

/// For each violation, the report shows the events that are at most this many nanoseconds earlier or later.
const AROUND: Nanos = 100_000_000;
/// Maximum number of events that are shown for a violation.
const LINES: usize = 16;

/// The figures of one run.
#[derive(Debug)]
pub(crate) struct Summary {
    store: StoreKind,
    seed: u64,
    profile: Profile,
    /// Number of calls that were requested.
    ops: u64,
    /// Number of calls in the history, with the questions for leaders.
    calls: usize,
    /// Number of grants of each share of a lock.
    shares: BTreeMap<String, u64>,
    /// For latches and barriers, the number of calls for each method and each result.
    steps: BTreeMap<String, u64>,
    /// Number of reports of the leaders of elections.
    leaders_seen: usize,
    /// Number of questions for the queue of a fair mutex, and number of changes of the limit of a semaphore.
    queues: usize,
    limits: usize,
    outcomes: BTreeMap<&'static str, u64>,
    faults: BTreeMap<FaultKind, u64>,
    /// Number of times that a process could not run because the machine was busy.
    stalls: usize,
    findings: Findings,
    /// Problems that the history does not contain, such as a worker that died.
    wrong: Vec<String>,
    /// For each reported violation, the events around it.
    scenes: Vec<String>,
    /// Duration of the traffic.
    pub(crate) traffic: Duration,
    /// Time from the stop order until all workers ended.
    pub(crate) ended_in: Duration,
    /// The directory of the history, if it is kept.
    pub(crate) kept: Option<PathBuf>,
}

impl Summary {
    pub(crate) fn new(
        store: StoreKind,
        seed: u64,
        args: &Args,
        history: &History,
        findings: Findings,
        wrong: Vec<String>,
    ) -> Self {
        let mut faults = BTreeMap::new();
        for fault in &history.faults {
            *faults.entry(fault.kind).or_default() += 1;
        }
        let mut outcomes = BTreeMap::new();
        for call in &history.calls {
            *outcomes.entry(outcome(call)).or_default() += 1;
        }
        let mut shares = BTreeMap::new();
        for call in history.calls.iter().filter(|call| call.grant.is_some()) {
            *shares.entry(call.share.to_string()).or_default() += 1;
        }
        let mut steps = BTreeMap::new();
        for call in &history.steps {
            let reply = match call.reply() {
                Some(Reply::Count(_)) => "counted".into(),
                Some(reply) => reply.to_string(),
                None => "killed".into(),
            };
            *steps.entry(format!("{} {reply}", call.step.word())).or_default() += 1;
        }
        let leaders_seen = history.observations.len();
        let queues = history.positions.iter().filter(|position| position.position == 0).count();
        let limits = history.limits.len();
        let scenes = findings.report().map(|violation| scene(history, violation)).collect();
        let calls = history.calls.len() + history.steps.len() + leaders_seen;
        let (profile, ops, stalls) = (args.profile, args.ops, history.stalled.len());
        let (traffic, ended_in, kept) = (Duration::ZERO, Duration::ZERO, None);
        Self {
            store,
            seed,
            profile,
            ops,
            calls,
            shares,
            steps,
            leaders_seen,
            queues,
            limits,
            outcomes,
            faults,
            stalls,
            findings,
            wrong,
            scenes,
            traffic,
            ended_in,
            kept,
        }
    }

    pub(crate) fn is_well(&self) -> bool {
        self.findings.violations.is_empty() && self.wrong.is_empty()
    }

    pub(crate) fn json(&self) -> String {
        let words = |(kind, count): (&FaultKind, &u64)| (kind.word().to_owned(), json!(count));
        let excused = self.findings.excused.iter().map(|(kind, excused)| {
            let entry = json!({ "overlaps": excused.overlaps, "longest_us": excused.longest / 1_000 });
            (kind.word().to_owned(), entry)
        });
        json!({
            "store": self.store.to_string(),
            "seed": self.seed,
            "profile": self.profile.to_string(),
            "calls": self.calls,
            "grants": self.shares,
            "latches_and_barriers": self.steps,
            "leaders_reported": self.leaders_seen,
            "queues_read": self.queues,
            "limits_changed": self.limits,
            "outcomes": self.outcomes,
            "faults": self.faults.iter().map(words).collect::<serde_json::Map<_, _>>(),
            "stalls": self.stalls,
            "writes": self.findings.writes,
            "stale_writes_refused": self.findings.stale_writes,
            "excused_overlaps": excused.collect::<serde_json::Map<_, _>>(),
            "worst_overrun_us": self.findings.worst_overrun / 1_000,
            "most_passed_over": self.findings.most_passed_over,
            "violations": self.findings.laws(),
            "wrong": self.wrong,
            "traffic_s": self.traffic.as_secs(),
            "end_ms": self.ended_in.as_millis(),
        })
        .to_string()
    }
}

/// The result of a call as text. This text is also a key of the JSON report.
fn outcome(call: &Call) -> &'static str {
    match (&call.grant, call.answer) {
        (Some(grant), _) if grant.ended.is_some_and(|(_, held)| !held) => "granted, and lost",
        (Some(_), Some((_, Outcome::Unavailable))) => "granted, and released without an answer",
        // The process was killed while it held the lock.
        (Some(grant), _) if grant.ended.is_none() => "granted, and killed",
        (Some(_), _) => "granted",
        (None, Some((_, outcome))) => outcome.word(),
        // The process was killed while the call waited.
        (None, None) => "killed while it asked",
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, seed, profile, calls, findings, .. } = self;
        writeln!(f, "{store}: {calls} calls in {} s, profile {profile}, seed {seed}", self.traffic.as_secs())?;
        for (outcome, count) in &self.outcomes {
            writeln!(f, "  {count:>9}  {outcome}")?;
        }
        let shares: Vec<_> = self.shares.iter().map(|(share, count)| format!("{share} {count}")).collect();
        writeln!(f, "  grants: {}", shares.join(", "))?;
        if !self.steps.is_empty() {
            let steps: Vec<_> = self.steps.iter().map(|(step, count)| format!("{step} {count}")).collect();
            writeln!(f, "  latches and barriers: {}", steps.join(", "))?;
        }
        writeln!(f, "  leaders reported: {}", self.leaders_seen)?;
        writeln!(f, "  queues read: {}, limits changed: {}", self.queues, self.limits)?;
        let faults: Vec<_> = self.faults.iter().map(|(kind, count)| format!("{} {count}", kind.word())).collect();
        let faults = if faults.is_empty() { "none".into() } else { faults.join(", ") };
        writeln!(f, "  faults: {faults}; times that a process did not run for more than 0.2 s: {}", self.stalls)?;
        let (writes, stale) = (findings.writes, findings.stale_writes);
        writeln!(f, "  writes to resources: {writes}, of which refused because of an old fence: {stale}")?;
        for (kind, excused) in &findings.excused {
            let longest = excused.longest / 1_000_000;
            let (word, overlaps) = (kind.word(), excused.overlaps);
            writeln!(f, "  allowed overlaps of two holders after the fault {word}: {overlaps}, longest: {longest} ms")?;
        }
        writeln!(f, "  longest time by which a call exceeded its limit: {} ms", findings.worst_overrun / 1_000_000)?;
        writeln!(
            f,
            "  most turns of other clients during one wait, after its first 2 s: {}",
            findings.most_passed_over
        )?;
        writeln!(f, "  time from the stop order until all workers had ended: {} ms", self.ended_in.as_millis())?;
        for wrong in &self.wrong {
            writeln!(f, "  WRONG: {wrong}")?;
        }
        for (law, count) in findings.laws() {
            writeln!(f, "  BROKEN {count} times: {law}")?;
        }
        for scene in &self.scenes {
            write!(f, "{scene}")?;
        }
        if let Some(kept) = &self.kept {
            writeln!(f, "  the history is in {}", kept.display())?;
        }
        if self.is_well() {
            return writeln!(f, "  nothing is wrong");
        }
        writeln!(
            f,
            "  to repeat this run: cargo xtask storm {store} --ops {} --profile {profile} --seed {seed}",
            self.ops
        )
    }
}

/// A violation and the events around it.
fn scene(history: &History, violation: &Violation) -> String {
    let near = |from: Nanos, to: Nanos| from <= violation.at + AROUND && to + AROUND >= violation.at;
    let mut events: Vec<(Nanos, String)> = Vec::new();
    for call in history.calls.iter().filter(|call| call.name == violation.name && call.grant.is_some()) {
        let to = call.belief().map_or(call.asked, |(_, to)| to);
        if near(call.answered_at().unwrap_or(call.asked), to) {
            events.extend(events_of(call));
        }
    }
    for call in history.steps.iter().filter(|call| call.name == violation.name && near(call.began, call.ended())) {
        events.push((call.began, format!("{call} begins")));
        if let Some((at, reply)) = call.answer {
            events.push((at, format!("client {} call {} ends: {reply}", call.client, call.id)));
        }
    }
    for seen in history.observations.iter().filter(|seen| seen.name == violation.name && near(seen.from, seen.at)) {
        let leader = seen
            .leader
            .map_or("none".into(), |(fence, client, call)| format!("client {client} call {call}, fence {fence}"));
        events.push((seen.at, format!("client {} task {} sees the leader: {leader}", seen.by.0, seen.by.1)));
    }
    let here = |fault: &&Fault| fault.name.is_none_or(|name| name == violation.name) && near(fault.from, fault.to);
    for fault in history.faults.iter().filter(here) {
        let of = fault.client.map_or(String::new(), |client| format!(" of client {client}"));
        events.push((fault.from, format!("fault {}{of} begins", fault.kind.word())));
        events.push((fault.to, format!("fault {}{of} is over", fault.kind.word())));
    }
    events.sort();
    let from = events.partition_point(|(at, _)| *at < violation.at).saturating_sub(LINES / 2);
    let mut text = format!("  {}: {}: {}\n", violation.law, plan::mutex(violation.name), violation.what);
    for (at, event) in events.iter().skip(from).take(LINES) {
        let micros = (i128::from(*at) - i128::from(violation.at)) / 1_000;
        text += &format!("    {micros:>+10} µs  {event}\n");
    }
    text
}

/// The events of this call as text, with their times.
fn events_of(call: &Call) -> Vec<(Nanos, String)> {
    let mut events = vec![(call.asked, format!("{call} begins"))];
    if let Some(grant) = &call.grant {
        events.push((grant.at, format!("{call} gets the lock for {} ms", (grant.until - grant.at) / 1_000_000)));
        if let Some((at, held)) = grant.ended {
            events.push((at, format!("{call} {}", if held { "releases the lock" } else { "has lost the lock" })));
        }
    }
    if let Some((at, outcome)) = call.answer {
        events.push((at, format!("{call} ends with the result {}", outcome.word())));
    }
    if let Some(killed) = call.killed.filter(|_| call.answer.is_none()) {
        events.push((killed, format!("the process of {call} is killed")));
    }
    events
}
