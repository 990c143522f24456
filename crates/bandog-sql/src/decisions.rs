//! The decisions of the statements for mutexes.

use std::time::Duration;

use bandog_core::{Answer, Claim, Error, ErrorKind, Fence, Fences, Verdict};

use crate::{fault::Fault, row::Row};

/// The result of a statement for one step.
#[derive(Debug)]
pub(crate) enum Decision {
    Answer(Answer),
    /// The statement has changed nothing: the lock is more than a mutex without a queue, has no row, or another transaction
    /// has locked its row.
    Complex,
}

/// The results of claims or releases, and the failure of a statement. The results of other statements count even so.
pub(crate) struct Decided {
    pub(crate) decisions: Vec<Option<Decision>>,
    pub(crate) failed: Option<Fault>,
}

impl Decided {
    /// No step is decided.
    pub(crate) fn nothing(steps: usize) -> Self {
        Self { decisions: (0..steps).map(|_| None).collect(), failed: None }
    }
}

/// The result of a claim that is granted with this last fence.
pub(crate) fn granted(row: &Row, last_fence: i64, claim: &Claim) -> Result<Decision, Fault> {
    let last = Fence::new(u64::try_from(last_fence).map_err(|_| strange(row))?);
    let fences = Fences::ending(last, claim.fences);
    let verdict = Verdict::Granted { fences, valid_for: claim.ttl, followers: Vec::new() };
    Ok(Decision::Answer(Answer::Claimed(verdict)))
}

/// A duration in microseconds, the resolution of the database. The ttl of a lease is a year at most.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// The error for a row that no statement of bandog returns.
pub(crate) fn strange(row: &Row) -> Fault {
    let message = format!("the database has returned an unexpected row of {} columns", row.len());
    Fault::Described(Error::new(ErrorKind::Corrupt, message))
}
