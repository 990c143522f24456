//! What goes to standard output: only what was asked for.

use std::io::{self, Write};

use serde::Serialize;

use crate::{exit_code::ExitCode, fault::Fault};

/// How the commands that tell something print it.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Format {
    /// Print one JSON object a line, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints a text made before.
pub(crate) fn bytes(text: &[u8]) -> Result<ExitCode, Fault> {
    let mut out = io::stdout().lock();
    done(out.write_all(text).and_then(|()| out.flush()))
}

/// Prints one object and ends its line.
pub(crate) fn json(object: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, object)?;
    writeln!(out)
}

/// What follows from how the printing went.
pub(crate) fn done(result: io::Result<()>) -> Result<ExitCode, Fault> {
    match result {
        // A reader that has gone, as `head` does, has read enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Fault::system("cannot print", error)),
        Ok(()) | Err(_) => Ok(ExitCode::Done),
    }
}
