//! `bandog jobs history`: the runs of a job and their outcomes.

use std::io::{self, Write};

use bandog::schedule::RunRow;
use clap::builder::PossibleValuesParser;

use super::{
    client::{Common, JobsClient},
    words::{self, Clock, TableRow},
};
use crate::{console::escaped, exit_code::ExitCode, fault::Fault, print};

/// The values of `--state`.
const STATES: [&str; 11] = [
    "queued",
    "running",
    "ok",
    "failed",
    "timed_out",
    "cancelled",
    "interrupted",
    "lost",
    "skipped",
    "missed",
    "reset",
];

/// Shows the runs of a job and their outcomes, the latest first.
///
/// The store keeps the last 50 runs that ended well, the last 50 runs that did not end well, and the last 50 ranges of
/// ticks that did not run. So a failure stays in the history even if a thousand later runs end well.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json, an array of objects: id (the run's number; 0 for ticks that did not run), job, tick, from and ticks \
(for a range of ticks that did not run: its first tick, and the number of its ticks), kind (scheduled, catch_up, \
manual, backfill), attempt, node, fence, due, started, ended, lag_ms (delay between due and claim), state (queued, \
running, ok, failed, timed_out, cancelled, interrupted, lost, skipped, missed, reset), error, note (the end of a \
command's output), orphaned (the run is recorded as running, but its node is dead), cancelling (it was cancelled \
and has not ended yet), retried (another attempt of the run follows, so this one is not counted). Times are RFC 3339 in UTC; unknown \
values are null.

Exit codes: 0 also if no run is found; 64 no such job, wrong URL; 69 the store does not answer or does not exist; 77 \
the store refuses the request, or its file is damaged.

Examples:
  bandog jobs history report
  bandog jobs history report --state failed --state lost --limit 3
  bandog jobs history report --json | jq '[.[].lag_ms | numbers] | max'")]
pub(super) struct Args {
    /// The job's name.
    name: String,
    /// Maximum number of runs to print.
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: usize,
    /// Print only runs in this state. Can be repeated.
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(STATES))]
    state: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// Prints the history. Changes nothing.
pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { name, limit, state, common } = args;
    let (runs, clock) = JobsClient::with_job(common, name, async |client| {
        let runs = client.history(name).await?;
        let now = client.now().await?;
        Ok((runs, Clock::new(now, client.show(name).await?.zone.as_deref())))
    })?;
    let is_wanted = |run: &RunRow| state.is_empty() || state.iter().any(|state| state == run.state.as_str());
    let runs: Vec<RunRow> = runs.into_iter().filter(is_wanted).take(*limit).collect();
    if common.json {
        return print::done(print::json(&runs));
    }
    if runs.is_empty() {
        return print::done(writeln!(io::stdout(), "the history of {name:?} has no such run"));
    }
    let lines: Vec<_> = runs.iter().map(|run| line(run, &clock)).collect();
    print::done(words::table(["RUN", "TICK", "KIND", "STATE", "LAG", "TOOK", "ATTEMPT", "NODE"], &lines))
}

/// The table row of a run. The lines below the row show the error and the output of the run.
fn line(run: &RunRow, clock: &Clock) -> TableRow<8> {
    let dash = || "-".to_owned();
    let is_run = run.id > 0;
    let state = match run {
        RunRow { orphaned: true, .. } => "running (its node is dead)".to_owned(),
        RunRow { cancelling: true, .. } => "cancelling".to_owned(),
        RunRow { retried: true, .. } => format!("{} (repeated)", run.state.as_str()),
        RunRow { .. } => run.state.as_str().to_owned(),
    };
    let cells = [
        if is_run { run.id.to_string() } else { dash() },
        clock.at(&run.tick),
        run.kind.as_str().to_owned(),
        state,
        run.lag_ms.map_or_else(dash, words::span),
        words::took(run).unwrap_or_else(dash),
        if is_run { run.attempt.to_string() } else { dash() },
        run.node.as_deref().map_or_else(dash, escaped),
    ];
    let range = run.from.as_ref().filter(|_| run.ticks > 1);
    let range = range.map(|from| format!("{} ticks, the first at {}", run.ticks, clock.at(from)));
    let error = run.error.as_deref().map(|error| format!("error: {}", escaped(error)));
    let note = run.note.iter().flat_map(|note| note.lines()).map(|line| format!("| {}", escaped(line)));
    TableRow { cells, below: range.into_iter().chain(error).chain(note).collect() }
}
