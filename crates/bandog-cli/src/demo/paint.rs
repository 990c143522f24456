//! Colours and terminals.

use std::{env, io::IsTerminal, os::fd::AsFd};

/// Whether to use colours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint(bool);

impl Paint {
    /// Uses colours on a terminal, unless `NO_COLOR` is set.
    pub(super) fn on(stream: &impl IsTerminal) -> Self {
        let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self(can_move(stream) && !unwanted)
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(super) fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(super) fn red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub(super) fn green(self, text: &str) -> String {
        self.with("1;32", text)
    }

    pub(super) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    /// The text with an ANSI colour code. If no colours are used, the text is not changed.
    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Whether the stream is a terminal that can move its cursor.
pub(super) fn can_move(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && env::var_os("TERM").is_some_and(|term| term != "dumb")
}

/// The present width of the terminal, or 0 if it is unknown.
pub(super) fn columns(stream: &impl AsFd) -> u16 {
    rustix::termios::tcgetwinsize(stream).map_or(0, |size| size.ws_col)
}
