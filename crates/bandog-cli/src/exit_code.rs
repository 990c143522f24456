//! Exit codes: the child's own code, or a code of the C header sysexits.h, so that scripts can distinguish errors.

use std::process;

use bandog::ErrorKind;

/// The command's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitCode {
    /// 0: success.
    Done,
    /// 1: `doctor` found a danger for locks.
    Endangered,
    /// 1: `torture` found a broken promise.
    Broken,
    /// 1: the run of `jobs run --wait` did not succeed, or an element is dead.
    Failed,
    /// The child's own code. If the child could not be started, the code is 126 or 127.
    Child(u8),
    /// The code that the user has set with `-E` or `--lost-exit`.
    Chosen(u8),
    /// 128 + N: signal N ended the child, or signal N ended bandog itself.
    Signal(i32),
    /// 64 (`EX_USAGE`): a wrong command line, name, duration or URL.
    Usage,
    /// 69 (`EX_UNAVAILABLE`): the store does not answer.
    Unavailable,
    /// 70 (`EX_SOFTWARE`): bandog itself failed.
    Internal,
    /// 71 (`EX_OSERR`): the operating system refused a process, a thread, a file or a signal handler.
    System,
    /// 75 (`EX_TEMPFAIL`): another client holds the lock, or the wait was part of a deadlock. For `bandog release`: no
    /// client holds the lock. For `bandog queue`: no element has changed.
    Busy,
    /// 76 (`EX_PROTOCOL`): the lock was lost while the child ran, or bandog terminated the child because the lock was
    /// about to be lost.
    Lost,
    /// 77 (`EX_NOPERM`): the store refuses the password, the user lacks a right, or the key holds other data.
    Denied,
}

impl ExitCode {
    /// The exit code as a number.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Endangered | Self::Broken | Self::Failed => 1,
            Self::Child(code) | Self::Chosen(code) => code,
            Self::Signal(number) => 128u8.wrapping_add(number.to_le_bytes()[0]),
            Self::Usage => 64,
            Self::Unavailable => 69,
            Self::Internal => 70,
            Self::System => 71,
            Self::Busy => 75,
            Self::Lost => 76,
            Self::Denied => 77,
        }
    }
}

impl From<ErrorKind> for ExitCode {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Misused | ErrorKind::Unsupported => Self::Usage,
            ErrorKind::Unavailable | ErrorKind::NotReplicated => Self::Unavailable,
            ErrorKind::Lost => Self::Lost,
            ErrorKind::Deadlock | ErrorKind::Overloaded => Self::Busy,
            // A retry does not help: a right is missing, or the key holds other data.
            ErrorKind::Denied | ErrorKind::Corrupt => Self::Denied,
            // A later version of `ErrorKind` can have kinds that this code does not know.
            ErrorKind::Closed | _ => Self::Internal,
        }
    }
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        code.number().into()
    }
}
