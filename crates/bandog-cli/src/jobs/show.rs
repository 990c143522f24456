//! `bandog jobs show`: everything about one job.

use std::io::{self, Write};

use bandog::{
    Key, Pattern,
    schedule::{Fire, JobRow, NodeRow},
};
use bandog_cron::Time;
use serde::Serialize;

use super::{
    Common, Desk,
    nodes::Nodes,
    words::{self, Clock},
};
use crate::{exit_code::ExitCode, fault::Fault, print, voice::shown};

/// So many of the next fires are told.
const FIRES: usize = 5;

/// Shows one job: its policies, its runs, its next fires.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of `bandog jobs ls --json`; upcoming (the next fires: job, tick, due), nodes (the schedulers \
that run over the store, whatever jobs they have: node, program, since; null if that cannot be seen).

Exit codes: 0 shown; 64 no such job, wrong URL; 69 the store does not answer or is not there; 77 it refuses, or the \
file is damaged.

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

/// Looks, and changes nothing.
pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let (job, upcoming, nodes, now, store) = Desk::ask(&args.common, &args.name, async |desk| {
        let job = desk.show(&args.name).await?;
        let failed = |error| desk.fault(&error);
        let only = Pattern::exactly(&Key::new(&args.name).map_err(failed)?);
        let upcoming = desk.jobs.next(&only, FIRES).await.map_err(failed)?;
        let now = desk.now().await?;
        Ok((job, upcoming, Nodes::of(desk).await, now, desk.store.shown()))
    })?;
    if args.common.json {
        let nodes = nodes.known();
        return print::done(print::json(&Object { job: &job, upcoming: &upcoming, nodes }));
    }
    let head = format!("in {store}; {}", nodes.told());
    let lines: Vec<String> = [head].into_iter().chain(lines(&job, &upcoming, now)).collect();
    print::done(writeln!(io::stdout(), "{}", lines.join("\n")))
}

fn lines(job: &JobRow, upcoming: &[Fire], now: Time) -> Vec<String> {
    let clock = Clock::new(now, job.zone.as_deref());
    let zone = job.zone.as_deref().map(|zone| format!(", {}", shown(zone))).unwrap_or_default();
    let lease = words::span(job.lease_ms);
    let JobRow { ok, failed, lost, skipped, missed, overlap, catch_up, on_crash, .. } = job;
    let mut lines = vec![
        format!("name      {}", shown(&job.name)),
        format!("fires     {} ({}{zone})", shown(&job.trigger), job.description),
        format!("policies  overlap {overlap}, catch_up {catch_up}, on_crash {on_crash}, lease {lease}"),
        format!("state     {}", words::state(job, &clock)),
        format!(
            "runs      {ok} ok, {failed} failed, {lost} lost; ticks that did not run: {skipped} skipped, {missed} missed"
        ),
        format!("watermark {}", clock.at(&job.watermark)),
    ];
    let paused = job.paused.iter().chain(&job.all_paused);
    lines.extend(paused.map(|paused| format!("paused    since {}", clock.at(&paused.at))));
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

/// Why nothing is to come.
fn never(job: &JobRow) -> &'static str {
    match job {
        JobRow { enabled: false, .. } => "never: it is disabled where it is declared",
        JobRow { paused: Some(_), .. } => "never, as long as it is paused",
        JobRow { all_paused: Some(_), .. } => "never, as long as all jobs are paused",
        JobRow { live, queued, trigger, .. }
            if trigger.starts_with("fixed_delay") && (!live.is_empty() || *queued > 0) =>
        {
            "when its run has ended"
        }
        _ => "never again",
    }
}
