//! `bandog jobs nodes`: who runs jobs over the store, as far as it is known.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use bandog::schedule::{NodeRow, Paused, Pauses};
use serde::Serialize;

use super::{
    Common, Desk,
    words::{self, Clock, Line},
};
use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print,
    store::Store,
    voice::{say, shown},
};

/// Lists the schedulers that run over a store, and the nodes that are paused.
///
/// Which jobs each of them has, the store does not know. One that was killed counts until its lease has ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: nodes (an array: node, program, since, zones: the version of its \
time-zone table, paused: null, or by, reason, at), pauses (all: null or the pause \
of all jobs; nodes: an object of the pauses of nodes, whether they run or not). Times are RFC 3339 in UTC.

Exit codes: 0 whether there are any or not; 64 wrong URL; 69 the store does not answer or is not there; 77 it refuses, \
or the file is damaged.

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

/// Looks, and changes nothing.
pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.common.store)?;
    let seen = Desk::seen(&store, async |desk| {
        let nodes = desk.jobs.nodes().await.map_err(|error| desk.fault(&error))?;
        Ok((Object { nodes, pauses: desk.pauses().await? }, desk.now().await?))
    })?;
    let Some((object, now)) = seen else { return Desk::unused(&store, &args.common, &Object::default()) };
    if args.common.json {
        return print::done(print::json(&object));
    }
    let Object { nodes, pauses } = object;
    let clock = Clock::new(now, None);
    let heads = [Some(format!("in {}; {}", store.shown(), count(&nodes))), pauses.all.as_ref().map(words::all_paused)];
    let absent = pauses.nodes.iter().filter(|(name, paused)| is_absent(name, paused, &nodes));
    let absent = absent.map(|(name, paused)| format!("no node {} runs now: {}", shown(name), words::paused(paused)));
    let lines: Vec<String> = heads.into_iter().flatten().chain(differ(&nodes)).chain(absent).collect();
    print::done(writeln!(io::stdout(), "{}", lines.join("\n")))?;
    let rows: Vec<Line<5>> = nodes.iter().map(|node| line(node, &clock)).collect();
    print::done(if rows.is_empty() { Ok(()) } else { words::table(["NODE", "PROGRAM", "UP", "ZONES", "STATE"], &rows) })
}

fn count(nodes: &[NodeRow]) -> String {
    match nodes.len() {
        0 => "no scheduler runs over it now, so no job does".into(),
        1 => "1 scheduler runs".into(),
        many => format!("{many} schedulers run"),
    }
}

/// Says that nodes may find different ticks.
fn differ(nodes: &[NodeRow]) -> Option<String> {
    let zones: BTreeSet<String> = nodes.iter().filter_map(|node| node.zones.as_deref()).map(shown).collect();
    let all = zones.iter().cloned().collect::<Vec<_>>().join(", ");
    (zones.len() > 1).then(|| format!("time zones of {all}: in zones that have changed nodes may find different ticks"))
}

/// Whether a pause is none that a node which runs shows.
fn is_absent(name: &str, paused: &Paused, nodes: &[NodeRow]) -> bool {
    !nodes.iter().any(|node| is_called(node, name) && node.paused.as_ref() == Some(paused))
}

/// Whether a pause of this name is a pause of this node.
fn is_called(node: &NodeRow, name: &str) -> bool {
    node.node == name || node.node.rsplit_once(':').is_some_and(|(host, _)| host == name)
}

fn line(node: &NodeRow, clock: &Clock) -> Line<5> {
    let dash = || "-".to_owned();
    let cells = [
        shown(&node.node),
        node.program.as_deref().map_or_else(dash, shown),
        node.since.as_deref().map_or_else(dash, |since| clock.since(since)),
        node.zones.as_deref().map_or_else(dash, shown),
        node.paused.as_ref().map_or_else(|| "claims".into(), words::paused),
    ];
    Line { cells, below: Vec::new() }
}

/// The schedulers that run. Which jobs each of them has, the store does not know.
pub(super) enum Nodes {
    Known(Vec<NodeRow>),
    /// The store does not let us look.
    Hidden,
}

impl Nodes {
    pub(super) async fn of(desk: &Desk<'_>) -> Self {
        // Who only says a word need not have the right to look at locks.
        desk.jobs.nodes().await.map_or(Self::Hidden, Self::Known)
    }

    /// Whether it is known that nobody runs anything.
    pub(super) fn is_nobody(&self) -> bool {
        matches!(self, Self::Known(nodes) if nodes.is_empty())
    }

    /// Who runs, in words.
    pub(super) fn told(&self) -> String {
        let Self::Known(nodes) = self else { return "which schedulers run cannot be seen".into() };
        let names: Vec<String> = nodes.iter().map(|node| shown(&node.node)).collect();
        match &names[..] {
            [] => "no scheduler runs over it now, so no job does".into(),
            [one] => format!("1 scheduler runs: {one}"),
            some => format!("{} schedulers run: {}", some.len(), some.join(", ")),
        }
    }

    /// Says on standard error that nobody is there, and what follows.
    pub(super) fn warn(&self, follows: &str) {
        if self.is_nobody() {
            say(&format!("no scheduler runs over this store now: {follows}"));
        }
    }

    /// Says on standard error that nobody has this name, and what follows: it may be mistyped.
    pub(super) fn warn_of(&self, name: &str, follows: &str) {
        if matches!(self, Self::Known(nodes) if !nodes.iter().any(|node| is_called(node, name))) {
            let look = "`bandog jobs nodes` lists those that run";
            say(&format!("no scheduler of the name {} runs now: {follows}; {look}", shown(name)));
        }
    }

    /// For JSON: none if it cannot be seen.
    pub(super) fn known(&self) -> Option<&[NodeRow]> {
        match self {
            Self::Known(nodes) => Some(nodes),
            Self::Hidden => None,
        }
    }
}
