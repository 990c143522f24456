//! `bandog jobs cancel`: cancels runs.

use std::io::{self, Write};

use bandog::schedule::RunRow;

use super::{
    client::{Common, JobsClient},
    nodes::Nodes,
};
use crate::{exit_code::ExitCode, fault::Fault, print};

/// Cancels the waiting and the present runs of a job.
///
/// A waiting run does not start. A present run is cancelled within a second, and dropped if it has not ended after its
/// grace period. If the run is a command, all its processes get TERM, and the processes that remain get KILL. To stop
/// later ticks, use `bandog jobs pause`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json, an array of the cancelled runs: the fields of `bandog jobs history --json`.

Exit codes: 0 cancelled; 75 no such run is waiting or running; 64 no such job, wrong URL; 69 the store does not answer \
or does not exist; 77 the store refuses the request.

Examples:
  bandog jobs cancel report         all of its runs
  bandog jobs cancel report 17      one run, by its number in `bandog jobs history`")]
pub(super) struct Args {
    /// The job's name.
    name: String,
    /// The run's number. Without a number, all waiting and present runs are cancelled.
    #[arg(value_name = "RUN", value_parser = clap::value_parser!(u64).range(1..))]
    id: Option<u64>,
    #[command(flatten)]
    common: Common,
}

/// Cancels the runs, and prints them.
pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { name, id, common } = args;
    JobsClient::with_job(common, name, async |client| {
        let cancelled = client.jobs.cancel(name, *id).await.map_err(|error| client.request_fault_for(&error, name))?;
        if common.json {
            let runs = client.history(name).await?;
            let latest = |id: &u64| runs.iter().find(|run| run.id == *id);
            print::done(print::json(&cancelled.iter().filter_map(latest).collect::<Vec<&RunRow>>()))?;
        }
        if cancelled.is_empty() {
            let which = id.map_or_else(|| format!("no run of {name:?}"), |id| format!("run {id} of {name:?} neither"));
            let verb = if id.is_some() { "waits nor runs" } else { "waits or runs" };
            return Err(Fault::new(ExitCode::Busy, format!("{which} {verb}")));
        }
        Nodes::of(client).await.warn("a run of a dead node is recorded as lost when a scheduler with this job starts");
        if !common.json {
            let ids: Vec<String> = cancelled.iter().map(u64::to_string).collect();
            let runs = if cancelled.len() == 1 { "run" } else { "runs" };
            print::done(writeln!(io::stdout(), "cancelled {runs} {} of {name:?}", ids.join(", ")))?;
        }
        Ok(ExitCode::Done)
    })
}
