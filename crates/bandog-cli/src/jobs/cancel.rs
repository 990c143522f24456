//! `bandog jobs cancel`: ends runs.

use std::io::{self, Write};

use bandog::schedule::RunRow;

use super::{Common, Desk, nodes::Nodes};
use crate::{exit_code::ExitCode, fault::Fault, print};

/// Cancels a job's runs that wait or run.
///
/// A run that waits will not begin. One that runs is told to stop within a second, and dropped if it has not after its
/// grace; of a command, TERM goes to all its processes and KILL to what is left. Ticks that are to come are not touched:
/// see `bandog jobs pause`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json, an array of the runs that were told, with those of `bandog jobs history --json`.

Exit codes: 0 somebody was told; 75 no such run waits or runs; 64 no such job, wrong URL; 69 the store does not answer \
or is not there; 77 it refuses.

Examples:
  bandog jobs cancel report         all of its runs
  bandog jobs cancel report 17      this one, whose number `bandog jobs history` tells")]
pub(super) struct Args {
    /// The job's name.
    name: String,
    /// The run's number. Without it: all that wait or run.
    #[arg(value_name = "RUN", value_parser = clap::value_parser!(u64).range(1..))]
    id: Option<u64>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { name, id, common } = args;
    Desk::ask(common, name, async |desk| {
        let told = desk.jobs.cancel(name, *id).await.map_err(|error| desk.unsaid_of(&error, name))?;
        if common.json {
            let runs = desk.history(name).await?;
            let latest = |id: &u64| runs.iter().find(|run| run.id == *id);
            print::done(print::json(&told.iter().filter_map(latest).collect::<Vec<&RunRow>>()))?;
        }
        if told.is_empty() {
            let which = id.map_or_else(|| format!("no run of {name:?}"), |id| format!("run {id} of {name:?} neither"));
            let verb = if id.is_some() { "waits nor runs" } else { "waits or runs" };
            return Err(Fault::new(ExitCode::Busy, format!("{which} {verb}")));
        }
        Nodes::of(desk).await.warn("a run whose node is gone is recorded as lost when one starts that has this job");
        if !common.json {
            let ids: Vec<String> = told.iter().map(u64::to_string).collect();
            let runs = if told.len() == 1 { "run" } else { "runs" };
            print::done(writeln!(io::stdout(), "cancelled {runs} {} of {name:?}", ids.join(", ")))?;
        }
        Ok(ExitCode::Done)
    })
}
