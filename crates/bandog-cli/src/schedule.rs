//! `bandog schedule`: runs the jobs of a file, each tick once in the whole cluster.

mod check;
mod child;
mod entry;
mod file;
mod mistakes;
mod serve;
mod table;
mod text;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use self::file::JobFile;
use crate::{
    durations,
    exit_code::ExitCode,
    fault::Fault,
    http::{self, Listening},
    kept::output::OutputFormat,
    print, runtime,
    store::{self, Store},
};

/// Runs the jobs of a file, each tick once in the whole cluster.
///
/// Start the same command with the same file on many machines over one store. Each job is a command with a cron
/// expression, a period or an instant, and runs on one of the machines. It gets BANDOG_JOB, BANDOG_TICK (RFC 3339,
/// UTC), BANDOG_FENCE and BANDOG_ATTEMPT in its environment; its output is forwarded line by line.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The file of jobs, in TOML, or a folder with such files, whose names end in .toml.
    file: PathBuf,
    /// Only check the file, and print each job with its next fires. The store is not used.
    #[arg(long)]
    check: bool,
    /// With --check: print one JSON object per line, for programs.
    #[arg(long, requires = "check")]
    json: bool,
    #[command(flatten)]
    store: store::Args,
    /// How long running commands are allowed to continue after a stop signal, before they are terminated.
    #[arg(long, value_name = "DUR", value_parser = durations::wait, allow_hyphen_values = true, default_value = "30s")]
    drain: Duration,
    /// The form of the lines that commands print.
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    output: OutputFormat,
    #[command(flatten)]
    page: http::Options,
    /// Serve a page with jobs, runs and locks, the same as JSON, and /metrics on this address, such as 127.0.0.1:8080.
    ///
    /// The page is read-only, unless a token is given. It is not encrypted, and every client that reaches the address
    /// can read it. `bandog page` serves the same page without running jobs.
    #[arg(long, value_name = "ADDRESS", value_parser = http::address, conflicts_with = "check")]
    http: Option<SocketAddr>,
}

const HELP: &str = "\
The file:
  [pool]
  size = 4                        # maximum of simultaneous runs; default 1

  [[job]]
  name = \"report\"
  cron = \"0 15 10 ? * MON-FRI\"   # or fixed_rate = \"30s\", or fixed_delay = \"5m\",
                                  # or at = 2027-01-01T00:00:00Z
  zone = \"Europe/Berlin\"
  command = [\"./report\", \"-v\"]   # or a text for sh -c

  A job may have initial_delay, overlap (skip, queue(N), allow(N), replace), catch_up (skip,
  once, all(N)), window, misfire_grace, on_crash (abandon, retry, retry(N)), timeout, grace, lease,
  retry, pause_after, jitter, scope, store_down, revision, enabled, directory and env; with cron
  also dialect, day_match and daylight. A table [defaults] has values for all jobs, such as zone,
  directory, timeout and env. on_failure is a command (or a text for sh -c) for a run that has
  failed for good: it gets also BANDOG_STATE, BANDOG_ERROR, BANDOG_NODE and BANDOG_RUN. zones = \"system\" before the first job uses the machine's time zones.

Signals:
  TERM, INT and QUIT stop bandog: it claims no further tick, lets present runs continue for
  --drain, then terminates them (TERM, KILL after 4 s), and other nodes take over. A second
  signal kills all commands immediately.
  HUP reads the file again: jobs are added, changed and removed, and present runs go on. If the
  file has mistakes, the jobs stay as they are. On a terminal, HUP stops bandog.

Exit codes:
    0  stopped by one signal; with --check: the file is correct
  128 + N  stopped immediately by a second signal N
   64  the command line, the URL or the file is wrong: all mistakes are reported
   69  the store does not answer at the start
   70, 71, 77  as with `bandog lock`

Examples:
  bandog schedule jobs.toml --check
  BANDOG_URL=redis://app:secret@cache.example bandog schedule /etc/shop/jobs.toml";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    // The whole file is checked before the store is used.
    let file = JobFile::read(&args.file)?;
    if args.check {
        return check::print(&file, print::Format { json: args.json });
    }
    let store = Store::of(&args.store)?;
    // `Listening::open` also installs the recorder of the metrics. So this call comes before the creation of the first
    // client: the recorder would miss metrics that are registered earlier.
    let page = args.http.map(|address| Listening::open(address, &args.page)).transpose()?;
    runtime::block_on_with_io(serve::serve(file, &args.file, &store, args.drain, args.output, page))
}
