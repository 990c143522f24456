//! The question before what cannot be undone.

use std::io::{IsTerminal, Write, stderr, stdin};

use super::Desk;
use crate::fault::Fault;

/// Asks the person at the terminal. `verb` is what would be done, as in "forget it" and "--yes forgets it"; `kept` is what
/// is said when the answer is no.
pub(super) fn confirm((verb, does): (&str, &str), what: &str, kept: &str, desk: &Desk<'_>) -> Result<(), Fault> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(Fault::usage(format!("--yes {does} {what}; without a terminal nobody can be asked")));
    }
    let question = format!("{verb} {what} in {}? [y/N] ", desk.store.shown());
    let mut answer = String::new();
    let asked = write!(stderr(), "bandog: {question}").and_then(|()| stdin().read_line(&mut answer));
    asked.map_err(|error| Fault::system("cannot ask", error))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Fault::usage(kept)),
    }
}
