//! The command line: subcommands and common options.

use std::{env, ffi::OsString, process};

use clap::{
    Arg, ArgAction, Args as _, CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{
    acquire, cached, completions, console, cron, demo, doctor, exec, exit_code::ExitCode, extend, fault::Fault, forget,
    grid, jobs, kept::keep, latch, limit, lock, ls, man, page, process_tree::heir, push, queue, queues, release,
    schedule, schema, show, store, tasks, torture, work,
};

/// Runs programs under locks that are shared by processes and machines.
///
/// The locks are in the store that --url or BANDOG_URL names: Redis (`redis://`, `rediss://` over TLS, `redis+unix://`,
/// `redis+sentinel://`, `redis+cluster://`, `redis+quorum://`), PostgreSQL (`postgres://`), MariaDB or MySQL (`mysql://`),
/// ZooKeeper (`zookeeper://`, `zookeeper+tls://`), a SQLite file (`sqlite:PATH`), or the memory of one process (`memory:`, for `torture` and `grid`).
/// If neither is set, the store is a file in the user's state directory, which only the programs of this user on this
/// machine share.
#[derive(Debug, Parser)]
#[command(name = "bandog", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// The options of every command.
#[derive(Debug, clap::Args)]
struct Common {
    /// Print more on standard error: -v adds the fence and, during a wait, the holder of the lock; -vv and -vvv add the
    /// log of the library.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    store: store::Args,
}

const EXAMPLES: &str = "\
Examples:
  bandog lock deploy -- ./deploy.sh               one deployment at a time
  bandog lock nightly --wait 0s -- ./report.sh    skip it if another process holds the lock
  export BANDOG_URL=redis://cache.example         the same locks on every machine
  bandog show deploy                              its holder and its waiters
  bandog ls 'order-*'                             the locks that are held
  bandog release deploy --force                   take it from a holder that hangs
  bandog forget 'order-*' --unused 90d            delete what the store keeps for old names
  bandog latch import wait --timeout 1h           wait until all parts of the work are done
  bandog grid queue mails push hello              queues, maps and other objects of programs
  bandog cached rates --fresh 5m -- ./rates       the output of a slow command, from a cache
  bandog push mails 'to: ann'                     an element of a work queue
  bandog work mails -- ./send-mail                a command for each element
  bandog queue mails dead                         the elements that have failed
  bandog schedule jobs.toml --check               check a file of jobs
  bandog torture --for 2m                         what a failover of your store does to locks
  bandog page                                     jobs and locks on a web page
  bandog demo                                     the failure without a lock";

/// One command and its arguments.
#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Visible(Visible),
    #[command(flatten)]
    Hidden(Hidden),
}

/// The commands for people and scripts.
#[derive(Debug, Subcommand)]
enum Visible {
    Lock(lock::Args),
    Show(show::Args),
    Ls(ls::Args),
    Release(release::Args),
    Acquire(acquire::Args),
    Extend(extend::Args),
    Forget(forget::Args),
    Latch(latch::Args),
    Limit(limit::Args),
    Grid(grid::Args),
    Cached(cached::Args),
    Push(push::Args),
    Work(work::Args),
    Queues(queues::Args),
    Queue(queue::Args),
    Tasks(tasks::Args),
    Doctor(doctor::Args),
    Schema(schema::Args),
    Torture(torture::Args),
    Cron(cron::Args),
    Schedule(schedule::Args),
    Jobs(jobs::Args),
    Page(page::Args),
    Demo(demo::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The internal steps of the command. Each runs in its own process.
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
                if let Some(name) = visible.without_store().filter(|_| self.common.store.is_given()) {
                    return Err(Fault::usage(format!("`bandog {name}` uses no store, so it has no --url")));
                }
                match (&visible, self.common.verbose) {
                    // Its report counts what the library would warn of, for each of its many clients.
                    (Visible::Torture(_), 0) => console::start(),
                    (_, verbosity) => console::install_subscriber(verbosity),
                }
                visible.run()
            }
            Command::Hidden(hidden) => hidden.run(),
        }
    }
}

/// The names of the commands that use no store.
const WITHOUT_STORE: [&str; 3] = ["cron", "completions", "man"];

