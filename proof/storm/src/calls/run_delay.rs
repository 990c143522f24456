//! The times in which the machine did not run a thread of this process, although the thread was ready.

use std::{collections::HashMap, fs};

use crate::history::Nanos;

/// For each thread, the total time that it has waited for a processor, as the kernel counts it.
#[derive(Debug, Default)]
pub(super) struct RunDelays(HashMap<String, Nanos>);

impl RunDelays {
    /// The longest time that a thread has waited for a processor since the last call of this method. 0 if the kernel
    /// does not count this time.
    pub(super) fn longest_since_last(&mut self) -> Nanos {
        let Ok(threads) = fs::read_dir("/proc/self/task") else { return 0 };
        let mut longest = 0;
        for thread in threads.flatten() {
            let Some(total) = run_delay(&thread.path().join("schedstat")) else { continue };
            let before = self.0.insert(thread.file_name().to_string_lossy().into_owned(), total);
            longest = longest.max(before.map_or(0, |before| total.saturating_sub(before)));
        }
        longest
    }
}

/// The second number of the file: the time that the thread has waited for a processor, in nanoseconds.
fn run_delay(schedstat: &std::path::Path) -> Option<Nanos> {
    fs::read_to_string(schedstat).ok()?.split_whitespace().nth(1)?.parse().ok()
}
