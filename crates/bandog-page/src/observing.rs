//! The observation of the store, and the charts of the last 24 hours.

use std::{
    convert::Infallible,
    sync::{Arc, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use bandog_core::queues::Phase;
use bandog_cron::Time;
use serde_json::value::RawValue;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::{
    aside::aside,
    fresh::{Fetched, Known},
    handler::Handler,
    lock_json::millis,
    observed::{Observed, STEP, Seen},
    past_day::PastDay,
    queues,
    source::{Source, json},
    summary,
};

/// Maximum time for which an observation waits for the locks. A scan that takes longer ends then.
const SCAN_TIME: Duration = Duration::from_secs(2);
/// Time for which locks are not observed after a scan that took too long.
const SCAN_PAUSE: Duration = Duration::from_secs(3600);
/// Maximum time for which an observation waits for the jobs and for the queues.
const TIME: Duration = Duration::from_secs(20);

impl<S: Source> Handler<S> {
    /// Observes the store once a minute.
    pub(crate) async fn observe(&self) -> Infallible {
        let mut minutes = interval(STEP);
        minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            minutes.tick().await;
            self.observe_if_due().await;
        }
    }

    /// The last 24 hours as JSON, with the requested queue. If an observation is due, it is made first.
    pub(crate) async fn past_day(&self, queue: Option<String>) -> Fetched<Box<RawValue>> {
        self.observe_if_due().await;
        let this = self.clone();
        let ask = async move {
            let jobs = this.snapshot().await?.value;
            // Jobs without a run in the last 24 hours do not affect the figures.
            let recent = jobs.since(summary::day_before(SystemTime::now()));
            let digests = this.shared.histories.catch_up(&recent).await;
            let is_read = digests.len() == recent.len();
            let now = Time::from(SystemTime::now()).millisecond();
            aside(async move { Ok(PastDay::new(now, &digests, is_read, &this.observed())) }).await
        };
        let Known { at, value } = self.shared.past_day.get(|| ask).await?;
        let day = json(&value.with_queue(&self.observed(), queue.as_deref()))?;
        Ok(Known { at, value: Arc::new(day) })
    }

    async fn observe_if_due(&self) {
        let now = Time::from(SystemTime::now()).millisecond();
        let is_due = self.observed().begins(now);
        if is_due {
            let seen = self.see().await;
            self.observed().add(now, seen);
        }
    }

    /// Reads the store for one observation, through the answers that are kept for all clients.
    async fn see(&self) -> Seen {
        let jobs = timeout(TIME, self.snapshot()).await;
        let jobs = jobs.ok().and_then(Result::ok);
        let (queues, last_queue) = timeout(TIME, self.see_queues()).await.ok().flatten().unzip();
        Seen {
            jobs: jobs.map(|known| (Time::from(known.at).millisecond(), known.value)),
            queues,
            last_queue: last_queue.flatten(),
            locks: self.see_locks().await,
        }
    }

    /// The first queues: their names, their waiting elements, and the age of the oldest one; and the last name, if there are
    /// further queues.
    async fn see_queues(&self) -> Option<(Vec<(String, u64, u64)>, Option<String>)> {
        if !self.source().has_queues() {
            return None;
        }
        let queues = &self.shared.queues;
        let names = queues.names().await.ok()?.value;
        let first: Vec<String> = names.iter().take(queues::MOST).cloned().collect();
        let last = first.last().filter(|_| names.len() > first.len()).cloned();
        let states = queues.states(first).await.ok()?;
        let depth = |(name, known): (String, Known<queues::QueueState>)| {
            let status = &known.value.status;
            let waiting = [Phase::Ready, Phase::Delayed, Phase::Blocked].map(|phase| status.count(phase)).iter().sum();
            (name, waiting, status.oldest.map_or(0, millis))
        };
        Some((states.into_iter().map(depth).collect(), last))
    }

    /// The locks and the calls that wait for each of them. None if the scan of the store takes long.
    async fn see_locks(&self) -> Option<Vec<(String, usize)>> {
        let pause = &self.shared.no_scan_until;
        if pause.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let Ok(scanned) = timeout(SCAN_TIME, self.clone().scan()).await else {
            *pause.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + SCAN_PAUSE);
            return None;
        };
        Some(scanned.ok()?.value.iter().map(|lock| (lock.name.clone(), lock.waiters)).collect())
    }

    fn observed(&self) -> MutexGuard<'_, Observed> {
        // No code that can panic runs while the mutex is locked.
        self.shared.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
