//! The lines of the history.

use std::{fmt, str::FromStr};

use bandog::work::Phase;

use super::words::{End, How, Note, Op, Queue};
use crate::calls::read;

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(number) => write!(f, "plain.{number}"),
            Self::Limited => f.write_str("limited.0"),
            Self::Rated => f.write_str("rated.0"),
        }
    }
}

impl FromStr for Queue {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|queue| queue.to_string() == text).ok_or(())
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Push { value, key, once, parts } => write!(f, "push {value} {key} {once} {parts}"),
            Self::Remove(element) => write!(f, "remove {element}"),
            Self::Retry(element) => write!(f, "retry {element}"),
            Self::RetryAll => f.write_str("retry-all"),
            Self::Pause => f.write_str("pause"),
            Self::Resume => f.write_str("resume"),
            Self::Limit(elements) => write!(f, "limit {elements}"),
            Self::Rate(deliveries) => write!(f, "rate {deliveries}"),
            Self::Status => f.write_str("status"),
            Self::List(phase) => write!(f, "list {}", phase.as_str()),
            Self::Stop => f.write_str("stop"),
            Self::Settle { handling, how } => write!(f, "{} {handling}", word(&HOWS, *how)),
        }
    }
}

impl FromStr for Op {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text.split(' ').collect::<Vec<_>>()[..] {
            ["push", value, key, once, parts] => {
                Self::Push { value: read(value)?, key: read(key)?, once: read(once)?, parts: read(parts)? }
            }
            ["remove", element] => Self::Remove(read(element)?),
            ["retry", element] => Self::Retry(read(element)?),
            ["retry-all"] => Self::RetryAll,
            ["pause"] => Self::Pause,
            ["resume"] => Self::Resume,
            ["limit", elements] => Self::Limit(read(elements)?),
            ["rate", deliveries] => Self::Rate(read(deliveries)?),
            ["status"] => Self::Status,
            ["list", word] => Self::List(phase(word)?),
            ["stop"] => Self::Stop,
            [how, handling] => Self::Settle { handling: read(handling)?, how: value(&HOWS, how)? },
            _ => return Err(()),
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun { handling, at, queue, element, value, fence, attempt, until } => {
                write!(f, "begun {handling} {at} {queue} {element} {value} {fence} {attempt} {until}")
            }
            Self::Held { handling, until } => write!(f, "held {handling} {until}"),
            Self::Left { handling, at, end: End::Settles(how) } => {
                write!(f, "left {handling} {at} settles {}", word(&HOWS, *how))
            }
            Self::Left { handling, at, end } => write!(f, "left {handling} {at} {}", word(&ENDS, *end)),
            Self::There { queue, element, phase, attempt } => {
                write!(f, "there {queue} {element} {} {attempt}", phase.as_str())
            }
        }
    }
}

impl FromStr for Note {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        Ok(match line.split(' ').collect::<Vec<_>>()[..] {
            ["begun", handling, at, queue, element, value, fence, attempt, until] => Self::Begun {
                handling: read(handling)?,
                at: read(at)?,
                queue: read(queue)?,
                element: read(element)?,
                value: read(value)?,
                fence: read(fence)?,
                attempt: read(attempt)?,
                until: read(until)?,
            },
            ["held", handling, until] => Self::Held { handling: read(handling)?, until: read(until)? },
            ["left", handling, at, ref end @ ..] => {
                let end = match *end {
                    ["settles", how] => End::Settles(value(&HOWS, how)?),
                    [end] => value(&ENDS, end)?,
                    _ => return Err(()),
                };
                Self::Left { handling: read(handling)?, at: read(at)?, end }
            }
            ["there", queue, element, word, attempt] => {
                let phase = phase(word)?;
                Self::There { queue: read(queue)?, element: read(element)?, phase, attempt: read(attempt)? }
            }
            _ => return Err(()),
        })
    }
}

const HOWS: [(How, &str); 4] =
    [(How::Done, "done"), (How::Retry, "again"), (How::Fail, "fail"), (How::HandBack, "hand-back")];

const ENDS: [(End, &str); 4] =
    [(End::Ok, "ok"), (End::Error, "error"), (End::Panic, "panic"), (End::Dropped, "dropped")];

fn word<T: Copy + PartialEq>(words: &[(T, &'static str)], value: T) -> &'static str {
    words.iter().find(|(other, _)| *other == value).map_or("", |(_, word)| word)
}

fn value<T: Copy>(words: &[(T, &str)], word: &str) -> Result<T, ()> {
    words.iter().find(|(_, other)| *other == word).map(|(value, _)| *value).ok_or(())
}

fn phase(word: &str) -> Result<Phase, ()> {
    Phase::IN_QUEUE.into_iter().find(|phase| phase.as_str() == word).ok_or(())
}
