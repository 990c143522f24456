//! `bandog queue`: shows and changes one work queue.

pub(crate) mod element;
mod limit;
pub(crate) mod open;
pub(crate) mod status;

use std::io;

use bandog::work::{ElementId, Phase};
use bandog_page::{ElementJson, QueueJson};
use clap::{Subcommand, ValueEnum};
use futures_util::{StreamExt, TryStreamExt};
use serde::Serialize;

use self::open::{Queue, never_used, with_existing};
use crate::{
    confirm::confirm,
    console::report,
    exit_code::ExitCode,
    fault::Fault,
    print,
    store::{self, Store},
};

/// Shows and changes one work queue: its elements, its dead elements, its limits.
///
/// `bandog queues` lists all queues, `bandog push` adds elements, and `bandog work` runs a command for each.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
    0  done; `ls` and `dead` also if there is no element
   64  wrong name, id, number or URL, or a store without work queues
   69  the store does not answer, or does not exist
   75  `retry`, `remove`: no element with these ids could be changed
   77  the store refuses the request

Examples:
  bandog queue mails show                         counts, limits and workers
  bandog queue mails ls --phase delayed           those that wait for their time
  bandog queue mails dead                         those that have failed for good, with the error
  bandog queue mails retry --all                  deliver them again
  bandog queue mails remove a3f09b1c2d4e5f60-2a   also stops a command that works on it
  bandog queue mails pause                        and later: bandog queue mails resume
  bandog queue mails limit --concurrency 4 --rate 100/1m")]
pub(crate) struct Args {
    /// The name of the queue.
    name: String,
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    store: store::Args,
    /// Print JSON, one object per line, for programs.
    #[arg(long, global = true)]
    json: bool,
}

/// The words for phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PhaseName {
    Ready,
    Delayed,
    Blocked,
    Taken,
    Dead,
}

impl From<PhaseName> for Phase {
    fn from(name: PhaseName) -> Self {
        match name {
            PhaseName::Ready => Self::Ready,
            PhaseName::Delayed => Self::Delayed,
            PhaseName::Blocked => Self::Blocked,
            PhaseName::Taken => Self::Taken,
            PhaseName::Dead => Self::Dead,
        }
    }
}

/// The maximum number of elements that are printed.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Most {
    /// Print at most this number of elements.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Prints the counts, the settings and the workers.
    ///
    /// Fields of --json: as of `bandog queues`.
    Show,
    /// Prints elements in the order in which they are delivered.
    ///
    /// Fields of --json: id, phase, age_ms (since the push), left_ms (delayed: until it is ready; taken: the rest of its
    /// lease), priority, key, attempt (the number of deliveries), fence, worker, headers, payload (null if it is not UTF-8),
    /// payload_hex
    /// (null if it is UTF-8), error (of the last attempt), progress, cancelled, outcome.
    Ls {
        /// The phase of the elements [default: all phases but dead].
        #[arg(long, value_enum)]
        phase: Option<PhaseName>,
        #[command(flatten)]
        most: Most,
    },
    /// Prints the elements that have failed for good, with their last error.
    ///
    /// Fields of --json: as of `ls`.
    Dead {
        #[command(flatten)]
        most: Most,
    },
    /// Makes dead elements ready again, with no attempts.
    ///
    /// Fields of --json: name, retried (the number of elements), store.
    Retry {
        /// The ids of dead elements.
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<ElementId>,
        /// All dead elements.
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
    /// Removes elements. A command that works on one of them is ended.
    ///
    /// Fields of --json: name, removed (the number of elements), store.
    Remove {
        /// The ids of the elements.
        #[arg(value_name = "ID", required = true)]
        ids: Vec<ElementId>,
    },
    /// Removes all elements in a phase. Those that a worker has taken are removed by their ids only.
    ///
    /// Fields of --json: name, removed (the number of elements), store.
    Purge {
        /// The phase: ready, delayed, blocked or dead.
        #[arg(value_enum)]
        phase: PhaseName,
        /// Do not ask for a confirmation.
        #[arg(long)]
        yes: bool,
    },
    /// Delivers no element until `resume`. Workers finish those that they have.
    Pause,
    /// Ends a pause.
    Resume,
    Limit(limit::Args),
}

/// The result of a change.
#[derive(Debug, Serialize)]
struct Changed<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retried: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<u64>,
    store: &'a str,
}

/// Prints or changes. Wrong arguments are reported before any I/O.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    let call = Call { name: &args.name, json: args.json, store: &store };
    match &args.verb {
        Verb::Show => call.show(async |_| Ok(())),
        Verb::Ls { phase, most } => {
            let all = [PhaseName::Taken, PhaseName::Ready, PhaseName::Delayed, PhaseName::Blocked];
            call.list(phase.as_ref().map_or(&all, std::slice::from_ref), *most)
        }
        Verb::Dead { most } => call.list(&[PhaseName::Dead], *most),
        Verb::Retry { all: true, .. } => call.retry(async |queue| queue.retry_all().await, None),
        Verb::Retry { ids, .. } => call.retry(async |queue| queue.retry(ids).await, Some(ids.len())),
        Verb::Remove { ids } => call.remove(async |queue| queue.remove(ids).await, Some(ids.len())),
        Verb::Purge { phase: PhaseName::Taken, .. } => {
            let text =
                "elements that are taken cannot be purged; remove them by their ids: bandog queue NAME remove ID";
            Err(Fault::usage(text))
        }
        Verb::Purge { phase, yes } => {
            let phase = Phase::from(*phase);
            if !yes {
                let what = format!("all {} elements of {:?}", phase.as_str(), args.name);
                confirm(("remove", "removes"), &what, "nothing was removed", &store)?;
            }
            call.remove(async |queue| queue.purge(phase).await, None)
        }
        Verb::Pause => call.show(async |queue| pause(queue, &args.name).await),
        Verb::Resume => call.show(async |queue| queue.resume().await),
        Verb::Limit(limit) => call.show(async |queue| limit.apply(queue).await),
    }
}

