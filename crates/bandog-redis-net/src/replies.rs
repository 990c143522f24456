//! The replies to the commands of one call.

use bandog_core::{Error, Result};
use redis::Value;

/// The replies to the commands of one call, in the order of the commands.
#[derive(Debug, Default)]
pub struct Replies {
    values: Vec<Value>,
    /// The commands without a reply: their positions, in rising order, and the errors. Their values are nil.
    faults: Vec<(usize, Error)>,
}

impl Replies {
    /// The replies of a server that has answered all commands.
    pub fn from_values(values: Vec<Value>) -> Self {
        Self { values, faults: Vec::new() }
    }

    /// Replies, or errors for some commands.
    pub(crate) fn new(each: impl IntoIterator<Item = Result<Value>>) -> Self {
        let mut replies = Self::default();
        for (at, reply) in each.into_iter().enumerate() {
            replies.values.push(reply.unwrap_or_else(|error| {
                replies.faults.push((at, error));
                Value::Nil
            }));
        }
        replies
    }

    /// The replies.
    ///
    /// # Errors
    /// The error of the first command without a reply.
    pub fn into_values(self) -> Result<Vec<Value>> {
        match self.faults.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(self.values),
        }
    }
}

impl IntoIterator for Replies {
    type Item = Result<Value>;
    type IntoIter = EachReply;

    fn into_iter(self) -> EachReply {
        EachReply { values: self.values.into_iter().enumerate(), faults: self.faults.into_iter().peekable() }
    }
}

/// One reply or error for each command.
#[derive(Debug)]
pub struct EachReply {
    values: std::iter::Enumerate<std::vec::IntoIter<Value>>,
    faults: std::iter::Peekable<std::vec::IntoIter<(usize, Error)>>,
}

impl Iterator for EachReply {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Result<Value>> {
        let (at, value) = self.values.next()?;
        match self.faults.next_if(|(fault, _)| *fault == at) {
            Some((_, error)) => Some(Err(error)),
            None => Some(Ok(value)),
        }
    }
}
