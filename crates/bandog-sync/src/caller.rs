//! The task or thread of a call that waits for a lock.

use std::{
    fmt,
    thread::{self, ThreadId},
};

use tokio::task;

/// A task, or a thread outside tasks. Branches of one `join!` are one task, and so are all futures that one `block_on`
/// polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Task(task::Id),
    Thread(ThreadId),
}

impl Caller {
    /// The task that is being polled on this thread, or else the thread.
    pub(crate) fn present() -> Self {
        task::try_id().map_or_else(|| Self::Thread(thread::current().id()), Self::Task)
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Task(_) => "task",
            Self::Thread(_) => "thread",
        })
    }
}
