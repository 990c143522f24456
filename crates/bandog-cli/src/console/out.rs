//! Writes to standard error.

use std::io::{Write, stderr};

/// Writes a text to standard error. An error is ignored: if standard error is closed, the command continues without
/// messages.
pub(super) fn print(text: &str) {
    let mut out = stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
