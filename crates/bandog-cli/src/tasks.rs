//! `bandog tasks`: lists the tasks of executors, and shows one call.

use bandog::{
    Pattern,
    work::{ElementId, ElementRow, Outcome, Phase, QueueStatus},
};
use bandog_page::ElementJson;
use clap::Subcommand;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::{
    console::{escaped, report},
    exit_code::ExitCode,
    fault::Fault,
    print,
    queue::{element, open, status::columns},
    queues::{self, AT_ONCE},
    runtime,
    store::{self, Store},
};

/// Lists the tasks of executors: how many calls wait, run and are dead, and whether a program knows the task.
///
/// The calls of a task are elements of the work queue EXECUTOR/TASK, so `bandog queue EXECUTOR/TASK …` retries, removes,
/// limits and pauses them. Other queues with a / in their name are listed too: the store does not know the difference.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Columns, and fields of --json (one object per line):
  task        the name after the last /
  executor    the name before it
  queue       the name of the work queue
  ready       calls that can run now
  waiting     calls that become ready at a time, or after another one
  running     calls that run
  dead        calls that have failed for good
  unknown     ready calls of a task that no running program knows: they wait for one that does
  workers     the number of programs that know the task
  store
Programs report every 20 s that they know a task, and count as ended a minute after their last report.

Exit codes: 0 also if there is no task; 64 wrong URL or id, or a store without work queues; 69 the store does not answer or \
does not exist; 75 `show`: there is no such call; 77 the store refuses the request.

Examples:
  bandog tasks
  bandog tasks 'billing/*' --json | jq -r 'select(.unknown > 0) | .task'
  bandog tasks show a3f09b1c2d4e5f60-2a"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// A pattern of names EXECUTOR/TASK: * matches any text, ? matches one character, and \ escapes the next character.
    #[arg(default_value = "*", hide_default_value = true)]
    pattern: String,
    #[command(flatten)]
    store: store::Args,
    /// Print JSON, one object per line, for programs.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Prints one call, or its result as long as it is kept.
    ///
    /// Fields of --json: task, executor, queue, result (of a call that is done; null if it is not UTF-8), and those of
    /// `bandog queue NAME ls`.
    Show {
        /// The id of the call.
        id: ElementId,
    },
}

/// The state of a task as JSON. Scripts rely on the names of these fields.
#[derive(Debug, Serialize)]
struct TaskJson<'a> {
    #[serde(flatten)]
    name: TaskName<'a>,
    ready: u64,
    waiting: u64,
    running: u64,
    dead: u64,
    unknown: u64,
    workers: usize,
    store: &'a str,
}

/// The names of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct TaskName<'a> {
    task: &'a str,
    executor: &'a str,
    queue: &'a str,
}

/// A call as JSON. Scripts rely on the names of these fields.
#[derive(Debug, Serialize)]
struct CallJson<'a> {
    #[serde(flatten)]
    name: TaskName<'a>,
    result: Option<&'a str>,
    #[serde(flatten)]
    element: ElementJson<'a>,
}

/// Prints the tasks or a call. Changes nothing.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    match &args.verb {
        None => list(&Pattern::new(&args.pattern), args.json, &store),
        Some(Verb::Show { id }) => show(*id, args.json, &store),
    }
}

fn list(pattern: &Pattern, json: bool, store: &Store) -> Result<ExitCode, Fault> {
    let found = runtime::block_on_with_io(async {
        let Some(client) = store.connect_existing().await? else { return Ok(Vec::new()) };
        queues::statuses(&client, store, pattern, |name| TaskName::of(name).is_some()).await
    })?;
    let shown = store.redacted();
    let tasks: Vec<TaskJson<'_>> =
        found.iter().filter_map(|(queue, status)| TaskJson::new(queue, status, &shown)).collect();
    let text = || {
        print::line(&format!("in {}", store.described()))?;
        if tasks.is_empty() {
            return print::line("there is no task");
        }
        let heads = ["TASK", "EXECUTOR", "READY", "WAITING", "RUNNING", "DEAD", "UNKNOWN", "WORKERS"];
        columns(&[heads.map(String::from)].into_iter().chain(tasks.iter().map(TaskJson::cells)).collect::<Vec<_>>())
    };
    print::done(if json { tasks.iter().try_for_each(print::json) } else { text() })
}

