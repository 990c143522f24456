//! Keys of the records and locks that nodes share, and the answer to a call about one of them.

use bandog_core::{Error, Key, Result};

/// Prefix of the keys of jobs' records.
pub(crate) const JOB_PREFIX: &str = "job/";
/// Prefix of the locks of nodes' sessions. A session is a renewed lock that proves that its node lives.
pub(crate) const SESSION_PREFIX: &str = "schedule/node/";
/// Maximum number of records or sessions in one call.
pub(crate) const BATCH: usize = 256;

/// The key of a job's record.
pub(crate) fn job_key(name: &str) -> Result<Key> {
    Key::new(format!("{JOB_PREFIX}{name}"))
}

/// The key of the board: a record whose version changes whenever the nodes have to read something.
pub(crate) fn board_key() -> Result<Key> {
    Key::new("schedule/board")
}

/// The answer to a call with one item.
pub(crate) fn single_answer<T>(answers: Vec<Result<T>>) -> Result<T> {
    let too_few = || Err(Error::unavailable("the store gave no answer").ambiguous());
    answers.into_iter().next().unwrap_or_else(too_few)
}
