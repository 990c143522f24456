//! What this process has observed of the store in the last 24 hours: once a minute the runs that have ended, the elements
//! that wait in queues, and the calls that wait for locks. The store itself keeps none of this.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::snapshot::{Ended, Snapshot};

/// Interval between two observations.
pub(crate) const STEP: Duration = Duration::from_secs(60);
/// Maximum number of observations that are kept: those of 24 hours.
const KEPT: usize = 1440;
/// Maximum number of names of locks in one observation.
const LOCKS: usize = 20;
/// Maximum number of names of queues, and of names of locks, in all observations. A further name is not kept. With the 100
/// queues and the locks of each observation, 24 hours take at most 5 MB.
const NAMES: usize = 500;

/// The observations, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    samples: VecDeque<Sample>,
    queue_names: Names,
    lock_names: Names,
    /// The counters of each job at the last observation of the jobs, by a hash of its name, and the time of this
    /// observation.
    counters: Option<(i64, HashMap<u64, Ended>)>,
    /// The time of the last call of [`Self::begins`] that returned true.
    begun: Option<i64>,
}

/// One observation. `None`: this part could not be observed.
#[derive(Debug)]
pub(crate) struct Sample {
    /// In milliseconds since 1970, as all times here.
    pub(crate) at: i64,
    pub(crate) runs: Option<Runs>,
    pub(crate) queues: Option<Vec<Depth>>,
    /// The last name of a queue that was observed. None: that of the last queue.
    pub(crate) last_queue: Option<Arc<str>>,
    pub(crate) locks: Option<Vec<Waiting>>,
}

/// The runs that ended between two observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) ended: Ended,
}

/// The elements that wait in a queue. A queue without such elements is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) name: Arc<str>,
    pub(crate) waiting: u32,
    pub(crate) oldest_ms: u32,
}

/// The calls that wait for a lock. A lock without such calls is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) name: Arc<str>,
    pub(crate) calls: u32,
}

/// The answers of the store for one observation.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The jobs, and the time of the answer.
    pub(crate) jobs: Option<(i64, Arc<Snapshot>)>,
    /// Names of queues, their waiting elements, and the age of the oldest one in milliseconds.
    pub(crate) queues: Option<Vec<(String, u64, u64)>>,
    /// The last of these names, if there are further ones.
    pub(crate) last_queue: Option<String>,
    /// Names of locks, and the calls that wait for each of them.
    pub(crate) locks: Option<Vec<(String, usize)>>,
}

impl Observed {
    /// Whether an observation is due. If so, the next one is due after [`STEP`].
    pub(crate) fn begins(&mut self, now: i64) -> bool {
        let step = i64::try_from(STEP.as_millis()).unwrap_or(i64::MAX);
        // A little less, because a timer is never exact. After a jump of the clock, an observation is due, too.
        let is_due = self.begun.is_none_or(|begun| now < begun || now - begun >= step - step / 20);
        if is_due {
            self.begun = Some(now);
        }
        is_due
    }

    /// The observations, the oldest first.
    pub(crate) fn samples(&self) -> &VecDeque<Sample> {
        &self.samples
    }

    /// Adds an observation of this time.
    pub(crate) fn add(&mut self, at: i64, seen: Seen) {
        // After a jump of the clock, the times before it have no meaning.
        if self.samples.back().is_some_and(|last| at < last.at) {
            self.samples.clear();
            self.counters = None;
        }
        while self.samples.len() >= KEPT {
            self.samples.pop_front();
        }
        self.queue_names.forget();
        self.lock_names.forget();
        let runs = seen.jobs.and_then(|(at, jobs)| self.count(at, &jobs));
        let names = &mut self.queue_names;
        let mut last_queue = seen.last_queue.and_then(|name| names.kept(&name));
        let queues = seen.queues.map(|queues| {
            let waiting = queues.into_iter().filter(|(_, waiting, _)| *waiting > 0);
            let depth = |(name, waiting, oldest): (String, u64, u64)| {
                let kept = names.kept(&name);
                if kept.is_none() {
                    last_queue = Some("".into()); // Of the names that are not kept, nothing is known.
                }
                Some(Depth { name: kept?, waiting: small(waiting), oldest_ms: small(oldest) })
            };
            waiting.filter_map(depth).collect()
        });
        let locks = seen.locks.map(|mut locks| {
            locks.retain(|(_, calls)| *calls > 0);
            locks.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
            let waiting = |(name, calls): &(String, usize)| {
                Some(Waiting { name: self.lock_names.kept(name)?, calls: small(*calls as u64) })
            };
            locks.iter().take(LOCKS).filter_map(waiting).collect()
        });
        self.samples.push_back(Sample { at, runs, queues, last_queue, locks });
    }

    /// The runs that ended since the last observation of the jobs.
    fn count(&mut self, to: i64, jobs: &Snapshot) -> Option<Runs> {
        let counters: HashMap<u64, Ended> = jobs.ended().collect();
        let (from, last) = self.counters.replace((to, counters))?;
        let (_, counters) = self.counters.as_ref()?;
        let mut ended = Ended::default();
        for (job, now) in counters {
            let before = last.get(job).copied().unwrap_or_default();
            // A job whose counters are smaller has been forgotten, and has begun anew.
            let before = if now.ok < before.ok || now.failed < before.failed { Ended::default() } else { before };
            ended.ok += now.ok - before.ok;
            ended.failed += now.failed - before.failed;
        }
        Some(Runs { from, to, ended })
    }
}

/// Names that observations share.
#[derive(Debug, Default)]
struct Names(HashSet<Arc<str>>);

impl Names {
    /// Removes the names that no observation has.
    fn forget(&mut self) {
        self.0.retain(|name| Arc::strong_count(name) > 1);
    }

    /// The kept name. None: too many names are kept.
    fn kept(&mut self, name: &str) -> Option<Arc<str>> {
        if let Some(known) = self.0.get(name) {
            return Some(Arc::clone(known));
        }
        if self.0.len() >= NAMES {
            return None;
        }
        let name: Arc<str> = Arc::from(name);
        self.0.insert(Arc::clone(&name));
        Some(name)
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue can only panic")]
pub(crate) mod tests;
