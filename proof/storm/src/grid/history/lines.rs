//! The lines of the history.

use std::{fmt, str::FromStr};

use super::call::{Heard, How, Object, Op};
use crate::{
    calls::read,
    history::{CallId, Nanos},
};

/// What a subscriber got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::grid) struct HeardEvent {
    pub(in crate::grid) subscription: CallId,
    pub(in crate::grid) at: Nanos,
    pub(in crate::grid) object: Object,
    pub(in crate::grid) heard: Heard,
}

impl fmt::Display for HeardEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subscription, at, object, heard } = self;
        write!(f, "heard {subscription} {at} {object} {heard}")
    }
}

impl FromStr for HeardEvent {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let ["heard", subscription, at, object, ref heard @ ..] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(());
        };
        let heard = match heard {
            ["subscribed"] => Heard::Subscribed,
            ["message", publisher, number] => Heard::Message { publisher: read(publisher)?, number: read(number)? },
            ["gap"] => Heard::Gap,
            ["deaf"] => Heard::Deaf,
            _ => return Err(()),
        };
        Ok(Self { subscription: read(subscription)?, at: read(at)?, object: read(object)?, heard })
    }
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

impl FromStr for Op {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        parse_op(&text.split(' ').collect::<Vec<_>>())
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
