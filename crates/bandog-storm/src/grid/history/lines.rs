//! The lines of the history.

use std::{fmt, str::FromStr};

use super::call::{Heard, How, Object, Op, Outcome};
use crate::history::{CallId, Nanos};

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::grid) enum Event {
    /// A call begins.
    Began { call: CallId, at: Nanos, task: u32, object: Object, op: Op, limit: Nanos },
    /// A call has ended.
    Ended { call: CallId, at: Nanos, outcome: Outcome },
    /// A subscriber got something.
    Heard { subscription: CallId, at: Nanos, object: Object, heard: Heard },
    /// The runtime of the client is ended.
    Killed { at: Nanos },
    /// The process could not run, because of the machine.
    Stalled { from: Nanos, to: Nanos },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { call, at, task, object, op, limit } => {
                write!(f, "began {call} {at} {task} {object} {limit} {op}")
            }
            Self::Ended { call, at, outcome } => write!(f, "ended {call} {at} {outcome}"),
            Self::Heard { subscription, at, object, heard } => write!(f, "heard {subscription} {at} {object} {heard}"),
            Self::Killed { at } => write!(f, "killed {at}"),
            Self::Stalled { from, to } => write!(f, "stalled {from} {to}"),
        }
    }
}

impl FromStr for Event {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.split(' ').collect();
        Ok(match words[..] {
            ["began", call, at, task, object, limit, ref op @ ..] => Self::Began {
                call: read(call)?,
                at: read(at)?,
                task: read(task)?,
                object: object.parse()?,
                limit: read(limit)?,
                op: parse_op(op)?,
            },
            ["ended", call, at, ref outcome @ ..] => {
                Self::Ended { call: read(call)?, at: read(at)?, outcome: parse_outcome(outcome)? }
            }
            ["heard", subscription, at, object, ref heard @ ..] => Self::Heard {
                subscription: read(subscription)?,
                at: read(at)?,
                object: object.parse()?,
                heard: match heard {
                    ["subscribed"] => Heard::Subscribed,
                    ["message", publisher, number] => {
                        Heard::Message { publisher: read(publisher)?, number: read(number)? }
                    }
                    ["gap"] => Heard::Gap,
                    ["deaf"] => Heard::Deaf,
                    _ => return Err(()),
                },
            },
            ["killed", at] => Self::Killed { at: read(at)? },
            ["stalled", from, to] => Self::Stalled { from: read(from)?, to: read(to)? },
            _ => return Err(()),
        })
    }
}

fn read<T: FromStr>(word: &str) -> Result<T, ()> {
    word.parse().map_err(drop)
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Push(element) => write!(f, "push {element}"),
            Self::ExactPush(element) => write!(f, "exact-push {element}"),
            Self::Pop => f.write_str("pop"),
            Self::Take => f.write_str("take"),
            Self::Settle { of, how, held } => {
                let how = match how {
                    How::Done => "done",
                    How::Release => "release",
                    How::Drop => "drop",
                };
                write!(f, "settle {of} {how} {held}")
            }
            Self::Write { key, value } => write!(f, "write {key} {value}"),
            Self::Read { key } => write!(f, "read {key}"),
            Self::Swap { key, from: Some(from), to } => write!(f, "swap {key} {to} {from}"),
            Self::Swap { key, from: None, to } => write!(f, "swap {key} {to}"),
            Self::Add(number) => write!(f, "add {number}"),
            Self::Sum => f.write_str("sum"),
            Self::Next => f.write_str("next"),
            Self::Insert(item) => write!(f, "insert {item}"),
            Self::Contains(item) => write!(f, "contains {item}"),
            Self::Publish { publisher, number } => write!(f, "publish {publisher} {number}"),
        }
    }
}

fn parse_op(words: &[&str]) -> Result<Op, ()> {
    Ok(match *words {
        ["push", element] => Op::Push(read(element)?),
        ["exact-push", element] => Op::ExactPush(read(element)?),
        ["pop"] => Op::Pop,
        ["take"] => Op::Take,
        ["settle", of, how, held] => {
            let how = match how {
                "done" => How::Done,
                "release" => How::Release,
                "drop" => How::Drop,
                _ => return Err(()),
            };
            Op::Settle { of: read(of)?, how, held: read(held)? }
        }
        ["write", key, value] => Op::Write { key: read(key)?, value: read(value)? },
        ["read", key] => Op::Read { key: read(key)? },
        ["swap", key, to, from] => Op::Swap { key: read(key)?, from: Some(read(from)?), to: read(to)? },
        ["swap", key, to] => Op::Swap { key: read(key)?, from: None, to: read(to)? },
        ["add", number] => Op::Add(read(number)?),
        ["sum"] => Op::Sum,
        ["next"] => Op::Next,
        ["insert", item] => Op::Insert(read(item)?),
        ["contains", item] => Op::Contains(read(item)?),
        ["publish", publisher, number] => Op::Publish { publisher: read(publisher)?, number: read(number)? },
        _ => return Err(()),
    })
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(number) => write!(f, "found {number}"),
            Self::Taken { element, fence, delivery } => write!(f, "taken {element} {fence} {delivery}"),
            other => f.write_str(other.word()),
        }
    }
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
    /// The word for reports.
    pub(in crate::grid) fn word(self) -> &'static str {
        match self {
            Self::Found(_) => "found",
            Self::Taken { .. } => "taken",
            other => OUTCOMES.iter().find(|(outcome, _)| *outcome == other).map_or("", |(_, word)| word),
        }
    }
}

fn parse_outcome(words: &[&str]) -> Result<Outcome, ()> {
    match *words {
        ["found", number] => Ok(Outcome::Found(read(number)?)),
        ["taken", element, fence, delivery] => {
            Ok(Outcome::Taken { element: read(element)?, fence: read(fence)?, delivery: read(delivery)? })
        }
        [word] => OUTCOMES.iter().find(|(_, other)| *other == word).map(|(outcome, _)| *outcome).ok_or(()),
        _ => Err(()),
    }
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subscribed => f.write_str("subscribed"),
            Self::Message { publisher, number } => write!(f, "message {publisher} {number}"),
            Self::Gap => f.write_str("gap"),
            Self::Deaf => f.write_str("deaf"),
        }
    }
}
