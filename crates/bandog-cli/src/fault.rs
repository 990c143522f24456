//! Why the command could not do what it was asked to.

use std::fmt;

use bandog::{Error, ErrorKind};

use crate::{exit_code::ExitCode, voice::say};

/// A message for people and a code for scripts.
#[derive(Debug)]
pub(crate) struct Fault {
    code: ExitCode,
    message: String,
}

impl Fault {
    pub(crate) fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }

    /// The machine refused something.
    pub(crate) fn system(what: &str, cause: impl std::fmt::Display) -> Self {
        Self::new(ExitCode::System, format!("{what}: {cause}"))
    }

    /// What this store, or the library before it asked the store, says.
    pub(crate) fn of(error: &Error, store: &str) -> Self {
        // Files and certificates have messages that say what to do.
        let says_enough = store.starts_with("sqlite:") || error.to_string().contains("certificate");
        let advice = if says_enough { "" } else { advice(error.kind()) };
        Self::new(error.kind().into(), format!("{error}\n  store: {store}{advice}"))
    }

    /// The message's first line, without the store and the advice.
    pub(crate) fn in_short(&self) -> String {
        self.message.lines().next().unwrap_or_default().to_owned()
    }

    /// Prints the message and gives the code.
    pub(crate) fn tell(self) -> ExitCode {
        say(&self.message);
        self.code
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unavailable => {
            "\n  check that it runs and can be reached from here, and the address in --url or BANDOG_URL"
        }
        ErrorKind::Denied => {
            "\n  check the user, the password and the rights in the store, and that the key is not another program's"
        }
        ErrorKind::Corrupt => "\n  name another place in --url or BANDOG_URL, or move away what lies there",
        _ => "",
    }
}
