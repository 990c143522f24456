//! Keys of the records and locks that all nodes share, and the answer to a call about a single record or lock.

use bandog_core::{Error, Fence, Key, Result};

/// Prefix of the keys of jobs' records.
pub(crate) const JOB_PREFIX: &str = "job/";
/// Prefix of the locks of nodes' sessions. A session is a renewed lock that proves that its node is alive.
pub(crate) const SESSION_PREFIX: &str = "schedule/node/";
/// Maximum number of records or sessions in one call.
pub(crate) const BATCH: usize = 256;

/// The key of a job's record.
pub(crate) fn job_key(name: &str) -> Result<Key> {
    Key::new(format!("{JOB_PREFIX}{name}"))
}

/// The key of a record that says that a run was completed in a transaction of the user. The keys of one job are in the
/// order of the numbers, and have the same length. The tick distinguishes the runs of a job that was forgotten and
/// registered again.
pub(crate) fn completion_key(name: &str, run: u64, tick: i64) -> Result<Key> {
    Key::new(format!("schedule/done/{name}/{run:020}/{:020}", tick.max(0)))
}

/// A text that a job's record contains if and only if the run with this fence is under way. Lines of the history have
/// another field after the fence.
pub(crate) fn running_text(fence: Fence) -> String {
    format!("\"fence\":{fence},\"started\":")
}

/// The key of the board: a record that gets a new version with each published change of jobs or pauses. When nodes
/// notice the new version, they read the change.
pub(crate) fn board_key() -> Result<Key> {
    Key::new("schedule/board")
}

/// The single answer to a call that asks for one item.
pub(crate) fn single_answer<T>(answers: Vec<Result<T>>) -> Result<T> {
    let too_few = || Err(Error::unavailable("the store gave no answer").ambiguous());
    answers.into_iter().next().unwrap_or_else(too_few)
}
