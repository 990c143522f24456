//! The process to which a client belongs. A fork copies the memory of a process and none of its other threads, so the
//! copy of a client has no engine.

use std::process;

use bandog_core::{Error, ErrorKind, Result};

/// The process in which a client, or the turn of one of its locks, began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HomeProcess(u32);

impl HomeProcess {
    pub(crate) fn current() -> Self {
        Self(process::id())
    }

    /// Whether the caller runs in a child that was forked from that process.
    pub(crate) fn was_left(self) -> bool {
        self.0 != process::id()
    }

    /// Returns an error in such a child.
    pub(crate) fn check(self) -> Result<()> {
        if !self.was_left() {
            return Ok(());
        }
        let message = format!(
            "the client belongs to process {}, and this is process {}, which was forked from it without the client's \
             engine and its connections; connect again after the fork",
            self.0,
            process::id()
        );
        Err(Error::new(ErrorKind::Closed, message))
    }
}
