//! `bandog jobs reset`: sets back the watermark of a job, if the watermark is in the future. The watermark is the job's
//! newest claimed tick.

use std::io::{self, Write};

use bandog::{ErrorKind, Pattern, schedule::JobRow};
use serde::Serialize;

use super::{
    client::{Common, JobsClient},
    nodes::Nodes,
    pause::reason,
};
use crate::{
    confirm::confirm,
    console::{escaped, report},
    exit_code::ExitCode,
    fault::Fault,
    print,
};

/// Resumes a job that rests because the store's clock was ahead, or all such jobs.
///
/// While a store's clock is ahead, ticks of the future are claimed. When the clock is right again, the job rests: it
/// claims no tick until that future time (see `bandog jobs show`). This command sets the job's watermark, its newest
/// claimed tick, back to the store's present time. Ticks that were claimed ahead of time and are still in the future
/// can be claimed again, once each, with a greater fence. The job's history gets a line with the operator and the
/// reason.
///
/// `--all` does this for each job that rests, after a confirmation. A job whose only tick was claimed already is not
/// changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of `bandog jobs ls --json`, after the change; with --all an array of objects, also \
if the command fails halfway: job, reset (true or false), rested_until, and, if the job was not reset, why.

Exit codes: 0 the job is reset, or no job rests; 64 no such job, no reason, the job's watermark is not in the future, \
its only tick was claimed already, not confirmed, wrong URL; 69 the store does not answer or does not exist; 77 the \
store refuses the request.

Examples:
  bandog jobs reset report --reason 'NTP had set the store to 2031'
  bandog jobs reset --all --reason 'NTP had set the store to 2031'          after a confirmation
  bandog jobs reset --all --yes --reason 'NTP had set the store to 2031'    without a confirmation")]
pub(super) struct Args {
    /// The job's name.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,
    /// All jobs that rest.
    #[arg(long)]
    all: bool,
    /// Do not ask for a confirmation, with --all.
    #[arg(long)]
    yes: bool,
    /// The reason, for the history. Your name and your machine's name are stored with it.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    #[command(flatten)]
    common: Common,
}

/// The result for one job, with `--all`.
#[derive(Serialize)]
struct Object<'a> {
    job: &'a str,
    reset: bool,
    rested_until: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    match &args.name {
        Some(name) => one(args, name),
        None => all(args),
    }
}

/// Resets the job of this name.
fn one(args: &Args, name: &str) -> Result<ExitCode, Fault> {
    let Args { reason, common, .. } = args;
    JobsClient::with_job(common, name, async |client| {
        let before = client.show(name).await?;
        client.jobs.reset(name, reason).await.map_err(|error| client.request_fault_for(&error, name))?;
        Nodes::of(client).await.warn("its ticks run when a scheduler starts");
        let job = client.show(name).await?;
        if common.json {
            return print::done(print::json(&job));
        }
        let (from, to) = (escaped(before.rests_until.as_ref().unwrap_or(&before.watermark)), escaped(&job.watermark));
        print::done(writeln!(io::stdout(), "{name:?} continues from {to}; it rested until {from}"))
    })
}

/// Resets all jobs that rest.
fn all(args: &Args) -> Result<ExitCode, Fault> {
    let Args { reason, yes, common, .. } = args;
    JobsClient::with_store(common, async |client| {
        let mut resting = client.jobs.list(&Pattern::all()).await.map_err(|error| client.fault(&error))?;
        resting.retain(|job| job.rests_until.is_some());
        if !resting.is_empty() && !yes {
            let text = |job: &JobRow| format!("{} (rests until {})", escaped(&job.name), escaped(until(job)));
            let names = resting.iter().map(text).collect::<Vec<_>>().join(", ");
            confirm(
                ("set back", "sets back"),
                &format!("the watermarks of {names}"),
                "they are not changed",
                client.store,
            )?;
        }
        let (mut objects, mut failure) = (Vec::new(), None);
        for job in &resting {
            let object =
                |why: Option<String>| Object { job: &job.name, reset: why.is_none(), rested_until: until(job), why };
            if let Some((at, _)) = &failure {
                objects.push(object(Some(format!("not tried: the command stopped at {at:?}"))));
                continue;
            }
            match client.jobs.reset(&job.name, reason).await {
                Ok(()) => objects.push(object(None)),
                // The job does not rest any more, or its only tick was claimed already. The loop continues with the
                // next job.
                Err(error) if error.kind() == ErrorKind::Misused => objects.push(object(Some(error.to_string()))),
                Err(error) => {
                    let fault = client.request_fault_for(&error, &job.name);
                    objects.push(object(Some(fault.in_short())));
                    failure = Some((&job.name, fault));
                }
            }
        }
        if objects.iter().any(|object| object.reset) {
            Nodes::of(client).await.warn("their ticks run when a scheduler starts");
        }
        let printed = if common.json { print::json(&objects) } else { lines(&objects) };
        match failure {
            Some((_, fault)) => print::done(printed).and(Err(fault)),
            None => print::done(printed),
        }
    })
}

/// The time until which the job rests.
fn until(job: &JobRow) -> &str {
    job.rests_until.as_deref().unwrap_or(&job.watermark)
}

/// Prints the results of `--all` for people.
fn lines(objects: &[Object<'_>]) -> io::Result<()> {
    if objects.is_empty() {
        return writeln!(io::stdout(), "no job rests");
    }
    for Object { job, rested_until, why, .. } in objects {
        match why {
            None => writeln!(io::stdout(), "{job:?} continues from now; it rested until {}", escaped(rested_until))?,
            Some(why) => report(&format!("{job:?} is not changed: {why}")),
        }
    }
    Ok(())
}
