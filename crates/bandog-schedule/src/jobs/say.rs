//! Words to jobs. Each is one swap of the job's record, and a look at the board tells the nodes.

use std::collections::HashSet;

use bandog_core::{Error, Line, Record, Records, Result, Swap, Swapped};
use bandog_cron::Time;

use super::{Jobs, TRIES, look::past_ticks, short, trigger};
use crate::{
    Overlap,
    dispatch::{bump, key, only},
    news::Changed,
    plan::{Plan, Word, say},
    policy::Policy,
    state::{JobState, time},
    trigger::Ms,
};

/// Runs that may wait.
const WAITING: usize = 10_000;

impl Jobs {
    /// Runs it now, beside its ticks, after those that wait already; also while it is paused or disabled. Gives the
    /// run's number.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` when 10,000 runs wait already.
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn run(&self, name: &str) -> Result<u64> {
        let reached = self.say(name, |state, _| room(name, state, 1).map(|()| Word::Run)).await?;
        Ok(reached.first().copied().unwrap_or_default())
    }

    /// Stops its ticks until [`Jobs::resume`]. What runs goes on. A pause of a job that is paused already takes the place
    /// of the one before.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` for a reason of more than [`crate::MAX_REASON`] bytes.
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn pause(&self, name: &str, reason: &str) -> Result<()> {
        self.say(name, |_, now| Ok(Word::Pause(self.paused(reason, now)?))).await.map(|_| ())
    }

    /// Lets its ticks run again from now on; those in between are recorded as skipped. False: it was not paused.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn resume(&self, name: &str) -> Result<bool> {
        let mut was_paused = false;
        self.say(name, |state, _| {
            was_paused = state.paused.is_some();
            Ok(Word::Resume)
        })
        .await?;
        Ok(was_paused)
    }

    /// Cancels a run that waits or runs, or all of them. Gives the numbers of those that were told.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn cancel(&self, name: &str, run: Option<u64>) -> Result<Vec<u64>> {
        self.say(name, |_, _| Ok(Word::Cancel(run))).await
    }

    /// Runs the ticks from `from` to `to`, both included, one after the other, whether they ran before or not. Gives how
    /// many they are: at most 10,000.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` for a range without ticks, with too many, or in the future, for a fixed delay, and
    /// when more than 10,000 runs would wait.
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn backfill(&self, name: &str, from: Time, to: Time) -> Result<u64> {
        let word = |state: &JobState, now: Ms| {
            let ticks = past_ticks(name, state, from, to, now)?;
            room(name, state, ticks.len())?;
            Ok(Word::Backfill(ticks))
        };
        let reached = self.say(name, word).await?;
        Ok(u64::try_from(reached.len()).unwrap_or(u64::MAX))
    }

    /// Sets a watermark of the future back to the store's present time, and leaves a line in the history that says who
    /// did it and why, from when and to when.
    ///
    /// That is the cure where the store's clock had been ahead: ticks of the future were claimed then, and the job rests
    /// until that time comes ([`crate::JobRow::rests_until`]). Those of them that are still to come can be claimed
    /// again, once each, under greater fences.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` for a reason of more than [`crate::MAX_REASON`] bytes, when the job does not rest, and when its only tick was claimed already.
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn reset(&self, name: &str, reason: &str) -> Result<()> {
        let word = |state: &JobState, now: Ms| {
            let trigger = trigger(name, state)?;
            if state.rests_until(now).is_none() {
                let (watermark, now) = (time(state.watermark), time(now));
                return Err(Error::misused(format!(
                    "the watermark of job {name:?}, {watermark}, does not lie after the store's time, {now}: there is \
                     nothing to set back"
                )));
            }
            if state.is_over(&trigger) {
                return Err(Error::misused(format!(
                    "the only tick of job {name:?} was claimed already, and would run again; to run it once more there \
                     is `run`"
                )));
            }
            Ok(Word::Reset { by: self.by.clone(), reason: short(reason)? })
        };
        self.say(name, word).await.map(|_| ())
    }

    /// Says a word to the record as it is, and tells the nodes.
    async fn say(&self, name: &str, mut word: impl FnMut(&JobState, Ms) -> Result<Word>) -> Result<Vec<u64>> {
        let (mut record, mut now) = self.record(name).await?;
        for _ in 0..TRIES {
            let (state, lines, reached) = said(name, &record, Time::from(now).millisecond(), &mut word)?;
            let Some(state) = state else { return Ok(reached) };
            let swap = Swap { lines, ..Swap::new(key(name)?, Some(record.version), state) };
            let swaps = self.client.swap(&[swap]).await?;
            match only(swaps.each)? {
                Swapped::Done(_) => {
                    self.tell(&Changed::job(name)).await;
                    return Ok(reached);
                }
                Swapped::Differs(Some(other)) => (record, now) = (other, swaps.now),
                Swapped::Differs(None) => return Err(self.no_such(name).await),
                Swapped::Early(_) | Swapped::NotHeld => break,
            }
        }
        Err(busy(name))
    }

    /// Tells the nodes that there is news. The word is said already, so whoever said it must not say it again.
    pub(super) async fn tell(&self, changed: &Changed) {
        if let Err(error) = bump(&self.client, None, changed).await {
            tracing::warn!(%error, "it is done, but the nodes could not be told: they notice within 30 s");
        }
    }
}

/// What a word makes of a record: the state to be written, if it is another one; lines; the runs that it reached.
pub(super) fn said(
    name: &str,
    record: &Record,
    now: Ms,
    word: &mut impl FnMut(&JobState, Ms) -> Result<Word>,
) -> Result<(Option<String>, Vec<Line>, Vec<u64>)> {
    let was = JobState::read(&record.value, &key(name)?)?;
    let word = word(&was, now)?;
    let mut state = was.clone();
    let policy = Policy::new(Overlap::Skip);
    let Plan { lines, reached, .. } = say(&mut state, name, &trigger(name, &was)?, &policy, now, &word);
    let value = if state == was { None } else { Some(state.write()?) };
    Ok((value, latest(lines), reached))
}

/// Of the lines of each slot the last one. Who cancels many runs writes round the ring more than once.
fn latest(lines: Vec<Line>) -> Vec<Line> {
    let mut slots = HashSet::new();
    let mut lines: Vec<Line> = lines.into_iter().rev().filter(|line| slots.insert(line.slot.clone())).collect();
    lines.reverse();
    lines
}

fn room(name: &str, state: &JobState, more: usize) -> Result<()> {
    let waiting = state.queue.len();
    if waiting + more <= WAITING {
        return Ok(());
    }
    Err(Error::misused(format!(
        "{waiting} runs of job {name:?} wait already; at most {WAITING} may, so cancel some first"
    )))
}

pub(super) fn busy(name: &str) -> Error {
    Error::unavailable(format!("job {name:?} changes all the time; ask again"))
}
