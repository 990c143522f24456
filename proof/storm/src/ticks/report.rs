//! The report of a run: for people, and as JSON.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;

use super::{
    args::{StoreKind, TicksArgs},
    check::{Findings, check},
    history::{HarmKind, History, Nanos},
    lock::Outcome,
};

/// The figures of one run of the storm, or the sum of several runs.
#[derive(Debug)]
pub(crate) struct Report {
    /// The seeds of the first and of the last run.
    seeds: (u64, u64),
    /// Number of nodes, including those that replaced an ended node.
    nodes: usize,
    /// Number of faults of each kind.
    harms: BTreeMap<HarmKind, u64>,
    findings: Findings,
    /// Duration of the run or of all runs together.
    took: Duration,
}

impl Report {
    pub(crate) fn new(_: &TicksArgs, seed: u64, history: &History, took: Duration) -> Self {
        let mut harms = BTreeMap::new();
        history.harms.iter().for_each(|harm| *harms.entry(harm.kind).or_default() += 1);
        Self { seeds: (seed, seed), nodes: history.lives.len(), harms, findings: check(history), took }
    }

    /// Adds the figures of another run.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.seeds.1 = other.seeds.1;
        self.nodes += other.nodes;
        self.took += other.took;
        other.harms.into_iter().for_each(|(kind, count)| *self.harms.entry(kind).or_default() += count);
        self.findings.add(other.findings);
        self
    }

    pub(crate) fn is_well(&self) -> bool {
        self.findings.violations.is_empty()
    }

    /// A line that summarizes the report.
    pub(crate) fn line(&self) -> String {
        let Findings { ticks, duplicates, unexplained, violations, .. } = &self.findings;
        let (seed, took) = (self.seeds.0, self.took);
        let wrong = violations.len();
        format!(
            "seed: {seed}, ticks: {ticks}, repeated starts of an attempt: {duplicates}, ticks without an explanation: \
             {unexplained}, violations: {wrong}, duration: {took:.1?}"
        )
    }

    pub(crate) fn print(&self, args: &TicksArgs) {
        if args.json {
            println!("{}", self.json(args.store));
            return;
        }
        let Self { seeds, nodes, findings, took, .. } = self;
        println!("ticks on the store {}, seeds: {} to {}, duration: {took:.0?}", word(args.store), seeds.0, seeds.1);
        for (what, value) in self.rows() {
            println!("  {what:<44}{value}");
        }
        println!("  {:<44}{nodes}", "nodes, including replacements");
        for (kind, count) in &self.harms {
            println!("  {:<44}{count}", kind.word());
        }
        for (law, count) in findings.laws() {
            println!("  BROKEN {law:<37}{count}");
        }
        findings.report().iter().for_each(|what| println!("  {what}"));
        println!("{}", if self.is_well() { "nothing is wrong" } else { "something is wrong" });
    }

    /// The labels and the values of the table. The labels are also keys of the JSON object.
    fn rows(&self) -> Vec<(&'static str, String)> {
        let Findings {
            ticks, ran, duplicates, unexplained, totals, retries, overtaken_runs, longest_overtaken, ..
        } = &self.findings;
        let (takeovers, handovers) = (&self.findings.takeovers, &self.findings.handovers);
        let lags = &self.findings.lags;
        // The delay that `part` of 1000 starts do not exceed.
        let lag = |part: usize| lags.get((lags.len() * part / 1000).min(lags.len().saturating_sub(1))).unwrap_or(&0);
        vec![
            ("ticks", ticks.to_string()),
            // Number of ticks with at least one started run.
            ("of them began", ran.to_string()),
            // Number of starts that repeated an attempt which had already started.
            ("started twice", duplicates.to_string()),
            // Number of ticks that neither ran nor were counted by the store, and of ticks that were counted twice.
            ("unexplained", unexplained.to_string()),
            // Numbers of ticks, according to the counters of the store.
            ("ok, failed, lost", format!("{}, {}, {}", totals.ok, totals.failed, totals.lost)),
            ("skipped, missed", format!("{}, {}", totals.skipped, totals.missed)),
            ("running or queued in the end", (totals.running + totals.queued).to_string()),
            // Number of starts of second and later attempts.
            ("taken over: second and later attempts", retries.to_string()),
            // Time from the kill of a node until the start of the next attempt of a run of this node.
            ("after a kill (middle, longest)", times(takeovers)),
            // Time from the end of a run that a stopping node cancelled until the start of its next attempt.
            ("after a clean stop (middle, longest)", times(handovers)),
            // Runs that a node continued after a pause, although another node had taken them over.
            (
                "overtaken runs of nodes that stood still",
                format!("{overtaken_runs}, longest: {} ms", ms(*longest_overtaken)),
            ),
            // Delay between a tick and the start of its run, on nodes without faults.
            ("start lag of unhurt nodes, p50, p99, p99.9", format!("{}, {}, {} ms", lag(500), lag(990), lag(999))),
        ]
    }

    fn json(&self, store: StoreKind) -> serde_json::Value {
        let rows: BTreeMap<&str, String> = self.rows().into_iter().collect();
        let harms: BTreeMap<&str, u64> = self.harms.iter().map(|(kind, count)| (kind.word(), *count)).collect();
        let Findings { ticks, ran, duplicates, unexplained, .. } = &self.findings;
        // `violations` contains the first violations of each law, as text.
        json!({
            "store": word(store), "seeds": [self.seeds.0, self.seeds.1], "nodes": self.nodes, "seconds": self.took.as_secs(),
            "ticks": ticks, "ran": ran, "duplicates": duplicates, "unexplained": unexplained,
            "harms": harms, "rows": rows, "broken": self.findings.laws(), "violations": self.findings.report(),
        })
    }
}

/// Prints the result of one measurement of a named lock without a scheduler.
pub(crate) fn print_lock_row(args: &TicksArgs, skew: Duration, min: Duration, outcome: Outcome) {
    let Outcome { ticks, duplicates, lost } = outcome;
    if args.json {
        let (skew, min) = (skew.as_secs(), min.as_secs());
        println!(
            "{}",
            json!({"store": "lock", "skew_s": skew, "min_s": min, "ticks": ticks, "duplicates": duplicates, "lost": lost})
        );
    } else {
        println!(
            "minimum hold: {min:?}, clock deviation: ±{skew:?}, ticks: {ticks}, repeated runs: {duplicates}, \
             ticks without a run: {lost}"
        );
    }
}

/// The name of the store on the command line.
fn word(store: StoreKind) -> &'static str {
    match store {
        StoreKind::Redis => "redis",
        StoreKind::Sqlite => "sqlite",
        StoreKind::Virtual => "virtual",
        StoreKind::Lock => "lock",
    }
}

/// The number of times in this sorted list, their median and their maximum, as text.
fn times(sorted: &[Nanos]) -> String {
    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    format!(
        "count: {}, median: {} ms, longest: {} ms",
        sorted.len(),
        ms(middle),
        ms(sorted.last().copied().unwrap_or_default())
    )
}

fn ms(nanos: Nanos) -> u64 {
    nanos / 1_000_000
}
