//! `bandog jobs reset`: a watermark of the future, set back.

use std::io::{self, Write};

use super::{Common, Desk, nodes::Nodes, pause::reason};
use crate::{exit_code::ExitCode, fault::Fault, print, voice::shown};

/// Lets a job go on that rests because the store's clock was ahead.
///
/// While a store's clock is ahead, ticks of the future are claimed. When it has been set right, the job rests until that
/// time has come, and `bandog jobs show` says so. This sets its watermark back to the store's present time. Ticks that were
/// claimed ahead of time and are still to come can be claimed again, once each, with a greater fence. Who did it, and
/// why, stands in the job's history.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of `bandog jobs ls --json`, as they are now.

Exit codes: 0 it goes on from now; 64 no such job, no reason, its watermark does not lie in the future, its only tick was \
claimed already, wrong URL; 69 the store does not answer or is not there; 77 it refuses.

Examples:
  bandog jobs reset report --reason 'NTP had set the store to 2031'")]
pub(super) struct Args {
    /// The job's name.
    name: String,
    /// Why, for the history. Your name and your machine's are written beside it.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { name, reason, common } = args;
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
