//! Removes jobs that no node has any more.

use std::time::Duration;

use bandog_core::{Error, Pattern, Record, Records, Result, Swap, Swapped};
use bandog_cron::Time;

use super::{Jobs, MAX_ATTEMPTS, commands::conflict};
use crate::{
    JobRow,
    news::ChangedJobs,
    records::{job_key, single_answer},
    state::{JobState, MIN_UNKNOWN_MS},
    trigger::{UnixMs, duration_ms},
};

impl Jobs {
    /// Removes a job with its history and its queued runs. If a node still has the job's code, the node creates the
    /// job's record again at the job's next tick, or within a day.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` while a node runs the job.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the command might still take effect.
    pub async fn forget(&self, name: &str) -> Result<()> {
        let (record, _) = self.record(name).await?;
        self.remove(name, record, |_| true).await?;
        self.notify_nodes(&ChangedJobs::job(name)).await;
        Ok(())
    }

    /// The jobs that no node has had for the time `older`, because their code was removed or their programs do not run.
    /// `older` must be at least two days. Three kinds of jobs are not listed: jobs that are paused (except by
    /// [`Jobs::pause_all`]), jobs that run, and jobs with queued runs. A node writes a heartbeat for each of its jobs
    /// once a day. So a job that never fires is not listed while a node has it.
    ///
    /// # Errors
    /// `Misused` if `older` is less than two days; else as [`Jobs::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn unknown(&self, older: Duration) -> Result<Vec<JobRow>> {
        at_least_two_days(older)?;
        let (states, now) = self.states(&Pattern::all()).await?;
        let now = Time::from(now).millisecond();
        let mut rows = self.list(&Pattern::all()).await?;
        rows.retain(|row| {
            let is_abandoned = states.get(&row.name).is_some_and(|state| is_abandoned(state, older, now));
            is_abandoned && row.live.iter().all(|run| run.orphaned)
        });
        Ok(rows)
    }

    /// Removes a job if [`Jobs::unknown`] would list the job now. Otherwise removes nothing and returns false, for
    /// example if a node has the job again, an operator has paused the job, another process has removed it, or this
    /// version of bandog cannot read its record.
    ///
    /// # Errors
    /// As [`Jobs::unknown`] and [`Jobs::forget`].
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the command might still take effect.
    pub async fn forget_unknown(&self, name: &str, older: Duration) -> Result<bool> {
        at_least_two_days(older)?;
        let reading = self.client.records().read(&[job_key(name)?], &[]).await?;
        let now = Time::from(reading.now).millisecond();
        let Some(record) = single_answer(reading.records)? else { return Ok(false) };
        let forgotten =
            self.remove(name, record, |state| state.is_some_and(|state| is_abandoned(state, older, now))).await?;
        if forgotten {
            self.notify_nodes(&ChangedJobs::job(name)).await;
        }
        Ok(forgotten)
    }

    /// Removes the record of a job and returns true, if `is_so` returns true for the job's state. If `is_so` returns
    /// false, removes nothing and returns false. Returns an error if a node runs the job.
    async fn remove(&self, name: &str, mut record: Record, is_so: impl Fn(Option<&JobState>) -> bool) -> Result<bool> {
        for _ in 0..MAX_ATTEMPTS {
            // A record that cannot be parsed can still be removed. In that case, `state` is none.
            let state = JobState::read(&record.value, &job_key(name)?).ok();
            if !is_so(state.as_ref()) {
                return Ok(false);
            }
            if let Some(state) = state {
                let ended = self.ended(state.running.iter()).await?;
                if state.running.iter().any(|live| live.holding().is_none_or(|session| !ended.contains(&session))) {
                    return Err(Error::misused(format!("job {name:?} runs now; cancel it first, or wait")));
                }
            }
            let swap = Swap { to: None, ..Swap::new(job_key(name)?, Some(record.version), "") };
            match single_answer(self.client.records().swap(&[swap]).await?.each)? {
                Swapped::Differs(Some(other)) => record = other,
                // The record was removed by this call or by another process.
                Swapped::Done(_) | Swapped::Differs(None) => return Ok(true),
                Swapped::Early(_) | Swapped::NotHeld => break,
            }
        }
        Err(conflict(name))
    }
}

/// Whether the job can be removed: no node has the job, no run is queued, and the job is not paused. `older`: the
/// minimum age of the job's last heartbeat.
fn is_abandoned(state: &JobState, older: Duration, now: UnixMs) -> bool {
    let is_old = state.unknown_since(now).is_some_and(|since| now.saturating_sub(since) >= duration_ms(older));
    is_old && state.queue.is_empty() && state.paused.is_none()
}

fn at_least_two_days(older: Duration) -> Result<()> {
    if duration_ms(older) >= MIN_UNKNOWN_MS {
        return Ok(());
    }
    let message = "nodes write a heartbeat for their jobs once a day, so a job is unknown after 2 days at the earliest";
    Err(Error::misused(message))
}
