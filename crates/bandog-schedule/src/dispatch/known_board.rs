//! The board as this node knows it, and what this node has to read after a change of the board.
//!
//! The board is a record that gets a new version with each published change of jobs or pauses. The news is a record
//! that names, for each change of the board's version, the jobs that have changed ([`crate::news`]).

use bandog_core::Version;

use crate::news::News;

/// The last version of the board that this node has handled.
#[derive(Debug, Default)]
pub(super) struct KnownBoard {
    /// None in three cases: there was no poll yet, the last poll has found no board, or the next poll must read all
    /// jobs.
    version: Option<Version>,
    /// Whether the last read of the news did not show which jobs have changed. Another process may have changed the
    /// board, and not have written the news yet.
    is_news_missing: bool,
}

/// The records that a node reads after a poll.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToRead {
    Nothing,
    /// The news, which names the changed jobs.
    News,
    AllJobs,
}

/// The jobs that have changed, according to the news.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changed<'a> {
    Jobs(Vec<&'a str>),
    /// The news does not name all changes. One more poll might find the missing part.
    PollAgain,
    /// The news does not name all changes, and one more poll has not helped. Any job might have changed.
    AllJobs,
}

impl KnownBoard {
    pub(super) fn version(&self) -> Option<Version> {
        self.version
    }

    /// Makes the next poll read all jobs.
    pub(super) fn forget(&mut self) {
        self.version = None;
    }

    /// Handles the version of the board that a poll has read, if all jobs are read then, whether the board has changed
    /// or not.
    pub(super) fn polled_for_all_jobs(&mut self, read: Option<Version>) -> ToRead {
        *self = Self { version: read, is_news_missing: false };
        ToRead::AllJobs
    }

    /// Handles the version of the board that a poll has read. `is_era_changed`: the store has lost its data since the
    /// last poll. Then the news does not contain the changes since the known version.
    pub(super) fn polled(&mut self, read: Option<Version>, is_era_changed: bool) -> ToRead {
        if self.version == read {
            ToRead::Nothing
        } else if self.version.is_none() || is_era_changed {
            self.polled_for_all_jobs(read)
        } else {
            ToRead::News
        }
    }

    /// Handles the board's version and the news, which one call has read together.
    pub(super) fn news_read<'a>(&mut self, read: Option<Version>, news: &'a News) -> Changed<'a> {
        let jobs = self.version.zip(read).and_then(|(known, now)| news.since(known, now));
        if jobs.is_none() && !std::mem::replace(&mut self.is_news_missing, true) {
            return Changed::PollAgain;
        }
        *self = Self { version: read, is_news_missing: false };
        jobs.map_or(Changed::AllJobs, Changed::Jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(number: u64) -> Option<Version> {
        Version::new(number)
    }

    /// The news of one change of a board, from version 3 to 5.
    fn news() -> News {
        News::read(r#"{"items":[{"from":3,"to":5,"jobs":["a"]}]}"#)
    }

    #[test]
    fn the_first_poll_reads_all_jobs_and_later_ones_the_news_of_a_change() {
        let mut board = KnownBoard::default();
        assert_eq!(board.polled(v(3), false), ToRead::AllJobs);
        assert_eq!(board.polled(v(3), false), ToRead::Nothing);
        assert_eq!(board.polled(v(5), false), ToRead::News);
        assert_eq!(board.version(), v(3), "until the news is read");
        assert_eq!(board.news_read(v(5), &news()), Changed::Jobs(vec!["a"]));
        assert_eq!(board.polled(v(5), false), ToRead::Nothing);
    }

    #[test]
    fn another_era_and_the_regular_read_make_the_news_irrelevant() {
        let mut board = KnownBoard::default();
        board.polled(v(3), false);
        assert_eq!(board.polled(v(5), true), ToRead::AllJobs);
        assert_eq!(board.polled_for_all_jobs(v(5)), ToRead::AllJobs);
        board.forget();
        assert_eq!(board.polled(v(5), false), ToRead::AllJobs);
    }

    #[test]
    fn a_gap_in_the_news_causes_one_more_poll_and_then_a_read_of_all_jobs() {
        let mut board = KnownBoard::default();
        board.polled(v(3), false);
        assert_eq!(board.news_read(v(7), &news()), Changed::PollAgain);
        assert_eq!(board.version(), v(3));
        assert_eq!(board.news_read(v(7), &news()), Changed::AllJobs);
        assert_eq!(board.version(), v(7));
        let mut late = KnownBoard::default();
        late.polled(v(3), false);
        assert_eq!(late.news_read(v(5), &News::default()), Changed::PollAgain);
        assert_eq!(
            late.news_read(v(5), &news()),
            Changed::Jobs(vec!["a"]),
            "the item was written between the two reads"
        );
    }
}
