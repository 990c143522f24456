//! Jobs that are no more.

use std::time::Duration;

use bandog_core::{Error, Pattern, Record, Records, Result, Swap, Swapped};
use bandog_cron::Time;

use super::{Jobs, TRIES, say::busy};
use crate::{
    JobRow,
    dispatch::{key, only},
    news::Changed,
    state::JobState,
    trigger::{Ms, millis},
};

/// Jobs that a node had since then are not unknown: one that lives says so once a day.
const UNKNOWN: Duration = Duration::from_secs(2 * 86_400);

impl JobState {
    /// Since when no node has said that it has this job, if that is longer than one that lives would be silent.
    pub(super) fn unknown_since(&self, now: Ms) -> Option<Ms> {
        Some(self.seen).filter(|seen| *seen > 0 && now.saturating_sub(*seen) >= millis(UNKNOWN))
    }

    /// Whether nobody would miss it: no node has had it for so long, nothing waits, and no operator holds it.
    fn is_left(&self, older: Duration, now: Ms) -> bool {
        let is_old = self.unknown_since(now).is_some_and(|since| now.saturating_sub(since) >= millis(older));
        is_old && self.queue.is_empty() && self.paused.is_none()
    }
}

impl Jobs {
    /// Forgets a job and its history, and the runs that wait. A node that still has the job brings it back, as a new one,
    /// when its next tick comes, and after a day at the latest.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` while a node runs it.
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn forget(&self, name: &str) -> Result<()> {
        let (record, _) = self.record(name).await?;
        self.remove(name, record, |_| true).await?;
        self.tell(&Changed::job(name)).await;
        Ok(())
    }

    /// The jobs that no node has had for this long, at least two days, though they may have ticks to come: those whose
    /// code is gone, and those whose programs do not run. Left out are jobs that are paused by themselves, that run, and
    /// of which runs wait. A node that lives says once a day which jobs it has.
    ///
    /// # Errors
    /// `Misused` for less than two days; else as [`Jobs::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn unknown(&self, older: Duration) -> Result<Vec<JobRow>> {
        at_least_two_days(older)?;
        let (states, now) = self.states(&Pattern::all()).await?;
        let now = Time::from(now).millisecond();
        let mut rows = self.list(&Pattern::all()).await?;
        rows.retain(|row| {
            let is_left = states.get(&row.name).is_some_and(|state| state.is_left(older, now));
            is_left && row.live.iter().all(|run| run.orphaned)
        });
        Ok(rows)
    }

    /// Forgets a job if it is still one of [`Jobs::unknown`]. False: it is not, since a node has it again, an operator
    /// holds it, somebody else forgot it, or a program of another version wrote it.
    ///
    /// # Errors
    /// As [`Jobs::unknown`] and [`Jobs::forget`].
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn forget_unknown(&self, name: &str, older: Duration) -> Result<bool> {
        at_least_two_days(older)?;
        let reading = self.client.read(&[key(name)?], &[]).await?;
        let now = Time::from(reading.now).millisecond();
        let Some(record) = only(reading.records)? else { return Ok(false) };
        let forgotten = self.remove(name, record, |state| state.is_some_and(|state| state.is_left(older, now))).await?;
        if forgotten {
            self.tell(&Changed::job(name)).await;
        }
        Ok(forgotten)
    }

    /// Removes a record that nobody runs, as long as it is so. False: it is not.
    async fn remove(&self, name: &str, mut record: Record, is_so: impl Fn(Option<&JobState>) -> bool) -> Result<bool> {
        for _ in 0..TRIES {
            // What cannot be read can still be forgotten, by its name.
            let state = JobState::read(&record.value, &key(name)?).ok();
            if !is_so(state.as_ref()) {
                return Ok(false);
            }
            if let Some(state) = state {
                let ended = self.ended(state.running.iter()).await?;
                if state.running.iter().any(|live| live.holding().is_none_or(|session| !ended.contains(&session))) {
                    return Err(Error::misused(format!("job {name:?} runs now; cancel it first, or wait")));
                }
            }
            let swap = Swap { to: None, ..Swap::new(key(name)?, Some(record.version), "") };
            match only(self.client.swap(&[swap]).await?.each)? {
                Swapped::Differs(Some(other)) => record = other,
                // Done, by us or by somebody else.
                Swapped::Done(_) | Swapped::Differs(None) => return Ok(true),
                Swapped::Early(_) | Swapped::NotHeld => break,
            }
        }
        Err(busy(name))
    }
}

fn at_least_two_days(older: Duration) -> Result<()> {
    if older >= UNKNOWN {
        return Ok(());
    }
    let words = "nodes say once a day which jobs they have, so a job is unknown after 2 days at the earliest";
    Err(Error::misused(words))
}
