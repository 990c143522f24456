//! The results of calls.

use std::{fmt, str::FromStr};

use bandog::{Error, ErrorKind, work::ElementId};

use super::parts::read;

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done, or true.
    Ok,
    /// No: nothing was there, or the value was another one.
    No,
    /// An element, a value, a sum or a number. For a swap that has found the value itself: this value.
    Found(u64),
    /// An element of a queue of the grid, with a lease.
    Taken { element: u64, fence: u64, delivery: u32 },
    /// An element of a work queue, which this push or an earlier one has added.
    Pushed { element: ElementId, is_new: bool },
    /// The lease of the element was over.
    Lost,
    /// An error. Nothing was applied.
    Refused,
    /// An error. The call may have been applied.
    Unclear,
    /// The future was dropped.
    Cancelled,
    /// The store has refused a command.
    Denied,
    /// An error that a correct call must never get.
    Broken,
}

/// The outcomes without numbers.
const OUTCOMES: [(Outcome, &str); 8] = [
    (Outcome::Ok, "ok"),
    (Outcome::No, "no"),
    (Outcome::Lost, "lost"),
    (Outcome::Refused, "refused"),
    (Outcome::Unclear, "unclear"),
    (Outcome::Cancelled, "cancelled"),
    (Outcome::Denied, "denied"),
    (Outcome::Broken, "broken"),
];

impl Outcome {
    /// The outcome of a call with this error.
    pub(crate) fn of(error: &Error) -> Self {
        match error.kind() {
            _ if error.maybe_applied() => Self::Unclear,
            ErrorKind::Unavailable | ErrorKind::Overloaded => Self::Refused,
            ErrorKind::Denied => Self::Denied,
            ErrorKind::Lost => Self::Lost,
            _ => Self::Broken,
        }
    }

    /// Whether a write with this outcome may have been applied, or may be applied later, without an answer.
    pub(crate) fn is_unclear(self) -> bool {
        matches!(self, Self::Unclear | Self::Cancelled | Self::Denied)
    }

    /// The word for reports.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Found(_) => "found",
            Self::Taken { .. } => "taken",
            Self::Pushed { .. } => "pushed",
            other => OUTCOMES.iter().find(|(outcome, _)| *outcome == other).map_or("", |(_, word)| word),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(number) => write!(f, "found {number}"),
            Self::Taken { element, fence, delivery } => write!(f, "taken {element} {fence} {delivery}"),
            Self::Pushed { element, is_new } => write!(f, "pushed {element} {is_new}"),
            other => f.write_str(other.word()),
        }
    }
}

impl FromStr for Outcome {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.split(' ').collect::<Vec<_>>()[..] {
            ["found", number] => Ok(Self::Found(read(number)?)),
            ["taken", element, fence, delivery] => {
                Ok(Self::Taken { element: read(element)?, fence: read(fence)?, delivery: read(delivery)? })
            }
            ["pushed", element, is_new] => Ok(Self::Pushed { element: read(element)?, is_new: read(is_new)? }),
            [word] => OUTCOMES.iter().find(|(_, other)| *other == word).map(|(outcome, _)| *outcome).ok_or(()),
            _ => Err(()),
        }
    }
}
