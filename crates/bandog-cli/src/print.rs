//! Prints results on standard output. All other messages go to standard error.

use std::io::{self, Write};

use serde::Serialize;

use crate::{exit_code::ExitCode, fault::Fault};

/// The output format of queries.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Format {
    /// Print one JSON object per line, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints a text.
pub(crate) fn bytes(text: &[u8]) -> Result<ExitCode, Fault> {
    let mut out = io::stdout().lock();
    done(out.write_all(text).and_then(|()| out.flush()))
}

/// Prints a text as a line.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Prints one object as a line.
pub(crate) fn json(object: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, object)?;
    writeln!(out)
}

/// Whether the program was started with a closed standard output. The standard library replaces it by `/dev/null`, which is
/// open for reading, too. A shell opens `/dev/null` for writing only.
pub(crate) fn is_closed() -> bool {
    let out = io::stdout();
    let (Ok(own), Ok(null)) = (rustix::fs::fstat(&out), rustix::fs::stat("/dev/null")) else { return false };
    let is_for_reading = rustix::fs::fcntl_getfl(&out).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::RDWR));
    own.st_rdev == null.st_rdev && is_for_reading
}

/// The exit code of a command that has printed its result. `result` says whether the printing succeeded.
pub(crate) fn done(result: io::Result<()>) -> Result<ExitCode, Fault> {
    match result {
        // If standard output is a pipe, its reader is allowed to close it early, as `head` does.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Fault::system("cannot print", error)),
        Ok(()) | Err(_) => Ok(ExitCode::Done),
    }
}
