//! Errors that stop the demo.

use std::{fmt, io};

use crate::{exit_code::ExitCode, fault};

/// The reason why there is no result.
#[derive(Debug)]
pub(super) enum DemoFault {
    /// An error of the scheduler's store, and the URL of this store.
    Store(bandog::Error, String),
    /// An error of the shop's database.
    Shop(rusqlite::Error),
    /// The failed action, and the error of the operating system.
    System(&'static str, io::Error),
    /// Arguments that cannot be combined.
    Usage(String),
    /// The demo did not have the expected result. The values are the exit code and the message.
    Unexpected(ExitCode, String),
}

impl fmt::Display for DemoFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error, _) => write!(f, "the scheduler's store: {error}"),
            Self::Shop(error) => write!(f, "the shop's database: {error}"),
            Self::System(what, error) => write!(f, "{what}: {error}"),
            Self::Usage(message) | Self::Unexpected(_, message) => f.write_str(message),
        }
    }
}

impl From<bandog::Error> for DemoFault {
    fn from(error: bandog::Error) -> Self {
        // A replica shows no URL.
        Self::Store(error, String::new())
    }
}

impl From<rusqlite::Error> for DemoFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Shop(error)
    }
}

impl From<DemoFault> for fault::Fault {
    fn from(fault: DemoFault) -> Self {
        match fault {
            DemoFault::Store(error, store) => Self::of(&error, &store),
            DemoFault::Shop(error) => Self::system("the shop's database", error),
            DemoFault::System(what, error) => Self::system(what, error),
            DemoFault::Usage(message) => Self::usage(message),
            DemoFault::Unexpected(code, message) => Self::new(code, message),
        }
    }
}
