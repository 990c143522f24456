//! The era of the store's data, as far as a node knows it.
//!
//! The board is a record that gets a new version with each published change of jobs or pauses. Its text is the era: a
//! random name of the store's data. If a node finds no board, it creates one with a new era. Later versions of the
//! board keep this era. So a different era means that the store has lost its data, or that this is another store.

use std::time::Duration;

use bandog_core::{ClientId, Moment, Records, Result, Swap, Swapped};
use bandog_sync::Client;

use crate::records::{board_key, single_answer};

/// After an outage, a node reads all records. This is the minimum interval between two of these reads. If a second
/// outage ends within this interval, the next poll reads the records.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval between two log entries about a store that fell back to an earlier state.
const ROLLBACK_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The last known era, and the times that limit how often the recovery calls the store and logs.
#[derive(Debug, Default)]
pub(crate) struct EraWatch {
    /// The last known era.
    known: Option<String>,
    /// Whether a call of [`read_or_create_era`] is in flight.
    is_reading: bool,
    /// Time of the last read of all records after an outage.
    all_read_at: Option<Moment>,
    /// Time of the last log entry about a store that fell back to an earlier state.
    rollback_logged_at: Option<Moment>,
}

/// The era in a board that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BoardEra {
    /// None if there is no board, or if a node with an older version of bandog has written the board.
    pub(crate) era: Option<String>,
    /// Whether the node knew another era before. This is also true if the node knew an era and the board has no era.
    pub(crate) is_changed: bool,
}

impl EraWatch {
    /// Handles the text of a board that was read.
    pub(crate) fn observe(&mut self, text: Option<String>) -> BoardEra {
        let era = text.filter(|era| !era.is_empty());
        let is_changed = self.known.is_some() && self.known != era;
        if era.is_some() {
            self.known.clone_from(&era);
        }
        BoardEra { era, is_changed }
    }

    pub(crate) fn known(&self) -> Option<&String> {
        self.known.as_ref()
    }

    /// Whether [`read_or_create_era`] should be called now. If so, the caller must call `read_ended` afterwards.
    pub(crate) fn begin_read(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reading, true)
    }

    pub(crate) fn read_ended(&mut self) {
        self.is_reading = false;
    }

    /// Whether all records should be read now, after an outage. If not, the next poll reads them.
    pub(crate) fn may_read_all(&mut self, now: Moment) -> bool {
        let is_time = self.all_read_at.is_none_or(|last| now.since(last) >= READ_INTERVAL);
        if is_time {
            self.all_read_at = Some(now);
        }
        is_time
    }

    /// Whether to log now that the store fell back to an earlier state. The records of many jobs fall back together. So
    /// this is logged only once for all of these jobs.
    pub(crate) fn may_log_rollback(&mut self, now: Moment) -> bool {
        self.rollback_logged_at.replace(now).is_none_or(|last| now.since(last) > ROLLBACK_LOG_INTERVAL)
    }
}

/// Reads the era from the board. If there is no board, creates one with a new era. If the board has no text, writes the
/// era `known` to it, or a new era if `known` is none.
pub(crate) async fn read_or_create_era(client: &Client, known: Option<String>) -> Result<String> {
    let board = board_key()?;
    let (mut from, mut era) = (None, new_era());
    loop {
        let swaps = client.records().swap(&[Swap::new(board.clone(), from, era.clone())]).await?;
        match single_answer(swaps.each)? {
            Swapped::Differs(Some(record)) if !record.value.is_empty() => return Ok(record.value),
            // Older versions of bandog write an empty text.
            Swapped::Differs(Some(record)) => {
                from = Some(record.version);
                era = known.clone().unwrap_or(era);
            }
            Swapped::Differs(None) => from = None,
            Swapped::Done(_) | Swapped::Early(_) | Swapped::NotHeld => return Ok(era),
        }
    }
}

/// A new, unique era.
pub(crate) fn new_era() -> String {
    ClientId::random().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(0) + Duration::from_secs(seconds)
    }

    fn seen(era: Option<&str>, is_changed: bool) -> BoardEra {
        BoardEra { era: era.map(str::to_owned), is_changed }
    }

    #[test]
    fn another_era_is_a_change_and_the_first_one_is_none() {
        let mut watch = EraWatch::default();
        assert_eq!(watch.observe(None), seen(None, false), "the node knew no era");
        assert_eq!(watch.observe(Some("a".into())), seen(Some("a"), false));
        assert_eq!(watch.observe(Some("a".into())), seen(Some("a"), false));
        assert_eq!(watch.observe(Some("b".into())), seen(Some("b"), true));
    }

    #[test]
    fn a_board_without_an_era_does_not_erase_the_known_one() {
        let mut watch = EraWatch::default();
        watch.observe(Some("a".into()));
        for text in [None, Some(String::new())] {
            assert_eq!(watch.observe(text), seen(None, true));
        }
        assert_eq!(watch.known(), Some(&"a".to_owned()));
        assert_eq!(
            watch.observe(Some("a".into())),
            seen(Some("a"), false),
            "the board has the known era again, so no data was lost"
        );
    }

    #[test]
    fn the_era_is_read_once_at_a_time() {
        let mut watch = EraWatch::default();
        assert!(watch.begin_read() && !watch.begin_read());
        watch.read_ended();
        assert!(watch.begin_read());
    }

    #[test]
    fn reads_after_outages_are_a_second_apart() {
        let mut watch = EraWatch::default();
        let reads = [10, 10, 11, 11, 30].map(|second| watch.may_read_all(at(second)));
        assert_eq!(reads, [true, false, true, false, true]);
    }

    #[test]
    fn a_rollback_of_many_jobs_is_logged_once() {
        let mut watch = EraWatch::default();
        let logged = [0, 1, 50, 100, 161].map(|second| watch.may_log_rollback(at(second)));
        assert_eq!(
            logged,
            [true, false, false, false, true],
            "a rollback is logged again if the last one was more than a minute ago"
        );
    }
}
