//! Ends the benchmark if one of its parts does not end.

use std::{
    process,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

/// The exit code after a part that did not end.
const HANGS: i32 = 70;

/// Receives the name of each part that begins. When it is dropped, the bench has ended in time.
pub(crate) struct Watchdog(Sender<&'static str>);

impl Watchdog {
    /// Starts the watchdog. Each part is allowed to take at most `limit`.
    pub(crate) fn start(limit: Duration) -> Self {
        let (sender, begun) = mpsc::channel();
        thread::spawn(move || {
            let mut part = "its start";
            loop {
                match begun.recv_timeout(limit) {
                    Ok(next) => part = next,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!(
                            "bench: {part} has not ended within {limit:?}; a hang, or a machine that is too busy"
                        );
                        process::exit(HANGS);
                    }
                }
            }
        });
        Self(sender)
    }

    /// Reports that a part begins. This means that the previous part has ended.
    pub(crate) fn begins(&self, part: &'static str) {
        // The thread ends only with the process.
        let _ = self.0.send(part);
    }
}
