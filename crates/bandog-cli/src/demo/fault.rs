//! What can keep the demo from being played to its end.

use std::{fmt, io};

use crate::{exit_code::ExitCode, fault};

/// Why there is nothing to tell.
#[derive(Debug)]
pub(super) enum Fault {
    /// The scheduler's store, and where it is.
    Store(bandog::Error, String),
    /// The shop's database.
    Shop(rusqlite::Error),
    /// Something of the system's, and what it was needed for.
    System(&'static str, io::Error),
    /// Arguments that do not go together.
    Usage(String),
    /// The story did not come out as told.
    Story(ExitCode, String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error, _) => write!(f, "the scheduler's store: {error}"),
            Self::Shop(error) => write!(f, "the shop's database: {error}"),
            Self::System(what, error) => write!(f, "{what}: {error}"),
            Self::Usage(message) | Self::Story(_, message) => f.write_str(message),
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Shop(error)
    }
}

impl From<Fault> for fault::Fault {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Store(error, store) => Self::of(&error, &store),
            Fault::Shop(error) => Self::system("the shop's database", error),
            Fault::System(what, error) => Self::system(what, error),
            Fault::Usage(message) => Self::usage(message),
            Fault::Story(code, message) => Self::new(code, message),
        }
    }
}
