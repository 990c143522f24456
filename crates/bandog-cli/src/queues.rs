//! `bandog queues`: lists the work queues of a store.

use bandog::{
    Client, Pattern,
    work::{ClientWork, QueueStatus},
};
use bandog_page::QueueJson;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print::{self, Format},
    queue::{open, status::table},
    runtime,
    store::{self, Store},
};

/// The number of queues that are read at the same time.
pub(crate) const AT_ONCE: usize = 8;

/// Lists the work queues: the number of their elements in each phase, the age of the oldest ready element, their workers and
/// their settings, sorted by name.
///
/// A queue exists from its first element or setting on. `bandog queue NAME ls` has the elements.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Columns, and fields of --json (one object per line):
  name
  ready       elements that can be delivered now
  delayed     those that become ready at a time: pushed with a delay, or failed and repeated later
  blocked     those that wait for another element: one with the same key, or their predecessors
  taken       those on which a worker works
  dead        those that have failed for good, and wait for `bandog queue NAME retry` or `remove`
  oldest_ms   the time for which the oldest ready element has been ready
  paused      whether nothing is delivered
  concurrency the maximum number of taken elements; null: no limit
  rate        deliveries per per_ms; null: no limit
  workers     id, place (host and process), slots, running, done and failed of each
  store
A store may stop to count at 100,000.

Exit codes: 0 also if there is no queue; 64 wrong URL, or a store without work queues; 69 the store does not answer or \
does not exist; 77 the store refuses the request.

Examples:
  bandog queues
  bandog queues 'mail*' --json | jq -r 'select(.dead > 0) | .name'")]
pub(crate) struct Args {
    /// A pattern of names: * matches any text, ? matches one character, and \ escapes the next character.
    #[arg(default_value = "*", hide_default_value = true)]
    pattern: String,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// Prints the queues. Changes nothing.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    let found = runtime::block_on_with_io(async {
        let Some(client) = store.connect_existing().await? else { return Ok(Vec::new()) };
        statuses(&client, &store, &Pattern::new(&args.pattern), |_| true).await
    })?;
    let shown = store.redacted();
    let json = || found.iter().try_for_each(|(name, status)| print::json(&QueueJson::new(name, status, &shown)));
    let text = || {
        print::line(&format!("in {}", store.described()))?;
        if found.is_empty() { print::line("there is no queue") } else { table(&found) }
    };
    print::done(if args.format.json { json() } else { text() })
}

/// The sorted names of the queues that match.
pub(crate) async fn names(client: &Client, store: &Store, pattern: &Pattern) -> Result<Vec<String>, Fault> {
    let fault = |error| store.fault(&error);
    let names = client.work_queues(pattern).map_err(fault)?;
    let mut names: Vec<String> = names.try_collect().await.map_err(fault)?;
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// The states of the queues that match, sorted by name.
pub(crate) async fn statuses(
    client: &Client,
    store: &Store,
    pattern: &Pattern,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(String, QueueStatus)>, Fault> {
    let mut names = names(client, store, pattern).await?;
    names.retain(|name| is_wanted(name));
    let statuses = stream::iter(names).map(async |name| {
        let status = open::queue(client, &name, store)?.status().await.map_err(|error| store.fault(&error))?;
        Ok::<_, Fault>((name, status))
    });
    statuses.buffered(AT_ONCE).try_collect().await
}
