//! `bandog jobs ls`: the jobs of a store.

use std::io::{self, Write};

use bandog::{Pattern, schedule::JobRow};

use super::{
    client::{Common, JobsClient},
    nodes::Nodes,
    words::{self, Clock, TableRow},
};
use crate::{console::escaped, exit_code::ExitCode, fault::Fault, print, store::Store};

/// Lists the jobs of a store, sorted by name: trigger, next fire, present state and last run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json, an array of objects: name, trigger, description, zone, enabled, paused (null, or by, reason, at), \
all_paused (the same for the pause of all jobs), unknown_since (if no scheduler has the job any more, \
the time of its last heartbeat, else null), presence (present: a live scheduler has the job, absent: none of them has \
it, no_node: no scheduler runs, unknown: one of them does not report its jobs), next (the next fire, or null), watermark (the newest tick that was \
claimed), rests_until (the time until which the job claims no tick because the store's clock was ahead, or null), \
lease_ms, overlap, catch_up, on_crash, live (the present runs, as in `bandog jobs history`), queued, ok, failed, \
cancelled, skipped, missed, lost (total numbers), last (the run that ended last, or null).

Of these, trigger is `cron 0 0 2 * * ?`, `fixed_rate 5s`, `fixed_delay 5s`, `at 2026-01-31T00:00:00Z` or `once`, and \
description is the same in words. presence is also unknown if the names of a scheduler's jobs have more than 256 KiB. next \
is null also while the job is paused or disabled, or waits for its run to end. ok, failed, lost and cancelled count each \
run once, by its last attempt; failed includes timeouts, and cancelled interrupted runs. skipped ticks did not run because \
of a run or a pause, missed ones because no node claimed them in time.

Exit codes: 0 also if no job is found; 64 wrong URL; 69 the store does not answer or does not exist; 77 the store \
refuses the request, or its file is damaged.

Examples:
  bandog jobs ls
  bandog jobs ls 'report-*'
  bandog jobs ls --json | jq -r '.[] | select(.last.state == \"failed\") | .name'")]
pub(super) struct Args {
    /// A pattern of names: * matches any text, ? matches one character, and \ escapes the next character.
    #[arg(default_value = "*", hide_default_value = true)]
    pattern: String,
    #[command(flatten)]
    common: Common,
}

/// Prints the jobs. Changes nothing.
pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.common.store)?;
    let answer = JobsClient::query(&store, async |client| {
        let rows = client.jobs.list(&Pattern::new(&args.pattern)).await.map_err(|error| client.fault(&error))?;
        Ok((rows, Nodes::of(client).await, client.now().await?))
    })?;
    let Some((rows, nodes, now)) = answer else { return JobsClient::print_unused(&store, &args.common, &[(); 0]) };
    if args.common.json {
        nodes.warn("none of these jobs runs until a scheduler starts");
        return print::done(print::json(&rows));
    }
    print::done(writeln!(io::stdout(), "in {}; {}", store.redacted(), nodes.text()))?;
    let lines: Vec<_> = rows.iter().map(|row| line(row, &Clock::new(now, row.zone.as_deref()))).collect();
    print::done(match rows.is_empty() {
        true => writeln!(io::stdout(), "no job {}", which(&args.pattern)),
        false => words::table(["NAME", "FIRES", "ZONE", "NEXT", "IN", "STATE", "LAST RUN"], &lines),
    })
}

/// The second half of the message for a pattern that no job matches. The first half is "no job".
fn which(pattern: &str) -> String {
    if pattern == "*" { "was ever registered here".into() } else { format!("has a name like {:?}", escaped(pattern)) }
}

/// The table row of a job.
fn line(job: &JobRow, clock: &Clock) -> TableRow<7> {
    let dash = || "-".to_owned();
    let cells = [
        escaped(&job.name),
        escaped(&job.trigger),
        job.zone.as_deref().map_or_else(dash, escaped),
        job.next.as_ref().map_or_else(dash, |next| clock.at(next)),
        // The head of this column is "IN", so the cell does not repeat the word.
        job.next.as_ref().map_or_else(dash, |next| clock.until(next).trim_start_matches("in ").to_owned()),
        words::state(job, clock),
        words::last(job, clock),
    ];
    TableRow { cells, below: Vec::new() }
}
