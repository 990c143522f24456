//! `bandog jobs pause` and `resume`: no ticks for a time.

use std::io::{self, Write};

use super::{Common, Desk, nodes::Nodes};
use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print,
    voice::{say, shown},
};

/// Stops the ticks of a job, until `bandog jobs resume`.
///
/// What runs goes on, and `bandog jobs run` runs it all the same. The pause is kept in the store: it holds for nodes that
/// start later too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of `bandog jobs ls --json`, as they are now.

Exit codes: 0 it is paused; 64 no such job, no reason, wrong URL; 69 the store does not answer or is not there; 77 it \
refuses.

Examples:
  bandog jobs pause report --reason 'database migration, until 6 pm'
  bandog jobs resume report")]
pub(super) struct Pause {
    /// The job's name.
    name: String,
    /// Why, for whoever finds it paused. Your name and your machine's are written beside it.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    #[command(flatten)]
    common: Common,
}

/// Lets the ticks of a paused job run again.
///
/// From now on: the ticks of the pause are recorded as skipped.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of `bandog jobs ls --json`, as they are now.

Exit codes: 0 it is not paused, or not any more; 64 no such job, wrong URL; 69 the store does not answer or is not \
there; 77 it refuses.

Examples:
  bandog jobs resume report")]
pub(super) struct Resume {
    /// The job's name.
    name: String,
    #[command(flatten)]
    common: Common,
}

pub(super) fn reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("say why in a few words".into()),
        text if text.len() > 1000 => Err("at most 1000 bytes are allowed".into()),
        text => Ok(text.to_owned()),
    }
}

pub(super) fn pause(args: &Pause) -> Result<ExitCode, Fault> {
    let Pause { name, reason, common } = args;
    Desk::ask(common, name, async |desk| {
        let before = desk.show(name).await?;
        desk.jobs.pause(name, reason).await.map_err(|error| desk.unsaid(&error, name))?;
        if let Some(paused) = &before.paused {
            let (by, why) = (shown(&paused.by), shown(&paused.reason));
            say(&format!("it was paused before, by {by} since {}: {why}", paused.at));
        }
        Nodes::of(desk).await.warn("the pause holds for those that start");
        let running = if before.live.is_empty() { "" } else { "; what runs goes on" };
        tell(desk, common, name, &format!("paused {name:?}{running}")).await
    })
}

pub(super) fn resume(args: &Resume) -> Result<ExitCode, Fault> {
    let Resume { name, common } = args;
    Desk::ask(common, name, async |desk| {
        let was_paused = desk.jobs.resume(name).await.map_err(|error| desk.unsaid(&error, name))?;
        Nodes::of(desk).await.warn("its ticks run when one starts");
        let said = if was_paused { format!("resumed {name:?}") } else { format!("{name:?} was not paused") };
        tell(desk, common, name, &said).await
    })
}

/// Prints what was done, or the job as it is now.
async fn tell(desk: &Desk<'_>, common: &Common, name: &str, said: &str) -> Result<ExitCode, Fault> {
    let job = desk.show(name).await?;
    if common.json {
        return print::done(print::json(&job));
    }
    let disabled = if job.enabled { "" } else { "; it is disabled where it is declared, so its ticks do not run" };
    print::done(writeln!(io::stdout(), "{said}{disabled}"))
}
