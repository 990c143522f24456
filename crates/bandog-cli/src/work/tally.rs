//! How elements have ended.

use std::{cell::Cell, fmt, time::Duration};

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
    done: Cell<u64>,
    /// Attempts that have failed, without those that asked for a retry.
    failed: Cell<u64>,
    retried: Cell<u64>,
    dead: Cell<u64>,
    handed_back: Cell<u64>,
    lost: Cell<u64>,
}

impl Tally {
    /// Counts an end. `asks`: whether the command has asked for a retry.
    pub(super) fn count(&self, outcome: Outcome, asks: bool) {
        let add = |count: &Cell<u64>| count.set(count.get() + 1);
        match outcome {
            Outcome::Done => add(&self.done),
            Outcome::Retry if asks => add(&self.retried),
            Outcome::Retry => add(&self.failed),
            Outcome::Dead => {
                add(&self.failed);
                add(&self.dead);
            }
            Outcome::HandedBack => add(&self.handed_back),
            Outcome::Lost | Outcome::Unknown => add(&self.lost),
        }
    }

    /// Whether an element is dead.
    pub(super) fn has_dead(&self) -> bool {
        self.dead.get() > 0
    }
}

/// The summary of a worker: `3 done, 1 failed`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} done, {} failed", self.done.get(), self.failed.get())?;
        let rare = [
            (&self.dead, "dead"),
            (&self.retried, "asked for a retry"),
            (&self.handed_back, "handed back"),
            (&self.lost, "lost"),
        ];
        rare.iter()
            .filter(|(count, _)| count.get() > 0)
            .try_for_each(|(count, what)| write!(f, ", {} {what}", count.get()))
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