impl Visible {
    /// The name of the command, if it uses no store.
    fn without_store(&self) -> Option<&'static str> {
        let [cron, completions, man] = WITHOUT_STORE;
        match self {
            Self::Cron(_) => Some(cron),
            Self::Completions(_) => Some(completions),
            Self::Man(_) => Some(man),
            Self::Lock(_)
            | Self::Show(_)
            | Self::Ls(_)
            | Self::Release(_)
            | Self::Acquire(_)
            | Self::Extend(_)
            | Self::Forget(_)
            | Self::Latch(_)
            | Self::Limit(_)
            | Self::Grid(_)
            | Self::Cached(_)
            | Self::Push(_)
            | Self::Work(_)
            | Self::Queues(_)
            | Self::Queue(_)
            | Self::Tasks(_)
            | Self::Doctor(_)
            | Self::Schema(_)
            | Self::Torture(_)
            | Self::Schedule(_)
            | Self::Jobs(_)
            | Self::Page(_)
            | Self::Demo(_) => None,
        }
    }

    fn run(self) -> Result<ExitCode, Fault> {
        match self {
            Self::Lock(args) => lock::run(&args),
            Self::Show(args) => show::run(&args),
            Self::Ls(args) => ls::run(&args),
            Self::Release(args) => release::run(&args),
            Self::Acquire(args) => acquire::run(&args),
            Self::Extend(args) => extend::run(&args),
            Self::Forget(args) => forget::run(&args),
            Self::Latch(args) => latch::run(&args),
            Self::Limit(args) => limit::run(&args),
            Self::Grid(args) => grid::run(&args),
            Self::Cached(args) => cached::run(&args),
            Self::Push(args) => push::run(&args),
            Self::Work(args) => work::run(&args),
            Self::Queues(args) => queues::run(&args),
            Self::Queue(args) => queue::run(&args),
            Self::Tasks(args) => tasks::run(&args),
            Self::Doctor(args) => doctor::run(&args),
            Self::Schema(args) => schema::run(&args),
            Self::Torture(args) => torture::run(&args),
            Self::Cron(args) => cron::run(&args),
            Self::Schedule(args) => schedule::run(&args),
            Self::Jobs(args) => jobs::run(&args),
            Self::Page(args) => page::run(&args),
            Self::Demo(args) => demo::run(&args),
            Self::Completions(args) => completions::run(&args, visible_command()),
            Self::Man(args) => man::run(&args, command()),
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
fn command() -> clap::Command {
    without_url(Cli::command())
}

/// The command line without its hidden steps.
fn visible_command() -> clap::Command {
    let bandog = clap::Command::new("bandog").version(env!("CARGO_PKG_VERSION"));
    without_url(Visible::augment_subcommands(Common::augment_args(bandog)))
}

/// Hides --url in the commands that use no store. [`Cli::run`] refuses it there.
fn without_url(command: clap::Command) -> clap::Command {
    let hidden = || Arg::new("url").long("url").value_name("URL").global(true).hide(true);
    WITHOUT_STORE.into_iter().fold(command, |command, name| command.mut_subcommand(name, |verb| verb.arg(hidden())))
}

fn parse(words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Cli, clap::Error> {
    let mut command = command();
    let mut matches = command.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Reads the command line. If the user asks for the help or the version, this function prints the text and exits.
pub(crate) fn read() -> Result<Cli, Fault> {
    let error = match parse(env::args_os()) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // An error is ignored: the reader might have closed the pipe, as `head` does.
            let _ = error.print();
            process::exit(0)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            process::exit(ExitCode::Usage.number().into())
        }
        _ => Err(Fault::new(ExitCode::Usage, plain(&with_option_place(without_wrong_tip(error))))),
    }
}

/// Replaces a wrong tip of clap. If the name of a lock begins with `-`, clap proposes to write the name after `--`. But
/// in `bandog lock`, the words after `--` are a program and its arguments.
fn without_wrong_tip(mut error: clap::Error) -> clap::Error {
    let is_lock = error.get(ContextKind::Usage).is_some_and(|usage| usage.to_string().contains("bandog lock"));
    if is_lock && error.get(ContextKind::Suggested).is_some() {
        let tip = "write the options of CMD after `--`; the name of a lock cannot begin with `-` here";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// If an option is written before its subcommand, clap reports only that the option exists. This function adds the
/// right place of the option to the error.
fn with_option_place(mut error: clap::Error) -> clap::Error {
    let text = |kind| match error.get(kind)? {
        ContextValue::StyledStr(text) => Some(text.to_string()),
        ContextValue::StyledStrs(texts) => texts.first().map(ToString::to_string),
        _ => None,
    };
    let advice = || {
        let (usage, tip) = (text(ContextKind::Usage)?, text(ContextKind::Suggested)?);
        let before = usage.strip_prefix("Usage: ")?.split(" [").next()?.to_owned();
        let example = tip.strip_prefix('\'')?.strip_suffix("' exists")?.to_owned();
        let option = example.split(' ').next_back()?;
        Some(format!("write {option} after all words of the subcommand, as in `{before} {example}`"))
    };
    if let Some(tip) = advice() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The text of the error, without colour and without characters that control a terminal.
fn plain(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    console::escaped_lines(text)
}

#[cfg(test)]
mod tests;
