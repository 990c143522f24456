//! Answers of the store, and notifications.
//!
//! The board is a record whose version changes whenever nodes have to read something. Its text is the era: a random
//! name of the store's data, which is another one after the store has lost its data. The news is a record that names
//! the jobs that have changed. A session is a renewed lock that proves that a node lives.

use std::time::Duration;

use bandog_core::{Holding, Moment, Reading, Result, Swaps, Version};
use bandog_sync::Guard;

use super::entry::JobId;
use crate::nodes::NodeInfos;

/// `sent` is the time before the call. It bounds the error of the store's time in the answer.
pub(super) enum StoreEvent {
    Swapped {
        jobs: Vec<JobId>,
        sent: Moment,
        result: Result<Swaps>,
    },
    /// The board, the pauses, and whether sessions are held.
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
    /// The board and the news record.
    NewsRead {
        sent: Moment,
        result: Result<Reading>,
    },
    /// The other nodes. This node has registered itself.
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
    /// The version that this node knew when it sent the call.
    pub(super) known: Option<Version>,
}

/// An event of one of this node's sessions.
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
