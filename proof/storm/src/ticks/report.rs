//! The figures of a run, and the table of `lock`.

use std::time::Duration;

use serde_json::json;

use super::{check, history::Nanos, lock::Outcome, recorded::Ticks};
use crate::calls::{Figures, Findings, Recorded};

/// The figures of a run, or of several runs on a virtual clock.
pub(super) fn figures(recorded: &Recorded<Ticks>, nodes: usize, checked: &check::Findings) -> Figures {
    let mut figures = Figures::of(recorded, found(checked)).with("nodes, including replacements", nodes);
    figures.rows.extend(rows(checked));
    figures
}

/// The violations that the checker has found.
pub(super) fn found(checked: &check::Findings) -> Findings {
    let mut findings = Findings::default();
    checked.violations.iter().for_each(|(law, what)| findings.broken(law, what.clone()));
    findings
}

/// The labels and the values of the table. The labels are also keys of the JSON object.
fn rows(findings: &check::Findings) -> Vec<(&'static str, String)> {
    let check::Findings {
        ticks, ran, duplicates, unexplained, totals, retries, overtaken_runs, longest_overtaken, ..
    } = findings;
    let (takeovers, handovers, lags) = (&findings.takeovers, &findings.handovers, &findings.lags);
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

/// Prints the result of one measurement of a named lock without a scheduler.
pub(super) fn print_lock_row(as_json: bool, skew: Duration, min: Duration, outcome: Outcome) {
    let Outcome { ticks, duplicates, lost } = outcome;
    if as_json {
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
