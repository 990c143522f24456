//! The lines of a worker for the process that has started it.

use std::io::{self, Write};

/// Prints a line.
pub(crate) fn print_line(line: &str) {
    // The parent process might have ended.
    let _ = writeln!(io::stdout().lock(), "{line}");
}
