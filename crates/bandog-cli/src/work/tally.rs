//! How elements have ended.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use serde::Serialize;

/// How a delivery has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Done,
    /// The element comes again.
    Retry,
    Dead,
    /// The element is ready again, and the delivery does not count.
    HandedBack,
    /// Another worker may have it.
    Lost,
    /// The store has not answered.
    Unknown,
}

/// The end of a delivery as JSON. Scripts rely on the names of these fields.
#[derive(Debug, Serialize)]
pub(super) struct EndJson {
    pub(super) id: String,
    pub(super) attempt: u32,
    pub(super) fence: u64,
    pub(super) end: Outcome,
    pub(super) exit_code: Option<u8>,
    pub(super) error: Option<String>,
    pub(super) took_ms: u64,
}

impl EndJson {
    /// Sets the duration of the delivery.
    pub(super) fn took(self, took: Duration) -> Self {
        Self { took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX), ..self }
    }
}

/// The numbers of deliveries by their end.
#[derive(Debug, Default)]
pub(super) struct Tally {
    done: AtomicU64,
    /// Attempts that have failed, without those that asked for a retry.
    failed: AtomicU64,
    retried: AtomicU64,
    dead: AtomicU64,
    handed_back: AtomicU64,
    lost: AtomicU64,
}

impl Tally {
    /// Counts an end. `asks`: whether the command has asked for a retry.
    pub(super) fn count(&self, outcome: Outcome, asks: bool) {
        let count = match outcome {
            Outcome::Done => &self.done,
            Outcome::Retry if asks => &self.retried,
            Outcome::Retry | Outcome::Dead => &self.failed,
            Outcome::HandedBack => &self.handed_back,
            Outcome::Lost | Outcome::Unknown => &self.lost,
        };
        count.fetch_add(1, Relaxed);
        if outcome == Outcome::Dead {
            self.dead.fetch_add(1, Relaxed);
        }
    }

    /// Whether an element is dead.
    pub(super) fn has_dead(&self) -> bool {
        self.dead.load(Relaxed) > 0
    }
}

/// The summary of a worker: `3 done, 1 failed`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} done, {} failed", self.done.load(Relaxed), self.failed.load(Relaxed))?;
        let rare = [
            (&self.dead, "dead"),
            (&self.retried, "asked for a retry"),
            (&self.handed_back, "handed back"),
            (&self.lost, "lost"),
        ];
        rare.iter()
            .filter(|(count, _)| count.load(Relaxed) > 0)
            .try_for_each(|(count, what)| write!(f, ", {} {what}", count.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_has_happened() {
        let tally = Tally::default();
        assert_eq!(tally.to_string(), "0 done, 0 failed");
        tally.count(Outcome::Done, false);
        tally.count(Outcome::Dead, false);
        tally.count(Outcome::Retry, true);
        assert_eq!(tally.to_string(), "1 done, 1 failed, 1 dead, 1 asked for a retry");
    }
}
