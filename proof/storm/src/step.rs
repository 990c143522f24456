//! Calls for latches and barriers, as the history records them.

use std::{fmt, str::FromStr};

/// The step of a call on a latch or a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sets a latch to this count, if it is open.
    Set(u64),
    /// Subtracts this number from the count of a latch.
    CountDown(u64),
    /// Deletes a latch, which opens it.
    Delete,
    /// Asks for the count of a latch.
    Count,
    /// Waits until a latch is open.
    Wait,
    /// Waits at a barrier until as many parties wait as the barrier has.
    Meet,
}

/// The result of such a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The latch was set or deleted, or is open.
    Yes,
    /// The latch exists already, does not exist, or is not open.
    No,
    /// The count of the latch.
    Count(u64),
    /// The barrier has opened, and this party was the last one to arrive.
    Leader,
    /// The barrier has opened for this party.
    Passed,
    /// The store did not answer in time.
    Unavailable,
    /// The future of the call was dropped.
    Cancelled,
    /// The party lost its place at the barrier, so it is unknown whether it was counted.
    Lost,
    /// An error that a correct call must never get.
    Refused,
}

impl Step {
    /// The name of the method, for people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Set(_) => "set",
            Self::CountDown(_) => "count-down",
            Self::Delete => "delete",
            Self::Count => "count",
            Self::Wait => "wait",
            Self::Meet => "meet",
        }
    }
}

impl Reply {
    /// Whether the call had an answer of the store. If not, its operation might be applied later.
    pub(crate) fn is_sure(self) -> bool {
        match self {
            Self::Yes | Self::No | Self::Count(_) | Self::Leader | Self::Passed => true,
            Self::Unavailable | Self::Cancelled | Self::Lost | Self::Refused => false,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(number) | Self::CountDown(number) => write!(f, "{}={number}", self.word()),
            Self::Delete | Self::Count | Self::Wait | Self::Meet => f.write_str(self.word()),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("not a step: {text:?}");
        Ok(match text.split_once('=') {
            Some(("set", number)) => Self::Set(number.parse().map_err(|_| unknown())?),
            Some(("count-down", number)) => Self::CountDown(number.parse().map_err(|_| unknown())?),
            Some(_) => return Err(unknown()),
            None => *[Self::Delete, Self::Count, Self::Wait, Self::Meet]
                .iter()
                .find(|step| step.word() == text)
                .ok_or_else(unknown)?,
        })
    }
}

const REPLIES: [(Reply, &str); 8] = [
    (Reply::Yes, "yes"),
    (Reply::No, "no"),
    (Reply::Leader, "leader"),
    (Reply::Passed, "passed"),
    (Reply::Unavailable, "unavailable"),
    (Reply::Cancelled, "cancelled"),
    (Reply::Lost, "lost"),
    (Reply::Refused, "refused"),
];

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            reply => f.write_str(REPLIES.iter().find(|(other, _)| other == reply).map_or("", |(_, word)| word)),
        }
    }
}

impl FromStr for Reply {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let word = REPLIES.iter().find(|(_, word)| *word == text).map(|(reply, _)| *reply);
        word.or_else(|| text.parse().ok().map(Self::Count)).ok_or_else(|| format!("not a reply: {text:?}"))
    }
}
