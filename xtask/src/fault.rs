//! The error of a task: a message and an exit code.

use std::fmt;
use std::process::ExitCode;

/// Codes from sysexits, as in the `bandog` command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// A check or a test failed.
    Failed = 1,
    /// Something that the task needs is missing.
    Unavailable = 69,
}

#[derive(Debug)]
pub(crate) struct Fault {
    code: Code,
    message: String,
}

impl Fault {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { code: Code::Failed, message: message.into() }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { code: Code::Unavailable, message: message.into() }
    }

    /// Whether the task could not run because a program is missing.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.code == Code::Unavailable
    }

    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("xtask: {}", self.message);
        ExitCode::from(self.code as u8)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
