//! The outcome of a call, as the history records it.

use bandog::{Error, ErrorKind};

use crate::{history::Outcome, share::Share};

/// The outcome that the history records for this error of a call for this share of a lock.
pub(super) fn outcome(error: &Error, share: Share) -> Outcome {
    match error.kind() {
        ErrorKind::Unavailable => Outcome::Unavailable,
        ErrorKind::NotReplicated => Outcome::NotReplicated,
        ErrorKind::Lost => Outcome::Lost,
        ErrorKind::Closed => Outcome::Closed,
        ErrorKind::Misused if share.permits() > 0 => Outcome::OtherLimit,
        _ => {
            eprintln!("storm: {error}");
            Outcome::Refused
        }
    }
}
