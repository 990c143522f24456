//! `bandog jobs backfill`: runs ticks of the past.

use std::io::{self, Write};

use bandog_cron::Time;
use serde::Serialize;

use super::{
    client::{Common, JobsClient},
    nodes::Nodes,
};
use crate::{exit_code::ExitCode, fault::Fault, print};

/// Runs all ticks of a range of the past, one after another, also the ticks that ran before.
///
/// Each tick becomes a run of the kind `backfill`, which starts after all runs that already wait. At most 10,000 runs
/// of a job can wait.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: job, count, ticks (RFC 3339 in UTC), dry_run.

Exit codes: 0 the runs wait, or, with --dry-run, the ticks were printed; 64 no such job, no tick in the range, too \
many ticks, a range that is not in the past, a job with a fixed delay, wrong URL; 69 the store does not answer or does \
not exist; 77 the store refuses the request.

Examples:
  bandog jobs backfill report --from 2026-01-01T00:00:00Z --to 2026-01-08T00:00:00Z --dry-run
  bandog jobs backfill report --from 2026-01-01T00:00:00+01:00 --to 2026-01-07T23:59:59+01:00")]
pub(super) struct Args {
    /// The job's name.
    name: String,
    /// The start of the range, as RFC 3339. A tick at this instant runs too.
    #[arg(long, value_name = "RFC3339")]
    from: Time,
    /// The end of the range, as RFC 3339. A tick at this instant runs too.
    #[arg(long, value_name = "RFC3339")]
    to: Time,
    /// Print the ticks, one per line, and run none of them.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Object<'a> {
    job: &'a str,
    count: u64,
    ticks: Vec<String>,
    dry_run: bool,
}

/// Requests the runs and prints their number. With `--dry-run`, only prints the ticks.
pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { name, from, to, dry_run, common } = args;
    let (count, ticks) = JobsClient::with_job(common, name, async |client| {
        let failed = |error| client.fault(&error);
        let ticks = client.jobs.ticks(name, *from, *to).await.map_err(failed)?;
        if *dry_run {
            return Ok((u64::try_from(ticks.len()).unwrap_or(u64::MAX), ticks));
        }
        let count =
            client.jobs.backfill(name, *from, *to).await.map_err(|error| client.request_fault_for(&error, name))?;
        Nodes::of(client).await.warn("the runs wait until a scheduler with this job starts");
        Ok((count, ticks))
    })?;
    let ticks: Vec<String> = ticks.iter().map(Time::to_string).collect();
    let mut out = io::stdout().lock();
    print::done(match (common.json, *dry_run) {
        (true, dry_run) => print::json(&Object { job: name, count, ticks, dry_run }),
        (false, true) => writeln!(out, "{}", ticks.join("\n")),
        (false, false) => writeln!(out, "{count}"),
    })
}
