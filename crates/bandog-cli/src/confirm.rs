//! The confirmation before an action that cannot be undone.

use std::io::{IsTerminal, Write, stderr, stdin};

use crate::{fault::Fault, store::Store};

/// Asks for a confirmation at the terminal. `verb` and `does` are two forms of the action's verb, such as "forget" and
/// "forgets". `what` is the object of the verb. `kept` is the text of the error if the answer is no.
pub(crate) fn confirm((verb, does): (&str, &str), what: &str, kept: &str, store: &Store) -> Result<(), Fault> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(Fault::usage(format!("--yes {does} {what}; without a terminal it cannot be confirmed")));
    }
    let question = format!("{verb} {what} in {}? [y/N] ", store.redacted());
    let mut answer = String::new();
    let asked = write!(stderr(), "bandog: {question}").and_then(|()| stdin().read_line(&mut answer));
    asked.map_err(|error| Fault::system("cannot ask for the confirmation", error))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Fault::usage(kept)),
    }
}
