//! Commands to jobs. A command is a swap of the job's record: the store refuses the write if another process has
//! changed the record since this process has read the record. After a successful swap, the nodes are notified.

use std::collections::HashSet;

use bandog_core::{Error, Line, Record, Records, Result, Swap, Swapped};
use bandog_cron::Time;

use super::{Jobs, MAX_ATTEMPTS, check_reason, queries::past_ticks, readable_trigger};
use crate::{
    Overlap,
    board::publish_change,
    news::ChangedJobs,
    plan::{Command, Plan, apply_command, is_over, rests_until},
    policy::Policy,
    records::{job_key, single_answer},
    state::{JobState, format_time},
    trigger::UnixMs,
};

/// Maximum number of queued runs of a job.
const MAX_QUEUED_RUNS: usize = 10_000;

impl Jobs {
    /// Requests a run in addition to the ticks. The run starts after the runs that are queued already. It also starts
    /// if the job is paused or disabled. Returns the run's number.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` when 10,000 runs are queued already.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the command might still take effect.
    pub async fn run(&self, name: &str) -> Result<u64> {
        let runs = self.send(name, |state, _| check_queue_room(name, state, 1).map(|()| Command::Run)).await?;
        Ok(runs.first().copied().unwrap_or_default())
    }

    /// Stops the job's ticks until [`Jobs::resume`]. Runs under way continue. A second pause replaces the first pause.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` for a reason of more than [`crate::MAX_REASON`] bytes.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the command might still take effect.
    pub async fn pause(&self, name: &str, reason: &str) -> Result<()> {
        self.send(name, |_, now| Ok(Command::Pause(self.paused(reason, now)?))).await.map(|_| ())
    }

    /// Lets the job's ticks run again from now on. Ticks during the pause are recorded as skipped. Returns false if the
    /// job was not paused.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the command might still take effect.
    pub async fn resume(&self, name: &str) -> Result<bool> {
        let mut was_paused = false;
        self.send(name, |state, _| {
            was_paused = state.paused.is_some();
            Ok(Command::Resume)
        })
        .await?;
        Ok(was_paused)
    }

    /// Cancels a run that is queued or under way. If `run` is `None`, cancels all of these runs. Returns the numbers of
    /// the cancelled runs.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the command might still take effect.
    pub async fn cancel(&self, name: &str, run: Option<u64>) -> Result<Vec<u64>> {
        self.send(name, |_, _| Ok(Command::Cancel(run))).await
    }

    /// Runs the ticks from `from` to `to`, both included, one after the other. If a tick of this range has run before,
    /// the tick runs again. Returns the number of ticks, which is at most 10,000.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` if the range has no ticks, has more than 10,000 ticks or ends in the future, if the
    /// job has a fixed delay, and if more than 10,000 runs would be queued.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the command might still take effect.
    pub async fn backfill(&self, name: &str, from: Time, to: Time) -> Result<u64> {
        let command = |state: &JobState, now: UnixMs| {
            let ticks = past_ticks(name, state, from, to, now)?;
            check_queue_room(name, state, ticks.len())?;
            Ok(Command::Backfill(ticks))
        };
        let runs = self.send(name, command).await?;
        Ok(u64::try_from(runs.len()).unwrap_or(u64::MAX))
    }

    /// Sets the job's watermark (the newest tick that was ever claimed) back to the store's present time, if the
    /// watermark lies in the future. Adds a line to the history with the operator, the reason, and both times.
    ///
    /// Use this if the store's clock was ahead and was corrected later. While the clock was ahead, nodes claimed ticks
    /// of the future. So the job does not fire until the last claimed tick has passed ([`crate::JobRow::rests_until`]).
    /// After the reset, each of these ticks can be claimed again, with a greater fence.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` if the reason has more than [`crate::MAX_REASON`] bytes, if the watermark is not in
    /// the future, and if the job has one tick only, which was claimed already.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the command might still take effect.
    pub async fn reset(&self, name: &str, reason: &str) -> Result<()> {
        let command = |state: &JobState, now: UnixMs| {
            let trigger = readable_trigger(name, state)?;
            if rests_until(state, now).is_none() {
                let (watermark, now) = (format_time(state.watermark), format_time(now));
                return Err(Error::misused(format!(
                    "the watermark of job {name:?}, {watermark}, does not lie after the store's time, {now}: there is \
                     nothing to set back"
                )));
            }
            if is_over(state, &trigger) {
                return Err(Error::misused(format!(
                    "the only tick of job {name:?} was claimed already, and would run again after a reset; to run the \
                     job again, use `run`"
                )));
            }
            Ok(Command::Reset { by: self.by.clone(), reason: check_reason(reason)? })
        };
        self.send(name, command).await.map(|_| ())
    }

