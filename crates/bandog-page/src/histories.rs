//! The histories of jobs. Each history is read only when it has changed, and one rate limit (`pace`) applies to all
//! histories together.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bandog_schedule::RunRow;
use futures_util::stream::{self, StreamExt};
use hyper::StatusCode;
use serde_json::value::RawValue;
use tokio::time::{sleep, timeout};

use crate::{
    aside::aside,
    digest::Digest,
    fresh::{Fetched, Fresh},
    pace::Pace,
    source::{Source, Trouble, json},
};

/// Maximum number of whole histories that are kept in memory.
pub(crate) const ENTRIES: usize = 64;
/// Maximum number of jobs whose digest (the part of a history that stays in memory) is kept. A digest has about 2 KiB.
pub(crate) const DIGESTS: usize = 20_000;
/// Maximum number of histories that are read at the same time.
const AT_ONCE: usize = 8;
/// Number of queries in the rate limit's budget that are reserved for requests of viewers. When the page reads
/// histories for the figures of the last day, it leaves this number of queries in the budget.
const RESERVE: u32 = 200;
/// Maximum time for which a query waits until the rate limit allows the query.
const PATIENCE: Duration = Duration::from_secs(2);
/// Timeout for reading the histories that one answer needs. The histories that were not read in this time are read for
/// the next answer.
const READING: Duration = Duration::from_secs(1);

/// The histories and digests of the jobs.
#[derive(Debug)]
pub(crate) struct Histories<S> {
    source: Arc<S>,
    pace: Pace,
    /// The whole histories by job.
    whole: Mutex<HashMap<String, Arc<Fresh<Box<RawValue>>>>>,
    digests: Arc<Mutex<HashMap<String, Arc<Digest>>>>,
}

/// A job whose history is requested: its name and its present mark, a number that changes with each new line of the
/// history.
pub(crate) type Marked = (String, u64);

impl<S: Source> Histories<S> {
    pub(crate) fn new(source: Arc<S>) -> Self {
        Self { source, pace: Pace::new(), whole: Mutex::default(), digests: Arc::default() }
    }

    /// A whole history, as JSON.
    pub(crate) async fn whole(&self, name: &str) -> Fetched<Box<RawValue>> {
        let fresh = self.entry(name);
        if !fresh.is_in_use() {
            self.wait_for_pace().await?;
        }
        let (source, name) = (Arc::clone(&self.source), name.to_owned());
        fresh.get(|| aside(async move { json(&source.history(&name).await?) })).await
    }

    /// Drops the kept history of this job, because the history in the store has changed.
    pub(crate) fn forget(&self, name: &str) {
        if let Some(fresh) = locked(&self.whole).get(name) {
            fresh.forget();
        }
    }

    /// The digests of these jobs, by name. If a history cannot be read within a second, its digest is missing or old.
    /// Histories that have not changed are not read again.
    pub(crate) async fn digests(&self, jobs: &[Marked]) -> HashMap<String, Arc<Digest>> {
        let wanted = self.changed(jobs).take_while(|_| self.pace.take(0).is_ok()).cloned().collect();
        self.read(wanted).await;
        let digests = locked(&self.digests);
        let known = jobs.iter().filter_map(|(name, _)| Some((name.clone(), Arc::clone(digests.get(name)?))));
        known.collect()
    }

    /// Reads those histories of these jobs that have changed, as many as the rate limit and the timeout allow. Returns
    /// all digests of these jobs that are known after that.
    pub(crate) async fn catch_up(&self, jobs: &[Marked]) -> Vec<(String, Arc<Digest>)> {
        let room = DIGESTS.min(jobs.len());
        let jobs = &jobs[..room];
        let wanted = self.changed(jobs).take_while(|_| self.pace.take(RESERVE).is_ok()).cloned().collect();
        self.read(wanted).await;
        self.forget_others(jobs);
        let digests = locked(&self.digests);
        let known = jobs.iter().filter_map(|(name, _)| Some((name.clone(), Arc::clone(digests.get(name)?))));
        known.collect()
    }

    /// The jobs without a digest, and the jobs whose history has changed since the digest was made.
    fn changed<'a>(&'a self, jobs: &'a [Marked]) -> impl Iterator<Item = &'a Marked> {
        let digests = locked(&self.digests);
        let is_known = |(name, mark): &Marked| digests.get(name).is_some_and(|digest| digest.mark == *mark);
        let changed: Vec<&Marked> = jobs.iter().filter(|job| !is_known(job)).collect();
        changed.into_iter()
    }

    /// Reads the histories of these jobs, and keeps their digests.
    async fn read(&self, jobs: Vec<Marked>) {
        if jobs.is_empty() {
            return;
        }
        let (source, digests) = (Arc::clone(&self.source), Arc::clone(&self.digests));
        let reading = aside(async move {
            let read = |(name, mark): Marked| {
                let source = Arc::clone(&source);
                async move {
                    let history: Result<Vec<RunRow>, Trouble> = source.history(&name).await;
                    (name, mark, history)
                }
            };
            let mut answers = stream::iter(jobs).map(read).buffer_unordered(AT_ONCE);
            while let Some((name, mark, history)) = answers.next().await {
                // A history that cannot be read now is read for the next answer.
                let Ok(history) = history else { continue };
                let digest = Arc::new(Digest::new(mark, &history));
                let mut digests = locked(&digests);
                if digests.len() < DIGESTS || digests.contains_key(&name) {
                    digests.insert(name, digest);
                }
            }
            Ok(())
        });
        // The digests that were read before the timeout are kept.
        let _ = timeout(READING, reading).await;
    }

    /// Removes the digests of all jobs that are not in this list.
    fn forget_others(&self, jobs: &[Marked]) {
        let mut digests = locked(&self.digests);
        if digests.len() > jobs.len() {
            let names: std::collections::HashSet<&str> = jobs.iter().map(|(name, _)| name.as_str()).collect();
            digests.retain(|name, _| names.contains(name.as_str()));
        }
    }

    /// Waits until the rate limit allows a query. If that would take too long, returns an error.
    async fn wait_for_pace(&self) -> Result<(), Trouble> {
        match self.pace.take(0) {
            Ok(()) => return Ok(()),
            Err(wait) if wait <= PATIENCE => sleep(wait).await,
            Err(_) => return Err(busy()),
        }
        self.pace.take(0).map_err(|_| busy())
    }

    /// The entry of this job. If the job has no entry, a new entry is made. If there are too many entries, the unused
    /// entries of other jobs are removed.
    fn entry(&self, name: &str) -> Arc<Fresh<Box<RawValue>>> {
        let mut whole = locked(&self.whole);
        if let Some(fresh) = whole.get(name) {
            return Arc::clone(fresh);
        }
        if whole.len() >= ENTRIES {
            whole.retain(|_, fresh| fresh.is_in_use());
        }
        let fresh = Arc::new(Fresh::default());
        // If all entries are in use, this answer is not kept, so other clients do not share it.
        if whole.len() < ENTRIES {
            whole.insert(name.to_owned(), Arc::clone(&fresh));
        }
        fresh
    }
}

/// The error of a request for which the rate limit allows no query in time.
fn busy() -> Trouble {
    let message = "too many histories are requested at the same time: retry in a few seconds";
    Trouble::new(StatusCode::TOO_MANY_REQUESTS, "busy", message)
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
