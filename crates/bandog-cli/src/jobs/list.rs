//! `bandog jobs ls`: the jobs of a store.

use std::io::{self, Write};

use bandog::{Pattern, schedule::JobRow};

use super::{
    Common, Desk,
    nodes::Nodes,
    words::{self, Clock, Line},
};
use crate::{exit_code::ExitCode, fault::Fault, print, store::Store, voice::shown};

/// Lists the jobs of a store, sorted by name: what fires them, when they fire next, what they do now and did last.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json, an array of objects: name, trigger, description, zone, enabled, paused (null, or by, reason, at), \
all_paused (the same of the pause of all jobs), unknown_since (null, or since when no scheduler has had it), next (null \
when it does not fire), watermark (the newest tick that was claimed), rests_until (null, or until when it rests because the store's clock was ahead), lease_ms, overlap, catch_up, \
on_crash, live (the runs that run now, like those of `bandog jobs history`), queued, ok, failed, skipped, missed, lost \
(how many, ever), last (the run that ended last, or null).

Exit codes: 0 whether there are any or not; 64 wrong URL; 69 the store does not answer or is not there; 77 it refuses, \
or the file is damaged.

Examples:
  bandog jobs ls
  bandog jobs ls 'report-*'
  bandog jobs ls --json | jq -r '.[] | select(.last.state == \"failed\") | .name'")]
pub(super) struct Args {
    /// Which names: * stands for any text, ? for one character, and \ takes away the meaning of the next one.
    #[arg(default_value = "*", hide_default_value = true)]
    pattern: String,
    #[command(flatten)]
    common: Common,
}

/// Looks, and changes nothing.
pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.common.store)?;
    let seen = Desk::seen(&store, async |desk| {
        let rows = desk.jobs.list(&Pattern::new(&args.pattern)).await.map_err(|error| desk.fault(&error))?;
        Ok((rows, Nodes::of(desk).await, desk.now().await?))
    })?;
    let Some((rows, nodes, now)) = seen else { return Desk::unused(&store, &args.common, &[(); 0]) };
    if args.common.json {
        nodes.warn("none of these jobs runs until one starts");
        return print::done(print::json(&rows));
    }
    print::done(writeln!(io::stdout(), "in {}; {}", store.shown(), nodes.told()))?;
    let lines: Vec<_> = rows.iter().map(|row| line(row, &Clock::new(now, row.zone.as_deref()))).collect();
    print::done(match rows.is_empty() {
        true => writeln!(io::stdout(), "no job {}", which(&args.pattern)),
        false => words::table(["NAME", "FIRES", "ZONE", "NEXT", "IN", "STATE", "LAST RUN"], &lines),
    })
}

fn which(pattern: &str) -> String {
    if pattern == "*" { "was ever registered here".into() } else { format!("has a name like {:?}", shown(pattern)) }
}

fn line(job: &JobRow, clock: &Clock) -> Line<7> {
    let dash = || "-".to_owned();
    let cells = [
        shown(&job.name),
        shown(&job.trigger),
        job.zone.as_deref().map_or_else(dash, shown),
        job.next.as_ref().map_or_else(dash, |next| clock.at(next)),
        // "in" stands in the head already.
        job.next.as_ref().map_or_else(dash, |next| clock.until(next).trim_start_matches("in ").to_owned()),
        words::state(job, clock),
        words::last(job, clock),
    ];
    Line { cells, below: Vec::new() }
}
