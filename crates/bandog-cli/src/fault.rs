//! Errors of the command.

use std::fmt;

use bandog::{Error, ErrorKind};

use crate::{console::report, exit_code::ExitCode};

/// The words of a database that has no connection for the user.
const NO_CONNECTION: &str = "there is no free connection";
/// The advice for a user that lacks a right.
const DOCTOR: &str = "\n  run `bandog doctor` with the same URL: it names the rights for locks and jobs that the user lacks (those for \
                      objects: docs/grid.md, \"Rights\")";

/// Whether the store has answered that it has no connection for this user.
pub(crate) fn has_no_connection(error: &Error) -> bool {
    error.to_string().contains(NO_CONNECTION)
}

/// A message and an exit code.
#[derive(Debug)]
pub(crate) struct Fault {
    code: ExitCode,
    message: String,
}

impl Fault {
    pub(crate) fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The error for a wrong command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }

    /// The operating system refused an operation. `what` is the failed operation.
    pub(crate) fn system(what: &str, cause: impl std::fmt::Display) -> Self {
        Self::new(ExitCode::System, format!("{what}: {cause}"))
    }

    /// An error that the library returned: an error of the store, or an error that the library found before it sent a
    /// request. `store` is the text that names the store.
    pub(crate) fn of(error: &Error, store: &str) -> Self {
        // Errors of files, of certificates and of names in use contain their own advice. So do errors of a store that has
        // answered, and cannot serve the lock now.
        let text = error.to_string();
        let with_advice = [
            "certificate",
            "in use as",
            "not a lock of this kind",
            "has no vote",
            "is moving",
            "has reached its memory limit",
            "is a read-only replica",
            "is busy with a script",
            "fewer replicas than it needs",
            "accepts no writes",
            NO_CONNECTION,
        ];
        let says_enough = store.starts_with("sqlite:") || with_advice.iter().any(|words| text.contains(words));
        let words_of_rights = ["lacks a right", "may not ", "NOPERM", "bandog schema --print"];
        let lacks_right = words_of_rights.iter().any(|words| text.contains(words));
        let advice = match error.kind() {
            _ if says_enough => "",
            ErrorKind::Denied if lacks_right => DOCTOR,
            kind => advice(kind),
        };
        Self::new(error.kind().into(), format!("{error}\n  store: {store}{advice}"))
    }

    /// The same error without the advice to run `bandog doctor`.
    pub(crate) fn of_doctor(self) -> Self {
        Self { message: self.message.replace(DOCTOR, advice(ErrorKind::Denied)), ..self }
    }

    /// The same error with the exit code that `change` returns for the present one.
    pub(crate) fn with_code(self, change: impl FnOnce(ExitCode) -> ExitCode) -> Self {
        Self { code: change(self.code), ..self }
    }

    /// The same error with a further line.
    pub(crate) fn with_line(self, line: &str) -> Self {
        Self { message: format!("{}\n  {line}", self.message), ..self }
    }

    /// The message's first line, without the store and the advice.
    pub(crate) fn in_short(&self) -> String {
        self.message.lines().next().unwrap_or_default().to_owned()
    }

    /// Prints the message and returns the code.
    pub(crate) fn report(self) -> ExitCode {
        report(&self.message);
        self.code
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The advice to the user about an error of this kind.
fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unavailable => {
            "\n  check that the store runs and can be reached from here, and check the address in --url or BANDOG_URL"
        }
        ErrorKind::Denied => {
            "\n  check the user, the password and the rights in the store, and on Redis whether the key belongs to another program"
        }
        ErrorKind::Corrupt => "\n  use another place in --url or BANDOG_URL, or move the present data away",
        _ => "",
    }
}
