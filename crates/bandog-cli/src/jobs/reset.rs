//! `bandog jobs reset`: a watermark of the future, set back.

use std::io::{self, Write};

use bandog::{ErrorKind, Pattern, schedule::JobRow};
use serde::Serialize;

use super::{Common, Desk, confirm::confirm, nodes::Nodes, pause::reason};
use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print,
    voice::{say, shown},
};

/// Lets a job go on that rests because the store's clock was ahead, or all such jobs.
///
/// While a store's clock is ahead, ticks of the future are claimed. When it has been set right, the job rests until that
/// time has come, and `bandog jobs show` says so. This sets its watermark back to the store's present time. Ticks that were
/// claimed ahead of time and are still to come can be claimed again, once each, with a greater fence. Who did it, and
/// why, stands in the job's history.
///
/// `--all` does so for every job that rests, after a question. A job whose only tick was claimed already is left as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of `bandog jobs ls --json`, as they are now; with --all an array of objects with job, reset (whether \
it was), rested_until, and why if it was not, also when it fails halfway.

Exit codes: 0 it goes on from now, or no job rests; 64 no such job, no reason, its watermark does not lie in the future, its \
only tick was claimed already, nobody said yes, wrong URL; 69 the store does not answer or is not there; 77 it refuses.

Examples:
  bandog jobs reset report --reason 'NTP had set the store to 2031'
  bandog jobs reset --all --reason 'NTP had set the store to 2031'          after a look at the names
  bandog jobs reset --all --yes --reason 'NTP had set the store to 2031'    without being asked")]
pub(super) struct Args {
    /// The job's name.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,
    /// All jobs that rest.
    #[arg(long)]
    all: bool,
    /// Do not ask, with --all.
    #[arg(long)]
    yes: bool,
    /// Why, for the history. Your name and your machine's are written beside it.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    #[command(flatten)]
    common: Common,
}

/// What became of one of many.
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

fn one(args: &Args, name: &str) -> Result<ExitCode, Fault> {
    let Args { reason, common, .. } = args;
    Desk::ask(common, name, async |desk| {
        let before = desk.show(name).await?;
        desk.jobs.reset(name, reason).await.map_err(|error| desk.unsaid_of(&error, name))?;
        Nodes::of(desk).await.warn("its ticks run when one starts");
        let job = desk.show(name).await?;
        if common.json {
            return print::done(print::json(&job));
        }
        let (from, to) = (shown(before.rests_until.as_ref().unwrap_or(&before.watermark)), shown(&job.watermark));
        print::done(writeln!(io::stdout(), "{name:?} goes on from {to}; it rested until {from}"))
    })
}

fn all(args: &Args) -> Result<ExitCode, Fault> {
    let Args { reason, yes, common, .. } = args;
    Desk::reach(common, async |desk| {
        let mut resting = desk.jobs.list(&Pattern::all()).await.map_err(|error| desk.fault(&error))?;
        resting.retain(|job| job.rests_until.is_some());
        if !resting.is_empty() && !yes {
            let told = |job: &JobRow| format!("{} (rests until {})", shown(&job.name), shown(until(job)));
            let names = resting.iter().map(told).collect::<Vec<_>>().join(", ");
            confirm(
                ("set back", "sets back"),
                &format!("the watermarks of {names}"),
                "they are left as they are",
                desk,
            )?;
        }
        let (mut objects, mut broke) = (Vec::new(), None);
        for job in &resting {
            let object =
                |why: Option<String>| Object { job: &job.name, reset: why.is_none(), rested_until: until(job), why };
            if let Some((at, _)) = &broke {
                objects.push(object(Some(format!("not tried: it stopped at {at:?}"))));
                continue;
            }
            match desk.jobs.reset(&job.name, reason).await {
                Ok(()) => objects.push(object(None)),
                // It goes on by now, or had one tick only: the others are none the worse for it.
                Err(error) if error.kind() == ErrorKind::Misused => objects.push(object(Some(error.to_string()))),
                Err(error) => {
                    let fault = desk.unsaid_of(&error, &job.name);
                    objects.push(object(Some(fault.in_short())));
                    broke = Some((&job.name, fault));
                }
            }
        }
        if objects.iter().any(|object| object.reset) {
            Nodes::of(desk).await.warn("their ticks run when one starts");
        }
        let printed = if common.json { print::json(&objects) } else { lines(&objects) };
        match broke {
            Some((_, fault)) => print::done(printed).and(Err(fault)),
            None => print::done(printed),
        }
    })
}

/// Until when it rests.
fn until(job: &JobRow) -> &str {
    job.rests_until.as_deref().unwrap_or(&job.watermark)
}

fn lines(objects: &[Object<'_>]) -> io::Result<()> {
    if objects.is_empty() {
        return writeln!(io::stdout(), "no job rests");
    }
    for Object { job, rested_until, why, .. } in objects {
        match why {
            None => writeln!(io::stdout(), "{job:?} goes on from now; it rested until {}", shown(rested_until))?,
            Some(why) => say(&format!("{job:?} is left as it is: {why}")),
        }
    }
    Ok(())
}
