//! `bandog jobs show`: everything about one job.

use std::io::{self, Write};

use bandog::{
    Key, Pattern,
    schedule::{Fire, JobRow, NodeRow, Presence},
};
use bandog_cron::Time;
use serde::Serialize;

use super::{
    client::{Common, JobsClient},
    nodes::Nodes,
    words::{self, Clock},
};
use crate::{console::escaped, exit_code::ExitCode, fault::Fault, print};

/// Number of fires to print.
const FIRES: usize = 5;

/// Shows one job: its policies, its runs, its next fires.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of `bandog jobs ls --json`; upcoming (the next fires: job, tick, due), nodes (all schedulers \
that run over the store, also those without this job: node, program, since; null if the user has no right to read \
them).

Exit codes: 0 printed; 64 no such job, wrong URL; 69 the store does not answer or does not exist; 77 the store refuses \
the request, or its file is damaged.

Examples:
  bandog jobs show report
  bandog jobs show report --json | jq -r '.upcoming[0].tick'")]
pub(super) struct Args {
    /// The job's name.
    name: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Object<'a> {
    #[serde(flatten)]
    job: &'a JobRow,
    upcoming: &'a [Fire],
    nodes: Option<&'a [NodeRow]>,
}

/// Prints the job. Changes nothing.
pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let (job, upcoming, nodes, now, store) = JobsClient::with_job(&args.common, &args.name, async |client| {
        let job = client.show(&args.name).await?;
        let failed = |error| client.fault(&error);
        let only = Pattern::exactly(&Key::new(&args.name).map_err(failed)?);
        let upcoming = client.jobs.next(&only, FIRES).await.map_err(failed)?;
        let now = client.now().await?;
        Ok((job, upcoming, Nodes::of(client).await, now, client.store.redacted()))
    })?;
    if args.common.json {
        let nodes = nodes.known();
        return print::done(print::json(&Object { job: &job, upcoming: &upcoming, nodes }));
    }
    let head = format!("in {store}; {}", nodes.text());
    let lines: Vec<String> = [head].into_iter().chain(lines(&job, &upcoming, now)).collect();
    print::done(writeln!(io::stdout(), "{}", lines.join("\n")))
}

/// The job as text.
fn lines(job: &JobRow, upcoming: &[Fire], now: Time) -> Vec<String> {
    let clock = Clock::new(now, job.zone.as_deref());
    let zone = job.zone.as_deref().map(|zone| format!(", {}", escaped(zone))).unwrap_or_default();
    let lease = words::span(job.lease_ms);
    let JobRow { ok, failed, lost, cancelled, skipped, missed, overlap, catch_up, on_crash, .. } = job;
    let mut lines = vec![
        format!("name      {}", escaped(&job.name)),
        format!("fires     {} ({}{zone})", escaped(&job.trigger), job.description),
        format!("policies  overlap {overlap}, catch_up {catch_up}, on_crash {on_crash}, lease {lease}"),
        format!("state     {}", words::state(job, &clock)),
        format!(
            "runs      {ok} ok, {failed} failed, {lost} lost, {cancelled} cancelled; ticks that did not run: {skipped} skipped, {missed} missed"
        ),
        format!("watermark {}", clock.at(&job.watermark)),
    ];
    let paused = job.paused.iter().chain(&job.all_paused);
    lines.extend(paused.map(|paused| format!("paused    since {}", clock.at(&paused.at))));
    // Puts `head` in front of the first row, and indents the other rows by the same width.
    let under = |head: &'static str, rows: Vec<String>| {
        let heads = [head].into_iter().chain(std::iter::repeat(""));
        rows.into_iter().zip(heads).map(|(row, head)| format!("{head:<10}{row}")).collect::<Vec<_>>()
    };
    lines.extend(under("running", job.live.iter().map(|run| words::run(run, &clock)).collect()));
    lines.extend(under("last run", job.last.iter().map(|run| words::run(run, &clock)).collect()));
    let fires = upcoming.iter().map(|fire| format!("{} ({})", clock.at(&fire.due), clock.until(&fire.due)));
    let next = if upcoming.is_empty() { vec![never(job).to_owned()] } else { fires.collect() };
    lines.extend(under("next", next));
    lines
}

/// The reason why there is no next fire.
fn never(job: &JobRow) -> &'static str {
    match job {
        JobRow { presence: Presence::Absent, .. } => "never: no node has it",
        JobRow { enabled: false, .. } => "never: its declaration disables it",
        JobRow { paused: Some(_), .. } => "never while it is paused",
        JobRow { all_paused: Some(_), .. } => "never while all jobs are paused",
        JobRow { live, queued, trigger, .. }
            if trigger.starts_with("fixed_delay") && (!live.is_empty() || *queued > 0) =>
        {
            "when its run has ended"
        }
        _ => "never again",
    }
}
