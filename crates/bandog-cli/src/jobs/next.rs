//! `bandog jobs next`: the next ticks of all jobs, in the order of time.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use bandog::{Key, Pattern};

use super::{
    client::{Common, JobsClient},
    nodes::Nodes,
    words::{self, Clock, TableRow},
};
use crate::{console::escaped, exit_code::ExitCode, fault::Fault, print, store::Store};

/// Prints the next ticks of the jobs, in the order of time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A job that is paused or disabled has no next tick. A job with a fixed delay has one next tick, but no next tick while \
the job runs.

Fields of --json, an array of objects: job, tick, due (the time at which the run starts: the tick plus the job's \
jitter).

Exit codes: 0 also if no tick follows; 64 no such job, wrong URL; 69 the store does not answer or does not exist; 77 \
the store refuses the request, or its file is damaged.

Examples:
  bandog jobs next                    the next 10 ticks of all jobs
  bandog jobs next report --count 3
  bandog jobs next 'report-*' --json | jq -r .[0].tick")]
pub(super) struct Args {
    /// A job, or a pattern: * matches any text, ? matches one character, and \ escapes the next character.
    #[arg(default_value = "*", hide_default_value = true, value_name = "NAME|PATTERN")]
    pattern: String,
    /// Number of ticks to print.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u16))]
    count: u16,
    #[command(flatten)]
    common: Common,
}

/// Prints the ticks. Changes nothing.
pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.common.store)?;
    let answer = JobsClient::query(&store, async |client| {
        let failed = |error| client.fault(&error);
        let pattern = if args.pattern.contains(['*', '?', '\\']) {
            Pattern::new(&args.pattern)
        } else {
            client.show(&args.pattern).await?;
            Pattern::exactly(&Key::new(&args.pattern).map_err(failed)?)
        };
        let fires = client.jobs.next(&pattern, args.count.into()).await.map_err(failed)?;
        let zones: BTreeMap<String, Option<String>> =
            client.jobs.list(&pattern).await.map_err(failed)?.into_iter().map(|job| (job.name, job.zone)).collect();
        Ok((fires, zones, Nodes::of(client).await, client.now().await?))
    })?;
    let Some((fires, zones, nodes, now)) = answer else {
        return JobsClient::print_unused(&store, &args.common, &[(); 0]);
    };
    nodes.warn("none of these ticks runs until a scheduler starts");
    if args.common.json {
        return print::done(print::json(&fires));
    }
    if fires.is_empty() {
        return print::done(writeln!(io::stdout(), "no tick follows"));
    }
    let line = |fire: &bandog::schedule::Fire| {
        let clock = Clock::new(now, zones.get(&fire.job).and_then(Option::as_deref));
        let until = clock.until(&fire.due).trim_start_matches("in ").to_owned();
        TableRow { cells: [clock.at(&fire.due), until, escaped(&fire.job)], below: Vec::new() }
    };
    print::done(words::table(["NEXT", "IN", "JOB"], &fires.iter().map(line).collect::<Vec<_>>()))
}
