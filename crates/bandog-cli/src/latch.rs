//! `bandog latch`: sets a count-down latch, counts it down, waits until it is open, and deletes it.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use bandog::{Client, Error, Key, Latch};
use clap::ValueEnum;
use serde::Serialize;
use tokio::time::timeout;

use crate::{
    console, durations,
    exit_code::ExitCode,
    fault::Fault,
    print::{self, Format},
    runtime,
    store::{self, Store, until_answered},
};

/// Sets a count-down latch, counts it down, waits until it is open, and deletes it.
///
/// A latch is a counter in the store. `set N` creates it, each part of the work counts it down when it is done, and
/// `wait` returns when the count is 0. Then the latch is open, and can be set again. On Redis it is the RCountDownLatch
/// of Redisson with this name.
///
/// A latch that does not exist is open. So set the latch before another process waits for it. A latch has no ttl: if a
/// part of the work dies before it has counted down, the latch stays closed. So give `wait` a --timeout.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Output: `down` and `count` print the count. `set`, `wait` and `delete` print nothing.

Fields of --json: name, count (after the operation), open (whether the count is 0), store; with `set` also set \
(whether this command has set the latch); with `delete` also deleted (whether the latch existed).

Exit codes: 0 done; 75 `set`: the latch exists, and is unchanged; `wait`: the latch was not open within --timeout; \
64 wrong name, number or URL; 69 the store does not answer or does not exist; 77 the store refuses the request, or the \
name belongs to a lock.

Examples:
  bandog latch import set 3                    before the three parts start
  ./import-part 1 && bandog latch import down  in each part
  bandog latch import wait --timeout 1h && ./publish
  bandog latch import count
  bandog latch import down 3                   open it by hand
  bandog latch import delete                   the same, whatever its count is")]
pub(crate) struct Args {
    /// The latch's name; write a name that begins with `-` after `--`.
    name: String,
    /// The action on the latch.
    #[arg(value_enum)]
    action: Action,
    /// With `set` the count; with `down` the number to subtract [default: 1].
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 53))]
    number: Option<u64>,
    /// With `wait`, how long to wait, for the store too; 0s checks once. Without this option there is no limit, but if
    /// the store has not answered within 5s, the command ends with 69.
    #[arg(long, value_name = "DUR", value_parser = durations::wait, allow_hyphen_values = true)]
    timeout: Option<Duration>,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Create the latch with the count N, unless it exists.
    Set,
    /// Subtract N from the count.
    Down,
    /// Wait until the latch is open.
    Wait,
    /// Print the count.
    Count,
    /// Delete the latch, which opens it.
    Delete,
}

/// The arguments of an action, which belong together.
enum Operation {
    Set(u64),
    Down(u64),
    Wait(Option<Duration>),
    Count,
    Delete,
}

impl Args {
    /// Checks which arguments belong to the action.
    fn operation(&self) -> Result<Operation, Fault> {
        let Self { action, number, timeout, .. } = self;
        if timeout.is_some() && *action != Action::Wait {
            return Err(Fault::usage("--timeout belongs to `wait`: bandog latch NAME wait --timeout DUR"));
        }
        match (action, number) {
            (Action::Set, Some(count)) => Ok(Operation::Set(*count)),
            (Action::Set, None) => Err(Fault::usage("`set` needs the count: bandog latch NAME set N")),
            (Action::Down, number) => Ok(Operation::Down(number.unwrap_or(1))),
            (Action::Wait, None) => Ok(Operation::Wait(*timeout)),
            (Action::Count, None) => Ok(Operation::Count),
            (Action::Delete, None) => Ok(Operation::Delete),
            (Action::Wait | Action::Count | Action::Delete, Some(_)) => {
                Err(Fault::usage("`wait`, `count` and `delete` take no number: bandog latch NAME wait --timeout DUR"))
            }
        }
    }
}

/// The result of a command.
#[derive(Debug, Serialize)]
struct Report<'a> {
    name: &'a str,
    count: u64,
    open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<bool>,
    store: String,
}

/// The result of an operation.
#[derive(Debug, Default)]
struct Applied {
    /// The count after the operation.
    count: u64,
    /// Whether `set` has set the latch. None for other operations.
    set: Option<bool>,
    /// Whether `delete` has found the latch. None for other operations.
    deleted: Option<bool>,
}

