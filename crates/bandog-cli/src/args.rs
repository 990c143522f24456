//! What may be written on the command line.

use std::{process, time::Duration};

use bandog::{MAX_TTL, MIN_TTL};
use clap::{
    ArgAction, Args as _, CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{
    completions, cron, demo, doctor, exec,
    exit_code::ExitCode,
    family::heir,
    fault::Fault,
    jobs, lock, ls, man, page, release,
    schedule::{self, keep},
    show, voice,
};

/// Runs programs under locks that hold across processes and machines.
///
/// The lock lives in the store that --url or BANDOG_URL names: a Redis that the team already runs
/// (`redis://user:password@host:port/db`, `rediss://` over TLS, `redis+unix://` over a socket) or one SQLite file (`sqlite:PATH`). Without either it is a file in the user's
/// state directory, which only the programs of this user on this machine share.
#[derive(Debug, Parser)]
#[command(name = "bandog", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Debug, clap::Args)]
struct Common {
    /// Say more on standard error: -v what is waited for, -vv and -vvv what the library does.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

const EXAMPLES: &str = "\
Examples:
  bandog lock deploy -- ./deploy.sh               one deployment at a time
  bandog lock nightly --wait 0s -- ./report.sh    or not at all, if another does it
  export BANDOG_URL=redis://cache.example         the same locks on every machine
  bandog show deploy                              who holds it
  bandog ls 'order-*'                             which locks are held
  bandog release deploy --force                   take it from a holder that hangs
  bandog schedule jobs.toml --check               what a file of jobs says
  bandog page                                     jobs and locks on a web page
  bandog demo                                     what goes wrong without a lock";

/// One command and its arguments.
#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Visible(Visible),
    #[command(flatten)]
    Hidden(Hidden),
}

/// What people and scripts call.
#[derive(Debug, Subcommand)]
enum Visible {
    Lock(lock::Args),
    Show(show::Args),
    Ls(ls::Args),
    Release(release::Args),
    Doctor(doctor::Args),
    Cron(cron::Args),
    Schedule(schedule::Args),
    Jobs(jobs::Args),
    Page(page::Args),
    Demo(demo::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The command's own steps, which are processes of their own.
#[derive(Debug, Subcommand)]
enum Hidden {
    #[command(name = exec::NAME, hide = true)]
    Exec(exec::Args),
    #[command(name = heir::NAME, hide = true)]
    Heir(heir::Args),
    #[command(name = keep::NAME, hide = true)]
    Keep(keep::Args),
    #[command(name = demo::REPLICA, hide = true)]
    Replica,
}

impl Cli {
    pub(crate) fn run(self) -> Result<ExitCode, Fault> {
        match self.command {
            Command::Visible(visible) => {
                voice::listen(self.common.verbose);
                visible.run()
            }
            Command::Hidden(hidden) => hidden.run(),
        }
    }
}

impl Visible {
    fn run(self) -> Result<ExitCode, Fault> {
        match self {
            Self::Lock(args) => lock::run(&args),
            Self::Show(args) => show::run(&args),
            Self::Ls(args) => ls::run(&args),
            Self::Release(args) => release::run(&args),
            Self::Doctor(args) => doctor::run(&args),
            Self::Cron(args) => cron::run(&args),
            Self::Schedule(args) => schedule::run(&args),
            Self::Jobs(args) => jobs::run(&args),
            Self::Page(args) => page::run(&args),
            Self::Demo(args) => demo::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}

impl Hidden {
    fn run(self) -> Result<ExitCode, Fault> {
        match self {
            Self::Exec(args) => Err(exec::run(&args)),
            Self::Heir(args) => heir::run(&args),
            Self::Keep(args) => keep::run(&args),
            Self::Replica => demo::run_replica(),
        }
    }
}

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// The command line without its hidden steps.
pub(crate) fn visible_command() -> clap::Command {
    Visible::augment_subcommands(Common::augment_args(clap::Command::new("bandog").version(env!("CARGO_PKG_VERSION"))))
}

/// Reads the command line. Help and version go to standard output and are no fault.
pub(crate) fn read() -> Result<Cli, Fault> {
    let error = match Cli::try_parse() {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that has gone, as `head` does, has read enough.
            let _ = error.print();
            process::exit(0)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            process::exit(ExitCode::Usage.number().into())
        }
        _ => Err(Fault::new(ExitCode::Usage, plain(&with_its_place(without_wrong_tip(error))))),
    }
}

/// Behind `lock --` comes a program, so clap's advice to write a name there is wrong.
fn without_wrong_tip(mut error: clap::Error) -> clap::Error {
    let is_lock = error.get(ContextKind::Usage).is_some_and(|usage| usage.to_string().contains("bandog lock"));
    if is_lock && error.get(ContextKind::Suggested).is_some() {
        let tip = "the options of CMD go with it behind `--`; a lock's name cannot begin with `-` here";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Of an option that stands before its subcommand clap says only that it exists; this says where it goes.
fn with_its_place(mut error: clap::Error) -> clap::Error {
    let text = |kind| match error.get(kind)? {
        ContextValue::StyledStr(text) => Some(text.to_string()),
        ContextValue::StyledStrs(texts) => texts.first().map(ToString::to_string),
        _ => None,
    };
    let place = || {
        let (usage, tip) = (text(ContextKind::Usage)?, text(ContextKind::Suggested)?);
        let before = usage.strip_prefix("Usage: ")?.split(" [").next()?.to_owned();
        let example = tip.strip_prefix('\'')?.strip_suffix("' exists")?.to_owned();
        let option = example.split(' ').next_back()?;
        Some(format!("{option} goes behind all words of a subcommand, as in `{before} {example}`"))
    };
    if let Some(tip) = place() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The error's words without colour, and without what a value could do to a terminal.
fn plain(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    voice::shown_lines(text)
}

/// Reads how long to wait: no time at all, or up to 365 days.
pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    duration(text, Duration::ZERO, "0s to 365d are allowed")
}

/// Reads a lease: what a ttl may be.
pub(crate) fn lease(text: &str) -> Result<Duration, String> {
    duration(text, MIN_TTL, "100ms to 365d are allowed")
}

fn duration(text: &str, least: Duration, allowed: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if (least..=MAX_TTL).contains(&duration) => Ok(duration),
        Ok(_) => Err(allowed.to_owned()),
        Err(_) => Err(format!("write it like 500ms, 10s or 2m; {allowed}")),
    }
}

#[cfg(test)]
mod tests;