/// Pauses a queue. A queue without elements and workers may have a wrong name.
async fn pause(queue: &Queue, name: &str) -> bandog::Result<()> {
    queue.pause().await?;
    let Ok(status) = queue.status().await else { return Ok(()) };
    if status.counts.values().all(|count| *count == 0) && status.workers.is_empty() {
        report(&format!(
            "{name:?} has no elements and no workers yet; if the name is wrong, end the pause by `resume`"
        ));
    }
    Ok(())
}

/// A queue, and how results are printed.
struct Call<'a> {
    name: &'a str,
    json: bool,
    store: &'a Store,
}

impl Call<'_> {
    /// Changes the queue, and prints its state.
    fn show(&self, change: impl AsyncFnOnce(&Queue) -> bandog::Result<()>) -> Result<ExitCode, Fault> {
        let status = with_existing(self.store, self.name, async |queue| {
            change(&queue).await?;
            queue.status().await
        })?;
        let status = status.ok_or_else(|| never_used(self.store, self.name))?;
        let shown = self.store.redacted();
        let text = || {
            print::line(&format!("in {}", self.store.described()))?;
            let queue = [(self.name.to_owned(), status.clone())];
            status::table(&queue).and_then(|()| status::workers(&status.workers))
        };
        let json = || print::json(&QueueJson::new(self.name, &status, &shown));
        print::done(if self.json { json() } else { text() })
    }

    /// Prints the elements in these phases.
    fn list(&self, phases: &[PhaseName], most: Most) -> Result<ExitCode, Fault> {
        let found = with_existing(self.store, self.name, async |queue| {
            let mut found = Vec::new();
            let mut left = most.limit as usize;
            for phase in phases.iter().copied().map(Phase::from) {
                let rows: Vec<_> = queue.elements(phase).take(left).try_collect().await?;
                left -= rows.len();
                found.push((phase, rows));
            }
            Ok(found)
        })?;
        let found = found.unwrap_or_default();
        let json = || {
            let mut rows = found.iter().flat_map(|(_, rows)| rows);
            rows.try_for_each(|row| print::json(&ElementJson::new(row)))
        };
        let text = || {
            print::line(&format!("in {}", self.store.described()))?;
            if found.iter().all(|(_, rows)| rows.is_empty()) {
                return print::line(&format!("no elements in {}", crate::console::escaped(self.name)));
            }
            for (phase, rows) in found.iter().filter(|(_, rows)| !rows.is_empty()) {
                print::line(&format!("{}:", phase.as_str()))?;
                element::table(rows, *phase)?;
            }
            io::Result::Ok(())
        };
        print::done(if self.json { json() } else { text() })
    }

    fn retry(
        &self,
        change: impl AsyncFnOnce(&Queue) -> bandog::Result<u64>,
        given: Option<usize>,
    ) -> Result<ExitCode, Fault> {
        let number = self.change(change)?;
        let object = Changed { name: self.name, retried: Some(number), removed: None, store: &self.store.redacted() };
        self.changed(&object, number, given, ("are ready again", "is dead, so none is delivered again"))
    }

    fn remove(
        &self,
        change: impl AsyncFnOnce(&Queue) -> bandog::Result<u64>,
        given: Option<usize>,
    ) -> Result<ExitCode, Fault> {
        let number = self.change(change)?;
        let object = Changed { name: self.name, retried: None, removed: Some(number), store: &self.store.redacted() };
        self.changed(&object, number, given, ("are removed", "is in the queue, so none is removed"))
    }

    fn change(&self, change: impl AsyncFnOnce(&Queue) -> bandog::Result<u64>) -> Result<u64, Fault> {
        let changed = with_existing(self.store, self.name, async |queue| change(&queue).await)?;
        changed.ok_or_else(|| never_used(self.store, self.name))
    }

    /// Prints the result of a change. `given`: the number of ids that were given.
    fn changed(
        &self,
        object: &Changed<'_>,
        number: u64,
        given: Option<usize>,
        (some, none): (&str, &str),
    ) -> Result<ExitCode, Fault> {
        let of = given.map_or(String::new(), |given| format!(" of {given}"));
        let printed = if self.json {
            print::json(object)
        } else {
            print::line(&format!("{number}{of} elements of {} {some}", crate::console::escaped(self.name)))
        };
        print::done(printed)?;
        if given.is_some() && number == 0 {
            report(&format!("no element with these ids {none}"));
            return Ok(ExitCode::Busy);
        }
        Ok(ExitCode::Done)
    }
}
