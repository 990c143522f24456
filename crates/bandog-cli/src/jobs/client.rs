//! The client of `bandog jobs`, and the options of each subcommand.

use std::{
    env, fs,
    io::{self, Write},
};

use bandog::{
    Error,
    admin::{ClientId, Member},
    schedule::{JobRow, Jobs, Pauses, RunRow},
};
use bandog_cron::Time;
use rustix::process::getuid;
use serde::Serialize;

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print, runtime,
    store::{self, Store},
};

/// The options of each subcommand.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) store: store::Args,
    /// Print one JSON document, for programs.
    #[arg(long)]
    pub(super) json: bool,
}

/// A client for the jobs of a store. The store has already answered.
pub(super) struct JobsClient<'a> {
    pub(super) store: &'a Store,
    pub(super) jobs: Jobs,
}

impl<'a> JobsClient<'a> {
    /// Connects to the store. None if the store is the default store and does not exist yet.
    pub(super) async fn open(store: &'a Store) -> Result<Option<Self>, Fault> {
        let Some(client) = store.connect_existing().await? else { return Ok(None) };
        let jobs = Jobs::over(&client).by(operator());
        Ok(Some(Self { store, jobs }))
    }

    /// Runs a query. None if the store is the default store and does not exist yet.
    pub(super) fn query<T>(
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
    pub(super) fn print_unused(store: &Store, common: &Common, empty: &impl Serialize) -> Result<ExitCode, Fault> {
        print::done(match common.json {
            true => print::json(empty),
            false => writeln!(io::stdout(), "in {}\nno job was ever registered here", store.redacted()),
        })
    }

    /// Runs a request for the job `name`.
    pub(super) fn with_job<T>(
        common: &Common,
        name: &str,
        request: impl AsyncFnOnce(&JobsClient<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        Self::with_client(common, &format!("there is no job {name:?}: "), request)
    }

    /// Runs a request for all jobs.
    pub(super) fn with_store<T>(
        common: &Common,
        request: impl AsyncFnOnce(&JobsClient<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        Self::with_client(common, "", request)
    }

    /// Runs a request. If the store does not exist yet, returns an error whose message begins with `message_start`.
    pub(super) fn with_client<T>(
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
    pub(super) fn fault(&self, error: &Error) -> Fault {
        self.store.fault(error)
    }

    /// The error of a request for one job.
    pub(super) fn request_fault_for(&self, error: &Error, name: &str) -> Fault {
        self.request_fault(error, &format!("bandog jobs show {name}"))
    }

    /// The error of a request. `check_command` is the command that shows whether the request was applied.
    pub(super) fn request_fault(&self, error: &Error, check_command: &str) -> Fault {
        let fault = self.store.fault(error);
        if !error.maybe_applied() {
            return fault;
        }
        let advice = format!("the request may have been applied: check with `{check_command}` before a retry");
        Fault::new(error.kind().into(), format!("{fault}\n  {advice}"))
    }

    pub(super) async fn show(&self, name: &str) -> Result<JobRow, Fault> {
        self.jobs.show(name).await.map_err(|error| self.fault(&error))
    }

    /// The store's time.
    pub(super) async fn now(&self) -> Result<Time, Fault> {
        self.jobs.now().await.map_err(|error| self.fault(&error))
    }

    pub(super) async fn pauses(&self) -> Result<Pauses, Fault> {
        self.jobs.pauses().await.map_err(|error| self.fault(&error))
    }

    pub(super) async fn history(&self, name: &str) -> Result<Vec<RunRow>, Fault> {
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
