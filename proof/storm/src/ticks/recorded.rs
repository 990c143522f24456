//! The runs that nodes record, and the history of a run of processes.

use serde::{Deserialize, Serialize};

use super::{
    history::{End, Harm, HarmKind, History, Life, Ms, Start, Tally, Terms},
    jobs,
};
use crate::{
    calls::{Outcome, Played, Recorded, Words},
    fault::{Fault, FaultKind},
};

/// The words of scheduled jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ticks;

impl Words for Ticks {
    type Object = Job;
    type Op = Op;
    type Other = ();
}

/// The job with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Job(pub(super) usize);

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Op {
    /// Runs the body of the job. `store` is the time of the start by the store's clock. The result is `Ok`, `No` if the body
    /// failed, `Cancelled` if it ended after it was cancelled, or `Lost` if its future was dropped.
    Run { tick: Ms, attempt: u32, id: u64, fence: u64, store: Ms },
}

/// The history of what the nodes have recorded.
pub(super) fn history(
    recorded: &Recorded<Ticks>,
    played: &Played,
    tallies: Vec<Tally>,
    left: usize,
    terms: Terms,
) -> History {
    let starts = recorded.calls.iter().map(|call| {
        let Op::Run { tick, attempt, id, fence, store } = call.op;
        let end = call.outcome.map(|outcome| {
            let end = match outcome {
                Outcome::Ok => End::Ok,
                Outcome::No => End::Failed,
                Outcome::Cancelled => End::Cancelled,
                _ => End::Dropped,
            };
            (call.end, end)
        });
        Start { job: call.object.0, tick, attempt, id, fence, node: call.client, at: call.begin, store, end }
    });
    let dismissed = |node: u32| {
        let mut orders = played.faults.iter().filter(|fault| fault.kind == FaultKind::Dismissed);
        let is_last = played.pool.workers.iter().any(|worker| worker.first == node);
        orders.find(|fault| fault.client == Some(node)).map(|fault| fault.from).or(is_last.then_some(played.stopped))
    };
    let lives = played.pool.lives.iter();
    let lives = lives.map(|life| (life.client, Life { killed: life.killed, asked: dismissed(life.client) }));
    let stalls = recorded.disturbances.stalls.iter();
    let starved = stalls.map(|(node, from, to)| Harm { kind: HarmKind::Starved, node: *node, from: *from, to: *to });
    History {
        jobs: (0..tallies.len()).map(jobs::declared).collect(),
        tallies,
        starts: starts.collect(),
        lives: lives.collect(),
        harms: recorded.disturbances.faults.iter().flat_map(harms).chain(starved).collect(),
        orphans: Vec::new(),
        left,
        terms,
    }
}

/// What a fault means for nodes.
fn harms(fault: &Fault) -> Vec<Harm> {
    let Fault { kind, from, to, client: node, .. } = *fault;
    let harm = |kind| vec![Harm { kind, node, from, to }];
    match kind {
        // These last until another node has replaced this one.
        FaultKind::Kill | FaultKind::KillInWrite => vec![Harm { kind: HarmKind::Kill, node, from, to: from }],
        FaultKind::Dismissed => vec![Harm { kind: HarmKind::Stop, node, from, to: from }],
        FaultKind::Stop => harm(HarmKind::Stall),
        // A stopped node that has SQLite's write lock blocks all nodes.
        FaultKind::StopInWrite => {
            vec![Harm { kind: HarmKind::Stall, node, from, to }, Harm { kind: HarmKind::Locked, node: None, from, to }]
        }
        FaultKind::TableLocked => harm(HarmKind::Locked),
        FaultKind::LogDeleted => harm(HarmKind::LogDeleted),
        FaultKind::Flushed => harm(HarmKind::Emptied),
        kind if kind.is_of_one_client() => harm(HarmKind::Cut),
        _ => harm(HarmKind::Store),
    }
}
