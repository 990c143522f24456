//! `bandog jobs`: shows and controls the jobs of a store.

mod backfill;
mod cancel;
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

/// Shows the jobs of a store, and runs, pauses and cancels them.
///
/// A store has the jobs of all schedulers that ever ran over it: of `bandog schedule FILE`, and of programs that use
/// the library. The store also keeps each change of a job, and schedulers apply the change within a second.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bandog jobs ls                                  all jobs and their state
  bandog jobs show report                         one job, its runs and its next fires
  bandog jobs run report --wait                   run it now, in addition to its ticks
  bandog jobs pause report --reason 'migration'   and later: bandog jobs resume report
  bandog jobs nodes                               the schedulers, and the pauses
  bandog jobs next                                the next ticks of all jobs
  bandog jobs history report --state failed       failed runs")]
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

/// The options of each subcommand.
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

/// A client for the jobs of a store. The store has already answered.
struct JobsClient<'a> {
    store: &'a Store,
    jobs: Jobs,
}

impl<'a> JobsClient<'a> {
    /// Connects to the store. None if the store is the default store and does not exist yet.
    async fn open(store: &'a Store) -> Result<Option<Self>, Fault> {
        let Some(client) = store.connect_existing().await? else { return Ok(None) };
        let jobs = Jobs::over(&client).by(operator());
        Ok(Some(Self { store, jobs }))
    }

    /// Runs a query. None if the store is the default store and does not exist yet.
    fn query<T>(
        store: &'a Store,
        request: impl AsyncFnOnce(&JobsClient<'_>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        runtime::block_on(async {
            match JobsClient::open(store).await? {
                Some(client) => request(&client).await.map(Some),
                None => Ok(None),
            }
        })
    }

    /// Prints the empty result of a store that does not exist yet.
    ///
    /// `empty` is the JSON document without entries.
    fn print_unused(store: &Store, common: &Common, empty: &impl Serialize) -> Result<ExitCode, Fault> {
        print::done(match common.json {
            true => print::json(empty),
            false => writeln!(io::stdout(), "in {}\nno job was ever registered here", store.redacted()),
        })
    }

    /// Runs a request for the job `name`.
    fn with_job<T>(
        common: &Common,
        name: &str,
        request: impl AsyncFnOnce(&JobsClient<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        Self::with_client(common, &format!("there is no job {name:?}: "), request)
    }

    /// Runs a request for all jobs.
    fn with_store<T>(
        common: &Common,
        request: impl AsyncFnOnce(&JobsClient<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        Self::with_client(common, "", request)
    }

    /// Runs a request. If the store does not exist yet, returns an error whose message begins with `message_start`.
    fn with_client<T>(
        common: &Common,
        message_start: &str,
        request: impl AsyncFnOnce(&JobsClient<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let store = Store::of(&common.store)?;
        JobsClient::query(&store, request)?.ok_or_else(|| {
            let (shown, origin) = (store.redacted(), store.origin());
            Fault::usage(format!("{message_start}no job was ever registered in {shown} ({origin})"))
        })
    }

    /// The error of a query.
    fn fault(&self, error: &Error) -> Fault {
        self.store.fault(error)
    }

    /// The error of a request for one job.
    fn request_fault_for(&self, error: &Error, name: &str) -> Fault {
        self.request_fault(error, &format!("bandog jobs show {name}"))
    }

    /// The error of a request. `check_command` is the command that shows whether the request was applied.
    fn request_fault(&self, error: &Error, check_command: &str) -> Fault {
        let fault = self.store.fault(error);
        if !error.maybe_applied() {
            return fault;
        }
        let advice = format!("the request may have been applied: check with `{check_command}` before a retry");
        Fault::new(error.kind().into(), format!("{fault}\n  {advice}"))
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

/// The operator, in the form `user@host`. The store records this text, for example in a pause.
fn operator() -> String {
    let named = ["USER", "LOGNAME"].iter().find_map(|name| env::var(name).ok().filter(|user| !user.is_empty()));
    let user = named.or_else(name_in_passwd).unwrap_or_else(|| format!("uid {}", getuid().as_raw()));
    format!("{user}@{}", Member::here(ClientId::random()).host)
}

/// The user's name in `/etc/passwd`. Services and containers often set neither USER nor LOGNAME.
fn name_in_passwd() -> Option<String> {
    let id = getuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut fields = users.lines().map(|line| line.split(':'));
    fields.find_map(|mut user| {
        Some((user.next()?, user.nth(1)?)).filter(|(_, uid)| *uid == id).map(|(name, _)| name.into())
    })
}
