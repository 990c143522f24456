//! The progress line of a run.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// The progress line. On a terminal, the line is rewritten. Elsewhere, a new line is printed at an interval.
pub(super) struct Progress {
    what: String,
    start: Instant,
    /// The time at which the line was last printed.
    shown: Instant,
    /// The interval at which the line is printed.
    every: Duration,
    terminal: bool,
}

impl Progress {
    /// `what`: the run, and its end.
    pub(super) fn new(what: String) -> Self {
        let terminal = io::stderr().is_terminal();
        let every = Duration::from_secs(if terminal { 1 } else { 30 });
        let start = Instant::now();
        Self { what, start, shown: start, every, terminal }
    }

    /// Prints the line if the interval has passed. `done` is the number of ended calls.
    pub(super) fn show(&mut self, done: u64, faults: usize) {
        if self.shown.elapsed() < self.every {
            return;
        }
        self.shown = Instant::now();
        let (begin, end) = if self.terminal { ("\r", "\x1b[K") } else { ("", "\n") };
        let (what, seconds) = (&self.what, self.start.elapsed().as_secs());
        let mut stderr = io::stderr().lock();
        // An error is ignored, because the line is for information only.
        let _ = write!(stderr, "{begin}{what}: {done} calls, {faults} faults, {seconds} s{end}");
        let _ = stderr.flush();
    }

    /// Removes the line from the terminal.
    pub(super) fn end(&self) {
        if self.terminal {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