/// Applies the operation. Wrong arguments are reported before any I/O.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let operation = args.operation()?;
    let store = Store::of(&args.store)?;
    Key::new(&args.name).map_err(|error| store.fault(&error))?;
    let Applied { count, set, deleted } = runtime::block_on(async {
        let began = Instant::now();
        let connected = match operation {
            // The time limit of the wait includes the connection. A wait of 0s is one request, with its own timeout.
            Operation::Wait(Some(limit)) if !limit.is_zero() => {
                match timeout(limit, store.connect_existing_until(began + limit)).await {
                    Ok(connected) => connected?,
                    Err(_) => return Err(no_answer(&store, limit)),
                }
            }
            Operation::Set(_) | Operation::Down(_) | Operation::Wait(_) | Operation::Count | Operation::Delete => {
                connect(&store, &operation).await?
            }
        };
        let Some(client) = connected else {
            console::report(&format!("{} was never used, so all its latches are open", store.redacted()));
            let deleted = matches!(operation, Operation::Delete).then_some(false);
            return Ok(Applied { deleted, ..Applied::default() });
        };
        let applied = apply(&client.latch(&args.name), &operation, began).await;
        applied.map_err(|error| fault(&store, &error, args))
    })?;
    let Args { name, format, .. } = args;
    let report = Report { name, count, open: count == 0, set, deleted, store: store.redacted() };
    if format.json {
        print::done(print::json(&report))?;
    } else if matches!(operation, Operation::Down(_) | Operation::Count) {
        print::done(writeln!(io::stdout(), "{count}"))?;
    }
    match operation {
        Operation::Set(_) if set == Some(false) => Err(Fault::new(
            ExitCode::Busy,
            format!(
                "{name:?} in {} exists, and its count is {count}; it can be set again when it is open",
                report.store
            ),
        )),
        Operation::Wait(_) if count > 0 => {
            Err(Fault::new(ExitCode::Busy, format!("{name:?} in {} is not open: its count is {count}", report.store)))
        }
        Operation::Set(_) | Operation::Down(_) | Operation::Wait(_) | Operation::Count | Operation::Delete => {
            Ok(ExitCode::Done)
        }
    }
}

/// Connects to the store. Only `set` creates a file that does not exist. None if the default file does not exist, so
/// that all its latches are open.
async fn connect(store: &Store, operation: &Operation) -> Result<Option<Client>, Fault> {
    match operation {
        Operation::Set(_) => {
            let client = store.client(store.options()?)?;
            client.ready().await.map_err(|error| store.fault(&error))?;
            Ok(Some(client))
        }
        Operation::Down(_) | Operation::Wait(_) | Operation::Count | Operation::Delete => {
            store.connect_existing().await
        }
    }
}

/// Applies the operation.
///
/// `began`: the start of the command, from which the time limit of a wait counts.
async fn apply(latch: &Latch, operation: &Operation, began: Instant) -> bandog::Result<Applied> {
    let (mut set, mut deleted) = (None, None);
    let count = match operation {
        Operation::Set(count) => {
            let is_set = latch.set(*count).await?;
            set = Some(is_set);
            if is_set { *count } else { latch.count().await? }
        }
        Operation::Down(number) => latch.count_down_by(*number).await?,
        Operation::Wait(None) => {
            latch.wait().await?;
            0
        }
        Operation::Wait(Some(limit))
            if until_answered(began + *limit, async |rest| latch.wait_for(rest).await).await? =>
        {
            0
        }
        Operation::Wait(Some(_)) | Operation::Count => latch.count().await?,
        Operation::Delete => {
            deleted = Some(latch.delete().await?);
            0
        }
    };
    Ok(Applied { count, set, deleted })
}

/// The error if the store did not answer within the time limit of a wait.
fn no_answer(store: &Store, limit: Duration) -> Fault {
    store.fault(&Error::unavailable(format!("the store did not answer within {}", humantime::format_duration(limit))))
}

/// The error of an operation. If it might have been applied, the message says so.
fn fault(store: &Store, error: &Error, args: &Args) -> Fault {
    let fault = store.fault(error);
    if !error.maybe_applied() || !matches!(args.action, Action::Set | Action::Down | Action::Delete) {
        return fault;
    }
    let advice = format!("the operation may have been applied: check with `bandog latch {} count`", args.name);
    Fault::new(error.kind().into(), format!("{fault}\n  {advice}"))
}
