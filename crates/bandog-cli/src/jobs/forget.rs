//! `bandog jobs forget`: jobs that are no more.

use std::{
    io::{self, IsTerminal, Write, stderr, stdin},
    time::Duration,
};

use bandog::{ErrorKind, schedule::JobRow};
use serde::Serialize;

use super::{Common, Desk, nodes::Nodes};
use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print,
    voice::{say, shown},
};

/// Removes a job from the store, with its history and the runs that wait; or all jobs that no scheduler has any more.
///
/// For jobs that no program has any more. A scheduler that still has the job brings it back at its next tick, or after a
/// day, as a new one without a history: take it out of the program or the file first.
///
/// `--unknown` forgets the jobs that no scheduler has had for `--older`: schedulers say once a day which jobs they have,
/// and `bandog jobs ls` marks those of which nobody has said so for two days. Left out are jobs that are paused by name,
/// and jobs of which runs wait. Nothing is ever forgotten by itself.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: job, forgotten (true); with --unknown an array of such objects.

Exit codes: 0 it is forgotten, or no job is unknown for so long; 64 no such job, it runs now, nobody said yes, wrong URL; \
69 the store does not answer or is not there; 77 it refuses.

Examples:
  bandog jobs forget old-report
  bandog jobs forget old-report --yes       without being asked, as in a script
  bandog jobs forget --unknown              what no scheduler has had for 14 days, after a look at the names")]
pub(super) struct Args {
    /// The job's name.
    #[arg(required_unless_present = "unknown", conflicts_with = "unknown")]
    name: Option<String>,
    /// All jobs that no scheduler has any more.
    #[arg(long)]
    unknown: bool,
    /// For how long no scheduler has had them: at least 2d.
    #[arg(long, value_name = "DUR", default_value = "14d", value_parser = humantime::parse_duration, requires = "unknown")]
    older: Duration,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Object<'a> {
    job: &'a str,
    forgotten: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    match &args.name {
        Some(name) => one(args, name),
        None => unknown(args),
    }
}

fn one(args: &Args, name: &str) -> Result<ExitCode, Fault> {
    let Args { yes, common, .. } = args;
    Desk::ask(common, name, async |desk| {
        let is_on = match desk.jobs.show(name).await {
            Ok(job) => job.enabled,
            // What cannot be read can still be forgotten.
            Err(error) if error.kind() == ErrorKind::Corrupt => false,
            Err(error) => return Err(desk.fault(&error)),
        };
        if !yes {
            ask(&format!("{name:?} and its history"), &format!("{name:?} is kept"), desk)?;
        }
        desk.jobs.forget(name).await.map_err(|error| desk.unsaid_of(&error, name))?;
        if Nodes::of(desk).await.known().is_some_and(|nodes| !nodes.is_empty()) && is_on {
            say(&format!(
                "schedulers run over this store: one that still has {name:?} brings it back at its next tick"
            ));
        }
        print::done(match common.json {
            true => print::json(&Object { job: name, forgotten: true }),
            false => writeln!(io::stdout(), "forgot {name:?}"),
        })
    })
}

fn unknown(args: &Args) -> Result<ExitCode, Fault> {
    let Args { older, yes, common, .. } = args;
    Desk::reach(common, async |desk| {
        let unknown = desk.jobs.unknown(*older).await.map_err(|error| desk.fault(&error))?;
        if !unknown.is_empty() && !yes {
            let since = |since: &Option<String>| shown(since.as_deref().unwrap_or_default());
            let told = |job: &JobRow| format!("{} (unknown since {})", shown(&job.name), since(&job.unknown_since));
            let names: Vec<String> = unknown.iter().map(told).collect();
            ask(&format!("{} with their histories", names.join(", ")), "they are kept", desk)?;
        }
        // Those that were shown and no others, though more may be unknown by now.
        let mut forgotten = Vec::new();
        for JobRow { name, .. } in &unknown {
            match desk.jobs.forget_unknown(name, *older).await {
                Ok(true) => forgotten.push(name),
                Ok(false) => say(&format!("{name:?} is not unknown any more: it is left as it is")),
                Err(error) => {
                    if !forgotten.is_empty() {
                        say(&format!("forgot {}, then stopped at {name:?}", quoted(&forgotten)));
                    }
                    return Err(desk.unsaid_of(&error, name));
                }
            }
        }
        print::done(match (common.json, &forgotten[..]) {
            (true, _) => {
                let objects = forgotten.iter().map(|job| Object { job, forgotten: true });
                print::json(&objects.collect::<Vec<_>>())
            }
            (false, []) => {
                let older = humantime::format_duration(*older);
                writeln!(io::stdout(), "no job is one that no scheduler has had for {older}")
            }
            (false, names) => writeln!(io::stdout(), "forgot {}", quoted(names)),
        })
    })
}

fn quoted(names: &[&String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// Lets the person at the terminal decide.
fn ask(what: &str, kept: &str, desk: &Desk<'_>) -> Result<(), Fault> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(Fault::usage(format!("--yes forgets {what}; without a terminal nobody can be asked")));
    }
    let question = format!("forget {what} in {}? [y/N] ", desk.store.shown());
    let mut answer = String::new();
    let asked = write!(stderr(), "bandog: {question}").and_then(|()| stdin().read_line(&mut answer));
    asked.map_err(|error| Fault::system("cannot ask", error))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Fault::usage(kept)),
    }
}
