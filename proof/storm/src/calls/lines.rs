//! The lines of the history.

use std::{fmt, str::FromStr};

use super::{call::Words, outcome::Outcome, parts::read};
use crate::history::{CallId, Nanos};

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event<W: Words> {
    /// A call begins.
    Began { call: CallId, at: Nanos, task: u32, object: W::Object, op: W::Op, limit: Nanos },
    /// A call has ended.
    Ended { call: CallId, at: Nanos, outcome: Outcome },
    /// The runtime of the client is ended.
    Killed { at: Nanos },
    /// The process could not run, because of the machine or of a task that blocks it.
    Stalled { from: Nanos, to: Nanos },
    /// A line that only this kind of traffic has.
    Other(W::Other),
}

impl<W: Words> fmt::Display for Event<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { call, at, task, object, op, limit } => {
                write!(f, "began {call} {at} {task} {object} {limit} {op}")
            }
            Self::Ended { call, at, outcome } => write!(f, "ended {call} {at} {outcome}"),
            Self::Killed { at } => write!(f, "killed {at}"),
            Self::Stalled { from, to } => write!(f, "stalled {from} {to}"),
            Self::Other(other) => other.fmt(f),
        }
    }
}

impl<W: Words> FromStr for Event<W> {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.splitn(7, ' ').collect();
        Ok(match words[..] {
            ["began", call, at, task, object, limit, op] => Self::Began {
                call: read(call)?,
                at: read(at)?,
                task: read(task)?,
                object: read(object)?,
                limit: read(limit)?,
                op: read(op)?,
            },
            ["ended", call, at, ref outcome @ ..] => {
                Self::Ended { call: read(call)?, at: read(at)?, outcome: read(&outcome.join(" "))? }
            }
            ["killed", at] => Self::Killed { at: read(at)? },
            ["stalled", from, to] => Self::Stalled { from: read(from)?, to: read(to)? },
            _ => Self::Other(read(line)?),
        })
    }
}
