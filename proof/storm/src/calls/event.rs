//! The lines of the history.

use serde::{Deserialize, Serialize};

use super::{call::Words, outcome::Outcome};
use crate::history::{CallId, Nanos};

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", bound = "")]
pub(crate) enum Event<W: Words> {
    /// A call begins.
    Began { call: CallId, at: Nanos, task: u32, object: W::Object, op: W::Op, limit: Nanos },
    /// A call has ended.
    Ended { call: CallId, at: Nanos, outcome: Outcome },
    /// The runtime of the client is ended.
    Killed { at: Nanos },
    /// The process could not run, because of the machine or its disk.
    Stalled { from: Nanos, to: Nanos },
    /// A task has blocked the runtime of the client.
    Blocked { from: Nanos, to: Nanos },
    /// A line that only this kind of traffic has.
    Other(W::Other),
}

#[cfg(test)]
impl<W: Words> Event<W> {
    /// Asserts that the event is read as it was written.
    #[track_caller]
    pub(crate) fn is_read_as_written(self) {
        let line = serde_json::to_string(&self).unwrap();
        assert_eq!(serde_json::from_str::<Self>(&line).ok(), Some(self), "{line}");
    }
}
