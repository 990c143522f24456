//! `bandog jobs next`: the ticks that are to come, of all jobs in the order of time.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use bandog::{Key, Pattern};

use super::{
    Common, Desk,
    nodes::Nodes,
    words::{self, Clock, Line},
};
use crate::{exit_code::ExitCode, fault::Fault, print, store::Store, voice::shown};

/// Prints the next ticks of the jobs, in the order of time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Jobs that are paused or disabled have none. Of a fixed delay there is one, and none while it runs.

Fields of --json, an array of objects: job, tick, due (the tick and the job's jitter: when it is to start).

Exit codes: 0 whether there are any or not; 64 no such job, wrong URL; 69 the store does not answer or is not there; \
77 it refuses, or the file is damaged.

Examples:
  bandog jobs next                    the next 10 of all jobs
  bandog jobs next report --count 3
  bandog jobs next 'report-*' --json | jq -r .[0].tick")]
pub(super) struct Args {
    /// A job, or which names: * stands for any text, ? for one character, and \ takes away the meaning of the next one.
    #[arg(default_value = "*", hide_default_value = true, value_name = "NAME|PATTERN")]
    pattern: String,
    /// How many ticks are printed.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u16))]
    count: u16,
    #[command(flatten)]
    common: Common,
}

/// Looks, and changes nothing.
pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.common.store)?;
    let seen = Desk::seen(&store, async |desk| {
        let failed = |error| desk.fault(&error);
        let pattern = if args.pattern.contains(['*', '?', '\\']) {
            Pattern::new(&args.pattern)
        } else {
            desk.show(&args.pattern).await?;
            Pattern::exactly(&Key::new(&args.pattern).map_err(failed)?)
        };
        let fires = desk.jobs.next(&pattern, args.count.into()).await.map_err(failed)?;
        let zones: BTreeMap<String, Option<String>> =
            desk.jobs.list(&pattern).await.map_err(failed)?.into_iter().map(|job| (job.name, job.zone)).collect();
        Ok((fires, zones, Nodes::of(desk).await, desk.now().await?))
    })?;
    let Some((fires, zones, nodes, now)) = seen else { return Desk::unused(&store, &args.common, &[(); 0]) };
    nodes.warn("none of these ticks runs until one starts");
    if args.common.json {
        return print::done(print::json(&fires));
    }
    if fires.is_empty() {
        return print::done(writeln!(io::stdout(), "no tick is to come"));
    }
    let line = |fire: &bandog::schedule::Fire| {
        let clock = Clock::new(now, zones.get(&fire.job).and_then(Option::as_deref));
        let until = clock.until(&fire.due).trim_start_matches("in ").to_owned();
        Line { cells: [clock.at(&fire.due), until, shown(&fire.job)], below: Vec::new() }
    };
    print::done(words::table(["NEXT", "IN", "JOB"], &fires.iter().map(line).collect::<Vec<_>>()))
}
