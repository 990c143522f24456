//! Events that the dispatcher gets from the store: answers to calls, events of sessions, and notifications.
//!
//! The board is a record that gets a new version with each published change of jobs or pauses. The text of the board is
//! the era: a random id of the store's present data. If the store loses its data, a node creates a new board with a new
//! era, so a new era shows that the old data was lost. The news is a record that names the jobs that have changed. A
//! session is a renewed lock that proves that a node is alive.

use std::time::Duration;

use bandog_core::{Holding, Moment, Reading, Result, Swaps, Version};
use bandog_sync::Guard;

use super::entry::JobId;
use crate::nodes::NodeInfos;

/// An event from the store. `sent` is the time at which the call was sent. The answer contains the store's time. The
/// duration of the call limits the error of that time.
pub(super) enum StoreEvent {
    /// The answers to the swaps of these jobs' records.
    Swapped {
        jobs: Vec<JobId>,
        sent: Moment,
        result: Result<Swaps>,
    },
    /// The board, the record of pauses, and for each session in `holdings` whether it is held.
    Polled {
        sent: Moment,
        holdings: Vec<Holding>,
        result: Result<Reading>,
    },
    /// The board and the records of these jobs.
    JobsRead {
        jobs: Vec<ReadJob>,
        sent: Moment,
        result: Result<Reading>,
    },
    Session(SessionEvent),
    /// The publication of news has ended.
    NewsPublished(Result<()>),
    /// The record of pauses was written again.
    PausesWritten(Result<()>),
    /// The board and the news record.
    NewsRead {
        sent: Moment,
        result: Result<Reading>,
    },
    /// This node has registered itself. Contains the other nodes.
    NodeRegistered(Result<NodeInfos>),
    /// The era of the store's data.
    EraRead(Result<String>),
    /// A node or an operator has published news.
    Notified,
}

/// A job whose record is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadJob {
    pub(super) job: JobId,
    /// The version of the record that this node knew when it sent the call.
    pub(super) known: Option<Version>,
}

/// An event of one of this node's sessions. `Claimed`: a claim of a session has succeeded or failed. `Lost`: the
/// session has expired or was removed from the store. `lease`: the length of the session's lease.
pub(super) enum SessionEvent {
    Claimed {
        lease: Duration,
        result: Result<Guard>,
    },
    /// The session expires soon, unless a renewal succeeds.
    Expiring {
        lease: Duration,
        holding: Holding,
    },
    Lost {
        lease: Duration,
        holding: Holding,
    },
}