fn show(id: ElementId, json: bool, store: &Store) -> Result<ExitCode, Fault> {
    let found = runtime::block_on_with_io(async {
        let Some(client) = store.connect_existing().await? else { return Ok(None) };
        let mut names = queues::names(&client, store, &Pattern::all()).await?;
        names.retain(|name| TaskName::of(name).is_some());
        let calls = stream::iter(names).map(async |name| {
            let found = open::queue(&client, &name, store)?.find(id).await;
            Ok::<_, Fault>(found.map_err(|error| store.fault(&error))?.map(|row| (name, row)))
        });
        let mut calls = std::pin::pin!(calls.buffered(AT_ONCE).try_filter_map(async |call| Ok(call)));
        calls.try_next().await
    })?;
    let Some((queue, row)) = found else {
        report(&format!("no task has a call {id}, and no result of it is kept"));
        return Ok(ExitCode::Busy);
    };
    print::done(if json { print::json(&CallJson::new(&queue, &row)) } else { print_call(&queue, &row, store) })
}

fn print_call(queue: &str, row: &ElementRow, store: &Store) -> std::io::Result<()> {
    print::line(&format!("in {}", store.described()))?;
    print::line(&format!("{} is {}", escaped(queue), row.phase.as_str()))?;
    match (row.phase, &row.outcome) {
        (Phase::Ended, Some(Outcome::Done(result))) => {
            print::line(&format!("its result is {}", escaped(&String::from_utf8_lossy(result))))
        }
        (Phase::Ended, Some(Outcome::Failed(error))) => print::line(&format!("it has failed: {}", escaped(error))),
        (Phase::Ended, Some(Outcome::Cancelled)) => print::line("it was cancelled"),
        _ => element::table(std::slice::from_ref(row), row.phase),
    }
}

impl<'a> TaskName<'a> {
    /// The names of a task, if the queue may be that of one.
    fn of(queue: &'a str) -> Option<Self> {
        let (executor, task) = queue.rsplit_once('/')?;
        let is_named = !executor.is_empty() && !task.is_empty();
        is_named.then_some(Self { task, executor, queue })
    }
}

impl<'a> TaskJson<'a> {
    fn new(queue: &'a str, status: &QueueStatus, store: &'a str) -> Option<Self> {
        let ready = status.count(Phase::Ready);
        Some(Self {
            name: TaskName::of(queue)?,
            ready,
            waiting: status.count(Phase::Delayed) + status.count(Phase::Blocked),
            running: status.count(Phase::Taken),
            dead: status.count(Phase::Dead),
            unknown: if status.workers.is_empty() { ready } else { 0 },
            workers: status.workers.len(),
            store,
        })
    }

    fn cells(&self) -> [String; 8] {
        let Self { name, ready, waiting, running, dead, unknown, workers, store: _ } = self;
        let number = |number: u64| if number == 0 { "-".to_owned() } else { number.to_string() };
        let [ready, waiting, running, dead, unknown] = [*ready, *waiting, *running, *dead, *unknown].map(number);
        let workers = number(*workers as u64);
        [escaped(name.task), escaped(name.executor), ready, waiting, running, dead, unknown, workers]
    }
}

impl<'a> CallJson<'a> {
    fn new(queue: &'a str, row: &'a ElementRow) -> Self {
        let name = TaskName::of(queue).unwrap_or(TaskName { task: queue, executor: "", queue });
        let result = match &row.outcome {
            Some(Outcome::Done(result)) => std::str::from_utf8(result).ok(),
            Some(Outcome::Failed(_) | Outcome::Cancelled) | None => None,
        };
        Self { name, result, element: ElementJson::new(row) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_task_is_after_the_last_slash() {
        let named = |executor, task, queue| Some(TaskName { task, executor, queue });
        assert_eq!(TaskName::of("billing/charge"), named("billing", "charge", "billing/charge"));
        assert_eq!(TaskName::of("eu/billing/charge"), named("eu/billing", "charge", "eu/billing/charge"));
        for queue in ["mails", "/mails", "mails/"] {
            assert_eq!(TaskName::of(queue), None);
        }
    }
}
