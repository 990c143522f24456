//! Identifies the task or thread that called `lock()`. With this value, the engine can warn about a task that waits for
//! a lock that the task itself holds.

use std::{
    fmt,
    thread::{self, ThreadId},
};

use tokio::task;

/// The task from which a call came, or the thread if the call came from no task. All branches of one `join!` count as
/// the same caller, and all futures that one `block_on` polls do so, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    Task(task::Id),
    Thread(ThreadId),
}

impl Caller {
    /// The task that this thread polls now. If this thread polls no task, the thread itself.
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
