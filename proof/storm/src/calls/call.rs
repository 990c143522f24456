//! A call, and the words that one kind of traffic has for its calls.

use std::{
    fmt::{self, Debug, Display},
    hash::Hash,
};

use serde::{Serialize, de::DeserializeOwned};

use super::outcome::Outcome;
use crate::history::{CallId, Nanos};

/// A value that is a part of a line of the history.
pub(crate) trait Word: Copy + Eq + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Copy + Eq + Debug + Serialize + DeserializeOwned + Send + Sync + 'static> Word for T {}

/// The words of one kind of traffic.
pub(crate) trait Words: Copy + Eq + Debug + Default + Send + Sync + 'static {
    /// What is called.
    type Object: Word + Ord + Hash;
    /// What a call does.
    type Op: Word;
    /// Whatever a client records besides its calls.
    type Other: Word;

    /// The group of calls in reports.
    fn label(object: Self::Object, op: Self::Op) -> String {
        format!("{} {}", word(&object), word(&op))
    }

    /// The object and the time of another line, if the report shows it beside a violation at this object.
    fn place(_: &Self::Other) -> Option<(Self::Object, Nanos)> {
        None
    }
}

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call<W: Words> {
    pub(crate) client: u32,
    pub(crate) id: CallId,
    pub(crate) task: u32,
    pub(crate) object: W::Object,
    pub(crate) op: W::Op,
    pub(crate) begin: Nanos,
    /// Maximum duration.
    pub(crate) limit: Nanos,
    /// The end, or the time at which the client was killed.
    pub(crate) end: Nanos,
    /// `None` if the client was killed before.
    pub(crate) outcome: Option<Outcome>,
}

impl<W: Words> Call<W> {
    /// Whether the store has confirmed the write.
    pub(crate) fn is_ok(&self) -> bool {
        self.outcome == Some(Outcome::Ok)
    }

    /// Whether the write may have been applied although it was not confirmed.
    pub(crate) fn is_unclear(&self) -> bool {
        self.outcome.is_none_or(Outcome::is_unclear)
    }
}

impl<W: Words> Display for Call<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, id, object, op, begin, end, outcome, .. } = self;
        write!(f, "call {id} of client {client} at {object:?}: {op:?} from {begin} to {end}: {outcome:?}")
    }
}

/// The word of a value in reports: the name of its variant, in small letters with hyphens.
pub(crate) fn word(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    let mut word = String::new();
    for letter in text.chars().take_while(|letter| letter.is_alphanumeric()) {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('-');
        }
        word.extend(letter.to_lowercase());
    }
    word
}
