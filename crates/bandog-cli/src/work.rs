//! `bandog work`: runs a command for each element of a work queue.

mod run;
mod serve;
mod tally;

use std::{ffi::OsString, time::Duration};

use bandog::work::Backoff;

use self::serve::serve;
use crate::{
    durations,
    exit_code::ExitCode,
    fault::Fault,
    kept::program::{self, Missing},
    lock::grace::Grace,
    print::Format,
    runtime,
    store::{self, Store},
};

/// Runs CMD for each element of a work queue.
///
/// Start the same command on many machines over one store: each element goes to one of them, with a lease that bandog
/// extends while CMD runs. If a worker dies, another one gets its elements when their leases are over; CMD has ended before
/// that. So an element may come more than once, but never to two commands at the same time.
///
/// CMD has the element on standard input. Its environment has BANDOG_QUEUE, BANDOG_ELEMENT (the id), BANDOG_FENCE (greater
/// for each later delivery of the element, so a resource that keeps the greatest can refuse a delayed writer),
/// BANDOG_ATTEMPT (1 for the first delivery) and BANDOG_URL without its password. Its output is forwarded line by line.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The name of the queue: 1 to 1024 bytes of text; here it cannot begin with `-`.
    queue: String,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    store: store::Args,
    /// Print one JSON object for each element that ends; what CMD prints goes to standard error.
    #[command(flatten)]
    format: Format,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The options of a worker.
#[derive(Debug, clap::Args)]
struct Options {
    /// The number of elements on which this worker works at the same time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    workers: u32,
    /// The lease of an element, from 1s to 1d: if the worker dies or is stopped, others get the element after this time.
    #[arg(long, value_name = "DUR", value_parser = lease, default_value = "30s")]
    lease: Duration,
    /// The number of deliveries after which a failed element is dead.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    deliveries: u32,
    /// The time after which a failed element comes again; with a range, it doubles with each attempt.
    #[arg(long, value_name = "DUR[..DUR]", value_parser = backoff, default_value = "1s..1h")]
    backoff: Backoff,
    /// How long running commands are allowed to continue after a stop signal, before they are ended.
    #[arg(long, value_name = "DUR", value_parser = durations::wait, default_value = "30s")]
    drain: Duration,
    /// The maximum duration of CMD; then it is ended, and the attempt has failed [default: none].
    #[arg(long, value_name = "DUR", value_parser = durations::lease)]
    timeout: Option<Duration>,
    /// Exit when no element is ready, delayed or taken. Dead ones, and those that wait for dead ones, may be left.
    #[arg(long)]
    until_empty: bool,
    /// Print the lines of CMD as they are, without the queue's name in front.
    #[arg(long)]
    plain: bool,
}

const HELP: &str = "\
Exit codes of CMD:
    0  the element is done, and leaves the queue
   75  (EX_TEMPFAIL) CMD asks for a retry: the element comes again after --backoff
       all others, and a signal: the attempt has failed. The element comes again after --backoff,
       with the last 4 KiB of CMD's standard error as its error (`bandog queue NAME ls`)
  After --deliveries, an element that is not done is dead, whatever the code is, and stays for
  `bandog queue NAME retry` or `remove`.

Fields of --json, one object per end of an element:
  id, attempt, fence
  end        done; retry (it comes again); dead; handed_back (it is ready again, and the delivery
             does not count); lost (another worker may have it, or it was removed); unknown (it may
             be done: the store has not answered)
  exit_code  of CMD; null if it has none
  error      null if there is none
  took_ms

Exit codes:
    0  stopped by one signal; with --until-empty: the queue is empty
    1  with --until-empty: an element of this worker is dead
  126  CMD cannot be run; its element is handed back
  127  CMD is not found; its element is handed back
  128 + N  stopped immediately by a second signal N
   64  the command line, the name, a duration or the URL is wrong, or the store has no work queues
   69  the store does not answer at the start. Later, the worker waits for it
   71  the operating system refused a process, a thread or a file
   77  the store refuses: password, missing right, damaged file

Signals:
  TERM, INT, HUP and QUIT stop the worker: it takes nothing more, lets CMD continue for --drain, then
  ends it (TERM, and KILL after a sixth of the lease, 5s at most), and hands its element back. A second
  signal kills all commands immediately.

End of the lease:
  If the lease cannot be extended, CMD and all its descendants get TERM, and KILL before another worker
  can get the element. A helper process does this, also if bandog itself is stopped or hangs. If bandog
  is killed, the helper kills them at once. If CMD continues in a machine that was suspended, it may
  run for a moment after the end of the lease: BANDOG_FENCE is for that.

Examples:
  bandog work mails -- ./send-mail
  bandog work thumbnails --workers 8 --timeout 5m -- sh -c 'convert \"$(cat)\" …'
  bandog work reports --deliveries 3 --backoff 10s..10m -- ./report
  bandog work import --until-empty --json -- ./import | jq -r 'select(.end == \"dead\") | .id'";

/// Works on the queue. Wrong arguments are reported before any I/O.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { queue, options, store, format, command } = args;
    let store = Store::of(store)?;
    bandog::Key::new(queue).map_err(|error| store.fault(&error))?;
    let connect = store.options()?.program(format!("bandog work {queue}"));
    let grace = Grace::new(options.lease, true, None)?;
    program::check(command, &[], None).map_err(|missing| cannot_run(&missing))?;
    let order = Order { name: queue, options, format: *format, command, grace, store: &store };
    runtime::block_on_with_io(async { serve(&order, store.client(connect)?).await })
}

/// What a worker has to do.
struct Order<'a> {
    name: &'a str,
    options: &'a Options,
    format: Format,
    command: &'a [OsString],
    grace: Grace,
    store: &'a Store,
}

/// The error if the program cannot be started.
fn cannot_run(missing: &Missing) -> Fault {
    let code = match missing {
        Missing::NotFound(_) => 127,
        Missing::NotExecutable(_) | Missing::NoDirectory(_) | Missing::ClosedDirectory(_) => 126,
    };
    Fault::new(ExitCode::Child(code), missing.to_string())
}

/// Parses the lease of an element.
fn lease(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_secs(1)..=Duration::from_secs(86_400);
    let lease = humantime::parse_duration(text).ok().filter(|lease| allowed.contains(lease));
    lease.ok_or_else(|| "write it like 10s or 2m, between 1s and 1d".to_owned())
}

/// Parses a time, or a range of times.
fn backoff(text: &str) -> Result<Backoff, String> {
    let backoff = match text.split_once("..") {
        Some((first, most)) => Backoff::exponential(durations::wait(first)?, durations::wait(most)?),
        None => Backoff::fixed(durations::wait(text)?),
    };
    backoff.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_is_a_time_or_a_range() {
        assert_eq!(backoff("2s").ok(), Backoff::fixed(Duration::from_secs(2)).ok());
        let range = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(3600));
        assert_eq!(backoff("1s..1h").ok(), range.ok());
        for wrong in ["", "1", "..", "1s..", "2s..1s", "1s...2s"] {
            assert!(backoff(wrong).is_err(), "{wrong}");
        }
        assert!(lease("999ms").is_err() && lease("1d").is_ok() && lease("25h").is_err());
    }
}
