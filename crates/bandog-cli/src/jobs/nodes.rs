//! `bandog jobs nodes`: the schedulers that run over a store, and the pauses.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use bandog::schedule::{NodeRow, Paused, Pauses};
use serde::Serialize;

use super::{
    client::{Common, JobsClient},
    words::{self, Clock, TableRow},
};
use crate::{
    console::{escaped, report},
    exit_code::ExitCode,
    fault::Fault,
    print,
    store::Store,
};

/// Lists the schedulers that run over a store, and the nodes that are paused.
///
/// `bandog jobs ls` marks the jobs that none of them has. A killed scheduler is listed until its lease expires.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: nodes (an array: node, program, since, zones: the version of its \
time-zone table, paused: null, or by, reason, at), pauses (all: null or the pause \
of all jobs; nodes: an object of the pauses of nodes, also of nodes that do not run). Times are RFC 3339 in UTC.

Exit codes: 0 also if no scheduler runs; 64 wrong URL; 69 the store does not answer or does not exist; 77 the store \
refuses the request, or its file is damaged.

Examples:
  bandog jobs nodes
  bandog jobs nodes --json | jq -r '.nodes[].node'")]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
}

#[derive(Default, Serialize)]
struct Object {
    nodes: Vec<NodeRow>,
    pauses: Pauses,
}

/// Prints the nodes and the pauses. Changes nothing.
pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.common.store)?;
    let answer = JobsClient::query(&store, async |client| {
        let nodes = client.jobs.nodes().await.map_err(|error| client.fault(&error))?;
        Ok((Object { nodes, pauses: client.pauses().await? }, client.now().await?))
    })?;
    let Some((object, now)) = answer else { return JobsClient::print_unused(&store, &args.common, &Object::default()) };
    if args.common.json {
        return print::done(print::json(&object));
    }
    let Object { nodes, pauses } = object;
    let clock = Clock::new(now, None);
    let heads =
        [Some(format!("in {}; {}", store.redacted(), count(&nodes))), pauses.all.as_ref().map(words::all_paused)];
    let absent = pauses.nodes.iter().filter(|(name, paused)| is_absent(name, paused, &nodes));
    let absent = absent.map(|(name, paused)| format!("no node {} runs now: {}", escaped(name), words::paused(paused)));
    let lines: Vec<String> = heads.into_iter().flatten().chain(zones_warning(&nodes)).chain(absent).collect();
    print::done(writeln!(io::stdout(), "{}", lines.join("\n")))?;
    let rows: Vec<TableRow<5>> = nodes.iter().map(|node| line(node, &clock)).collect();
    print::done(if rows.is_empty() { Ok(()) } else { words::table(["NODE", "PROGRAM", "UP", "ZONES", "STATE"], &rows) })
}

/// The number of schedulers, as the end of a message.
fn count(nodes: &[NodeRow]) -> String {
    match nodes.len() {
        0 => "no scheduler runs over it now, so no job runs".into(),
        1 => "1 scheduler runs".into(),
        many => format!("{many} schedulers run"),
    }
}

/// A warning if nodes have different time-zone tables. Such nodes might compute different ticks.
fn zones_warning(nodes: &[NodeRow]) -> Option<String> {
    let zones: BTreeSet<String> = nodes.iter().filter_map(|node| node.zones.as_deref()).map(escaped).collect();
    let all = zones.iter().cloned().collect::<Vec<_>>().join(", ");
    (zones.len() > 1)
        .then(|| format!("time-zone tables of {all}: in zones whose rules differ, nodes might compute different ticks"))
}

/// Whether the pause `paused` applies to no running node. `name` is the name of the node or of the machine that is
/// paused.
fn is_absent(name: &str, paused: &Paused, nodes: &[NodeRow]) -> bool {
    !nodes.iter().any(|node| is_called(node, name) && node.paused.as_ref() == Some(paused))
}

/// Whether `name` is the name of this node, or the name of the machine on which this node runs.
fn is_called(node: &NodeRow, name: &str) -> bool {
    node.node == name || node.node.rsplit_once(':').is_some_and(|(host, _)| host == name)
}

/// The table row of a node.
fn line(node: &NodeRow, clock: &Clock) -> TableRow<5> {
    let dash = || "-".to_owned();
    let cells = [
        escaped(&node.node),
        node.program.as_deref().map_or_else(dash, escaped),
        node.since.as_deref().map_or_else(dash, |since| clock.since(since)),
        node.zones.as_deref().map_or_else(dash, escaped),
        node.paused.as_ref().map_or_else(|| "claims".into(), words::paused),
    ];
    TableRow { cells, below: Vec::new() }
}

/// The schedulers that run now.
pub(super) enum Nodes {
    Known(Vec<NodeRow>),
    /// The schedulers could not be read, for example because the user has no right to read them.
    Hidden,
}

impl Nodes {
    /// Queries the schedulers.
    pub(super) async fn of(client: &JobsClient<'_>) -> Self {
        // A user with the right to change jobs might have no right to read locks.
        client.jobs.nodes().await.map_or(Self::Hidden, Self::Known)
    }

    /// Whether it is known that no scheduler runs.
    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::Known(nodes) if nodes.is_empty())
    }

    /// The schedulers as text.
    pub(super) fn text(&self) -> String {
        let Self::Known(nodes) = self else { return "the schedulers cannot be read".into() };
        let names: Vec<String> = nodes.iter().map(|node| escaped(&node.node)).collect();
        match &names[..] {
            [] => "no scheduler runs over it now, so no job runs".into(),
            [one] => format!("1 scheduler runs: {one}"),
            some => format!("{} schedulers run: {}", some.len(), some.join(", ")),
        }
    }

    /// Warns on standard error if no scheduler runs. `consequence` is the second half of the message.
    pub(super) fn warn(&self, consequence: &str) {
        if self.is_none() {
            report(&format!("no scheduler runs over this store now: {consequence}"));
        }
    }

    /// Warns on standard error if no scheduler has this name. The user might have mistyped the name. `consequence` is
    /// the middle part of the message.
    pub(super) fn warn_of(&self, name: &str, consequence: &str) {
        if matches!(self, Self::Known(nodes) if !nodes.iter().any(|node| is_called(node, name))) {
            let advice = "`bandog jobs nodes` lists the running ones";
            report(&format!("no scheduler of the name {} runs now: {consequence}; {advice}", escaped(name)));
        }
    }

    /// The schedulers for JSON. None if they could not be read.
    pub(super) fn known(&self) -> Option<&[NodeRow]> {
        match self {
            Self::Known(nodes) => Some(nodes),
            Self::Hidden => None,
        }
    }
}
