//! `bandog jobs forget`: a job that is no more.

use std::io::{self, IsTerminal, Write, stderr, stdin};

use bandog::ErrorKind;
use serde::Serialize;

use super::{Common, Desk, nodes::Nodes};
use crate::{exit_code::ExitCode, fault::Fault, print, voice::say};

/// Removes a job from the store, with its history and the runs that wait.
///
/// For jobs that no program has any more. A scheduler that still has the job brings it back at its next tick, as a new
/// one without a history: take it out of the program or the file first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: job, forgotten (true).

Exit codes: 0 it is forgotten; 64 no such job, it runs now, nobody said yes, wrong URL; 69 the store does not answer or \
is not there; 77 it refuses.

Examples:
  bandog jobs forget old-report
  bandog jobs forget old-report --yes       without being asked, as in a script")]
pub(super) struct Args {
    /// The job's name.
    name: String,
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
    let Args { name, yes, common } = args;
    Desk::ask(common, name, async |desk| {
        let is_on = match desk.jobs.show(name).await {
            Ok(job) => job.enabled,
            // What cannot be read can still be forgotten.
            Err(error) if error.kind() == ErrorKind::Corrupt => false,
            Err(error) => return Err(desk.fault(&error)),
        };
        if !yes {
            ask(name, desk)?;
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

/// Lets the person at the terminal decide.
fn ask(name: &str, desk: &Desk<'_>) -> Result<(), Fault> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(Fault::usage(format!(
            "--yes forgets {name:?} and its history; without a terminal nobody can be asked"
        )));
    }
    let question = format!("forget {name:?} and its history in {}? [y/N] ", desk.store.shown());
    let mut answer = String::new();
    let asked = write!(stderr(), "bandog: {question}").and_then(|()| stdin().read_line(&mut answer));
    asked.map_err(|error| Fault::system("cannot ask", error))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Fault::usage(format!("{name:?} is kept"))),
    }
}
