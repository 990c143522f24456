//! `bandog jobs`: what the jobs of a store are and do, and words to them.

mod backfill;
mod cancel;
mod confirm;
mod forget;
mod history;
mod list;
mod next;
mod nodes;
mod pause;
mod reset;
mod run;
mod show;
mod words;

use std::{
    env, fs,
    io::{self, Write},
};

use bandog::{
    ClientId, Error, Member,
    schedule::{JobRow, Jobs, Pauses, RunRow},
};
use bandog_cron::Time;
use clap::Subcommand;
use rustix::process::getuid;
use serde::Serialize;

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print, runtime,
    store::{self, Store},
};

/// Looks at the jobs of a store, runs, pauses and cancels them.
///
/// Jobs come into a store by the schedulers that run over it: `bandog schedule FILE`, or programs with the library.
/// What is said here is kept in the store, and they notice it within a second.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bandog jobs ls                                  what there is, and what it does now
  bandog jobs show report                         one job, its runs and its next fires
  bandog jobs run report --wait                   now, beside its ticks
  bandog jobs pause report --reason 'migration'   and later: bandog jobs resume report
  bandog jobs nodes                               who runs them, and who is paused
  bandog jobs next                                what fires next, of all
  bandog jobs history report --state failed       what went wrong")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Ls(list::Args),
    Show(show::Args),
    Next(next::Args),
    Run(run::Args),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Nodes(nodes::Args),
    History(history::Args),
    Cancel(cancel::Args),
    Backfill(backfill::Args),
    Reset(reset::Args),
    Forget(forget::Args),
}

/// What every verb takes.
#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    store: store::Args,
    /// Print one JSON document, for programs.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    match &args.verb {
        Verb::Ls(args) => list::run(args),
        Verb::Show(args) => show::run(args),
        Verb::Next(args) => next::run(args),
        Verb::Run(args) => run::run(args),
        Verb::Pause(args) => pause::pause(args),
        Verb::Resume(args) => pause::resume(args),
        Verb::Nodes(args) => nodes::run(args),
        Verb::History(args) => history::run(args),
        Verb::Cancel(args) => cancel::run(args),
        Verb::Backfill(args) => backfill::run(args),
        Verb::Reset(args) => reset::run(args),
        Verb::Forget(args) => forget::run(args),
    }
}

/// The jobs of a store that has answered.
struct Desk<'a> {
    store: &'a Store,
    jobs: Jobs,
}

impl<'a> Desk<'a> {
    /// None if it is the default store and nobody has used it yet.
    async fn open(store: &'a Store) -> Result<Option<Self>, Fault> {
        let Some(client) = store.look().await? else { return Ok(None) };
        let jobs = Jobs::over(&client).by(who());
        Ok(Some(Self { store, jobs }))
    }

    /// What somebody sees who looks at the store; none if it is the default store and nobody has used it yet.
    fn seen<T>(store: &'a Store, looking: impl AsyncFnOnce(&Desk<'_>) -> Result<T, Fault>) -> Result<Option<T>, Fault> {
        runtime::block_on(async {
            match Desk::open(store).await? {
                Some(desk) => looking(&desk).await.map(Some),
                None => Ok(None),
            }
        })
    }

    /// Prints what there is to see in a store that nobody has used yet.
    fn unused(store: &Store, common: &Common, none: &impl Serialize) -> Result<ExitCode, Fault> {
        print::done(match common.json {
            true => print::json(none),
            false => writeln!(io::stdout(), "in {}\nno job was ever registered here", store.shown()),
        })
    }

    /// Asks the store about one job.
    fn ask<T>(
        common: &Common,
        name: &str,
        asking: impl AsyncFnOnce(&Desk<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        Self::reached(common, &format!("there is no job {name:?}: "), asking)
    }

    /// Asks the store about all of its jobs.
    fn reach<T>(common: &Common, asking: impl AsyncFnOnce(&Desk<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        Self::reached(common, "", asking)
    }

    fn reached<T>(
        common: &Common,
        consequence: &str,
        asking: impl AsyncFnOnce(&Desk<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let store = Store::of(&common.store)?;
        Desk::seen(&store, asking)?.ok_or_else(|| {
            let (shown, origin) = (store.shown(), store.origin());
            Fault::usage(format!("{consequence}no job was ever registered in {shown} ({origin})"))
        })
    }

    fn fault(&self, error: &Error) -> Fault {
        self.store.fault(error)
    }

    /// What went wrong with a word to a job.
    fn unsaid_of(&self, error: &Error, name: &str) -> Fault {
        self.unsaid(error, &format!("bandog jobs show {name}"))
    }

    /// What went wrong with a word, and what shows whether it was done.
    fn unsaid(&self, error: &Error, look: &str) -> Fault {
        let fault = self.store.fault(error);
        if !error.maybe_applied() {
            return fault;
        }
        let look = format!("it may have been done all the same: look with `{look}` before you say it again");
        Fault::new(error.kind().into(), format!("{fault}\n  {look}"))
    }

    async fn show(&self, name: &str) -> Result<JobRow, Fault> {
        self.jobs.show(name).await.map_err(|error| self.fault(&error))
    }

    /// The store's time.
    async fn now(&self) -> Result<Time, Fault> {
        self.jobs.now().await.map_err(|error| self.fault(&error))
    }

    async fn pauses(&self) -> Result<Pauses, Fault> {
        self.jobs.pauses().await.map_err(|error| self.fault(&error))
    }

    async fn history(&self, name: &str) -> Result<Vec<RunRow>, Fault> {
        self.jobs.history(name).await.map_err(|error| self.fault(&error))
    }
}

/// Who speaks, as the records of pauses tell it: `user@host`.
fn who() -> String {
    let named = ["USER", "LOGNAME"].iter().find_map(|name| env::var(name).ok().filter(|user| !user.is_empty()));
    let user = named.or_else(listed).unwrap_or_else(|| format!("uid {}", getuid().as_raw()));
    format!("{user}@{}", Member::here(ClientId::random()).host)
}

/// The user's name in the list of this machine's users: services and containers often set no variable.
fn listed() -> Option<String> {
    let id = getuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut fields = users.lines().map(|line| line.split(':'));
    fields.find_map(|mut user| {
        Some((user.next()?, user.nth(1)?)).filter(|(_, uid)| *uid == id).map(|(name, _)| name.into())
    })
}