    /// Applies a command to the present record, and notifies the nodes. `command`: creates the command from the job's
    /// state and the store's time. Returns the numbers of the runs that the command has created or cancelled.
    async fn send(
        &self,
        name: &str,
        mut command: impl FnMut(&JobState, UnixMs) -> Result<Command>,
    ) -> Result<Vec<u64>> {
        let (mut record, mut now) = self.record(name).await?;
        for _ in 0..MAX_ATTEMPTS {
            let (state, lines, runs) = apply_to_record(name, &record, Time::from(now).millisecond(), &mut command)?;
            let Some(state) = state else { return Ok(runs) };
            let swap = Swap { lines, ..Swap::new(job_key(name)?, Some(record.version), state) };
            let swaps = self.client.records().swap(&[swap]).await?;
            match single_answer(swaps.each)? {
                Swapped::Done(_) => {
                    self.notify_nodes(&ChangedJobs::job(name)).await;
                    return Ok(runs);
                }
                Swapped::Differs(Some(other)) => (record, now) = (other, swaps.now),
                Swapped::Differs(None) => return Err(self.unknown_job(name).await),
                Swapped::Early(_) | Swapped::NotHeld => break,
            }
        }
        Err(conflict(name))
    }

    /// Notifies the nodes. An error is only logged, because the command is stored already. If this function returned
    /// the error, the caller would repeat the command.
    pub(super) async fn notify_nodes(&self, changed: &ChangedJobs) {
        if let Err(error) = publish_change(&self.client, None, changed).await {
            tracing::warn!(%error, "the change is stored, but the nodes were not notified: they notice it within 30 s");
        }
    }
}

/// Applies a command to a record. Returns three values: the new state if it differs from the old state, the lines for
/// the history, and the numbers of the runs that the command has created or cancelled.
pub(super) fn apply_to_record(
    name: &str,
    record: &Record,
    now: UnixMs,
    command: &mut impl FnMut(&JobState, UnixMs) -> Result<Command>,
) -> Result<(Option<String>, Vec<Line>, Vec<u64>)> {
    let was = JobState::read(&record.value, &job_key(name)?)?;
    let command = command(&was, now)?;
    let mut state = was.clone();
    let policy = Policy::new(Overlap::Skip);
    let Plan { lines, runs, .. } =
        apply_command(&mut state, name, &readable_trigger(name, &was)?, &policy, now, &command);
    let value = if state == was { None } else { Some(state.write()?) };
    Ok((value, last_line_of_each_slot(lines), runs))
}

/// Keeps only the last line for each slot of the history. A slot is the name of a line: a later line with the same name
/// replaces the earlier line. The cancellation of many runs can produce several lines for the same slot.
fn last_line_of_each_slot(lines: Vec<Line>) -> Vec<Line> {
    let mut slots = HashSet::new();
    let mut lines: Vec<Line> = lines.into_iter().rev().filter(|line| slots.insert(line.slot.clone())).collect();
    lines.reverse();
    lines
}

/// Checks that the job's queue has room for this number of further runs.
fn check_queue_room(name: &str, state: &JobState, more: usize) -> Result<()> {
    let waiting = state.queue.len();
    if waiting + more <= MAX_QUEUED_RUNS {
        return Ok(());
    }
    Err(Error::misused(format!(
        "{waiting} runs of job {name:?} are queued already; the maximum is {MAX_QUEUED_RUNS}, so cancel some first"
    )))
}

/// The error after too many attempts to change a record.
pub(super) fn conflict(name: &str) -> Error {
    Error::unavailable(format!("other processes keep changing job {name:?}; repeat the call"))
}
