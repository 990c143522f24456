//! `bandog work`: runs a command for each element of a work queue.

mod order;
mod run;
mod serve;
mod tally;

use std::ffi::OsString;

use self::{
    order::{Options, Order, cannot_run},
    serve::serve,
};
use crate::{
    exit_code::ExitCode,
    fault::Fault,
    kept::program,
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
/// BANDOG_ATTEMPT (1 for the first delivery), BANDOG_HEADERS (the headers of the element, if it has some, as a JSON object) and
/// BANDOG_URL without its password. Its output is forwarded line by line.
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
    1  with --until-empty: an element has become dead meanwhile
  126  CMD cannot be run; its element is handed back
  127  CMD is not found; its element is handed back
  128 + N  stopped immediately by a second signal N, or by a signal before the start
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
