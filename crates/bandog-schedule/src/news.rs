//! News: a record that names the jobs that have changed. When a node is notified of a change, it reads only these jobs,
//! instead of all of its jobs.
//!
//! The board is another record. It gets a new version with each published change of jobs or pauses. After each change
//! of the board, this version of bandog adds an item to the news, which is the record `schedule/news`. The item
//! contains the board's version before and after the change, and the names of the changed jobs. A node reads the items
//! from its last known version of the board to the present version. Items might be missing for two reasons: older
//! versions of bandog change the board without an item, and the record keeps only the latest items. If an item is
//! missing, the node reads all of its jobs.

use std::collections::{BTreeSet, VecDeque};

use bandog_core::{Error, ErrorKind, Key, Records, Result, Swap, Swapped, Version};
use bandog_sync::Client;
use serde::{Deserialize, Serialize};

use crate::records::single_answer;

/// Maximum number of items in the record.
const MAX_ITEMS: usize = 32;
/// Maximum number of jobs that an item names. If more jobs have changed, the item means all jobs.
const MAX_NAMES: usize = 16;
/// Maximum number of attempts to add an item while other processes add items at the same time.
const MAX_ATTEMPTS: u32 = 100;

/// The jobs whose records have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangedJobs {
    Jobs(BTreeSet<String>),
    All,
}

/// The record of news.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct News {
    /// The items, in the order of the board's versions.
    items: VecDeque<NewsItem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NewsItem {
    /// The board's version before the change, or none if there was no board.
    from: Option<u64>,
    /// The board's version after the change.
    to: u64,
    /// The changed jobs. None means all jobs.
    jobs: Option<BTreeSet<String>>,
}

impl ChangedJobs {
    /// No changed job. This is published if another record has changed, for example the record of pauses.
    pub(crate) fn none() -> Self {
        Self::Jobs(BTreeSet::new())
    }

    pub(crate) fn job(name: &str) -> Self {
        Self::Jobs(BTreeSet::from([name.to_owned()]))
    }

    /// Adds a job. If there are more than [`MAX_NAMES`] names, the value becomes [`ChangedJobs::All`].
    pub(crate) fn add(&mut self, name: &str) {
        if let Self::Jobs(names) = self
            && !names.contains(name)
        {
            names.insert(name.to_owned());
            if names.len() > MAX_NAMES {
                *self = Self::All;
            }
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        match other {
            Self::Jobs(names) => names.iter().for_each(|name| self.add(name)),
            Self::All => *self = Self::All,
        }
    }
}

impl News {
    /// Parses the record. A record that cannot be parsed counts as empty.
    pub(crate) fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    fn write(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|source| Error::new(ErrorKind::Corrupt, "the news cannot be written").caused_by(source))
    }

    /// Adds an item. If there are too many items, removes the oldest ones.
    fn add(&mut self, item: NewsItem) {
        let at = self.items.partition_point(|other| other.to < item.to);
        self.items.insert(at, item);
        self.items.drain(..self.items.len().saturating_sub(MAX_ITEMS));
    }

    /// The jobs that changed between these two versions of the board. None if an item between these versions is
    /// missing, or if all jobs might have changed.
    pub(crate) fn since(&self, known: Version, now: Version) -> Option<Vec<&str>> {
        let (mut at, mut jobs) = (known.get(), Vec::new());
        while at < now.get() {
            let item = self.items.iter().find(|item| item.from == Some(at) && item.to > at)?;
            jobs.extend(item.jobs.as_ref()?.iter().map(String::as_str));
            at = item.to;
        }
        (at == now.get()).then_some(jobs)
    }
}

/// Adds an item about a change of the board from the version `from` to the version `to`. The write notifies the nodes.
pub(crate) async fn add_news_item(
    client: &Client,
    from: Option<Version>,
    to: Version,
    changed: &ChangedJobs,
) -> Result<()> {
    let jobs = match changed {
        ChangedJobs::Jobs(names) => Some(names.clone()),
        ChangedJobs::All => None,
    };
    let item = NewsItem { from: from.map(Version::get), to: to.get(), jobs };
    // `present`: the version of the news that the swap replaces.
    let (mut present, mut news) = (None, News::default());
    for _ in 0..MAX_ATTEMPTS {
        news.add(item.clone());
        let swap = Swap { notifies: true, ..Swap::new(news_key()?, present, news.write()?) };
        match single_answer(client.records().swap(&[swap]).await?.each)? {
            Swapped::Differs(Some(record)) => (present, news) = (Some(record.version), News::read(&record.value)),
            Swapped::Differs(None) => (present, news) = (None, News::default()),
            Swapped::Done(_) | Swapped::Early(_) | Swapped::NotHeld => return Ok(()),
        }
    }
    Err(Error::unavailable("other processes keep changing the news"))
}

/// The key of the record of news.
pub(crate) fn news_key() -> Result<Key> {
    Key::new("schedule/news")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(number: u64) -> Version {
        Version::new(number).unwrap()
    }

    fn item(from: u64, to: u64, jobs: &[&str]) -> NewsItem {
        NewsItem { from: Some(from), to, jobs: Some(jobs.iter().map(|name| (*name).to_owned()).collect()) }
    }

    #[test]
    fn items_are_followed_from_one_version_to_another_in_whatever_order_they_came() {
        let mut news = News::default();
        [item(9, 12, &["c"]), item(1, 4, &["a"]), item(4, 9, &[])].into_iter().for_each(|item| news.add(item));
        assert_eq!(news.since(v(1), v(12)), Some(vec!["a", "c"]));
        assert_eq!(news.since(v(4), v(9)), Some(vec![]));
        assert_eq!(news.since(v(12), v(12)), Some(vec![]));
        assert_eq!(news.since(v(1), v(11)), None, "this version of the board lies between two items");
        assert_eq!(news.since(v(1), v(13)), None, "a node of an older version changed the board last");
        assert_eq!(news.since(v(2), v(12)), None);
        assert_eq!(news.since(v(12), v(9)), None, "the store fell back");
        news.add(item(13, 15, &["e"]));
        assert_eq!(news.since(v(9), v(15)), None, "an older version changed the board in between");
    }

    #[test]
    fn many_items_and_many_names_are_all_jobs() {
        let mut news = News::default();
        (1..=100).for_each(|number| news.add(item(number, number + 1, &["a"])));
        assert_eq!(news.since(v(90), v(101)).map(|jobs| jobs.len()), Some(11));
        assert_eq!((news.items.len(), news.since(v(60), v(101))), (MAX_ITEMS, None));
        let mut changed = ChangedJobs::none();
        (0..MAX_NAMES).for_each(|name| changed.add(&name.to_string()));
        assert!(matches!(&changed, ChangedJobs::Jobs(names) if names.len() == MAX_NAMES));
        changed.join(ChangedJobs::job("one more"));
        assert_eq!(changed, ChangedJobs::All);
        news.add(NewsItem { from: Some(101), to: 102, jobs: None });
        assert_eq!(news.since(v(100), v(102)), None);
    }

    #[test]
    fn a_record_reads_back_as_written_and_an_unreadable_one_is_empty() {
        let mut news = News::default();
        news.add(NewsItem { from: None, to: 3, jobs: Some(BTreeSet::from(["a \"b\"".to_owned()])) });
        assert_eq!(News::read(&news.write().unwrap()), news);
        for text in ["", "[]", "{\"items\": 5}", r#"{"items":[{"from":3,"to":3,"jobs":[]}]}"#] {
            assert_eq!(News::read(text).since(v(3), v(9)), None, "{text}");
        }
    }
}
