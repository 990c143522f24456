//! Jobs from outside: for operators, the command and the page. No scheduler need run in this process.

use std::time::SystemTime;

use bandog_core::{ClientId, Error, Key, Member, Pattern, Record, Records, Result, Swap, Swapped, Version};
use bandog_cron::Time;
use bandog_sync::Client;

use crate::{
    JobRow, Overlap, Paused, RunRow,
    dispatch::{PREFIX, bump, key, only},
    job::check_name,
    plan::{Plan, Word, say},
    policy::Policy,
    state::{JobState, Past, time},
    trigger::{Ms, Trigger},
};

/// Records in one call.
const BATCH: usize = 256;
/// So often a word is said again when the job changes at the same time.
const TRIES: u32 = 50;
/// Ticks in one backfill.
const BACKFILL: usize = 10_000;
/// So many names are told to somebody who asks for one that is not there.
const NAMED: usize = 10;

/// The jobs of a store: what they are, what they did, and words to them. Cheap to clone.
///
/// Nodes notice a word within a second.
#[derive(Debug, Clone)]
pub struct Jobs {
    client: Client,
    by: String,
}

impl Jobs {
    /// The jobs of this client's store, under its prefix.
    pub fn over(client: &Client) -> Self {
        let Member { host, program, .. } = Member::here(ClientId::random());
        Self { client: client.clone(), by: format!("{program}@{host}") }
    }

    /// Who speaks, for the records of pauses. Default: the running program and its machine.
    #[must_use]
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.by = who.into();
        self
    }

    /// The jobs whose names match, sorted by name.
    ///
    /// # Errors
    /// As [`bandog_core::Records::read`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn list(&self, pattern: &Pattern) -> Result<Vec<JobRow>> {
        let pattern = pattern.after(PREFIX);
        let mut keys = self.client.names(&pattern).await?;
        keys.sort_unstable();
        let mut rows = Vec::with_capacity(keys.len());
        for some in keys.chunks(BATCH) {
            let reading = self.client.read(some, &[]).await?;
            for (key, record) in some.iter().zip(reading.records) {
                // It may have been forgotten meanwhile.
                let Some(record) = record? else { continue };
                rows.push(row(name_of(key), &JobState::read(&record.value, key)?, reading.now));
            }
        }
        Ok(rows)
    }

    /// One job.
    ///
    /// # Errors
    /// `Misused` when the store knows no such job, with names that are near; else as [`Jobs::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn show(&self, name: &str) -> Result<JobRow> {
        let (state, _, now) = self.state(name).await?;
        Ok(row(name, &state, now))
    }

    /// What became of its runs, the latest first: those that wait or run, then the last 50 that ended well, the last 50
    /// that did not, and the last 50 ranges of ticks that did not run.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn history(&self, name: &str) -> Result<Vec<RunRow>> {
        let (state, ..) = self.state(name).await?;
        let mut past: Vec<Past> =
            self.client.history(&key(name)?).await?.iter().filter_map(|line| Past::read(&line.value)).collect();
        past.sort_by_key(|past| std::cmp::Reverse((past.ended, past.id)));
        let waiting = state.queue.iter().rev().map(|waiting| waiting.row(name));
        let running = state.running.iter().rev().map(|live| live.row(name));
        Ok(waiting.chain(running).chain(past.iter().map(|past| past.row(name))).collect())
    }

    /// Runs it now, beside its ticks, after those that wait already; also while it is paused or disabled. Gives the
    /// run's number.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn run(&self, name: &str) -> Result<u64> {
        let reached = self.say(name, |_, _| Ok(Word::Run)).await?;
        Ok(reached.first().copied().unwrap_or_default())
    }

    /// Stops its ticks until [`Jobs::resume`]. What runs goes on.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn pause(&self, name: &str, reason: &str) -> Result<()> {
        let paused = |now| Paused { by: self.by.clone(), reason: reason.to_owned(), at: time(now) };
        self.say(name, |_, now| Ok(Word::Pause(paused(now)))).await.map(|_| ())
    }

    /// Lets its ticks run again from now on; those in between are recorded as skipped. False: it was not paused.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn resume(&self, name: &str) -> Result<bool> {
        let (state, ..) = self.state(name).await?;
        if state.paused.is_none() {
            return Ok(false);
        }
        self.say(name, |_, _| Ok(Word::Resume)).await.map(|_| true)
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
    /// As [`Jobs::show`]; `Misused` for a range without ticks, with too many, or in the future.
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn backfill(&self, name: &str, from: Time, to: Time) -> Result<u64> {
        let (from, to) = (from.millisecond(), to.millisecond());
        let ticks = |state: &JobState, now: Ms| {
            if to > now {
                return Err(Error::misused(format!(
                    "{} is in the future; a backfill is for ticks of the past",
                    time(to)
                )));
            }
            let trigger = trigger(name, state)?;
            if let Trigger::FixedDelay(_) = trigger {
                return Err(Error::misused("a fixed delay has no ticks in the past"));
            }
            let place = crate::trigger::Place { watermark: from.saturating_sub(1), ..state.place() };
            let ticks: Vec<Ms> = trigger.between(place, place.watermark, to).take(BACKFILL + 1).collect();
            match ticks.len() {
                0 => Err(Error::misused(format!("the job has no tick from {} to {}", time(from), time(to)))),
                many if many > BACKFILL => {
                    Err(Error::misused(format!("more than {BACKFILL} ticks lie in this range; backfill it in parts")))
                }
                _ => Ok(Word::Backfill(ticks)),
            }
        };
        let reached = self.say(name, ticks).await?;
        Ok(u64::try_from(reached.len()).unwrap_or(u64::MAX))
    }

    /// Forgets a job and its history. A node that still has it registers it again at its next start.
    ///
    /// # Errors
    /// As [`Jobs::show`]; `Misused` while it runs.
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn forget(&self, name: &str) -> Result<()> {
        let (state, version, _) = self.state(name).await?;
        if !state.running.is_empty() {
            return Err(Error::misused(format!("job {name:?} runs now; cancel it first")));
        }
        let swap = Swap { to: None, ..Swap::new(key(name)?, Some(version), "") };
        match only(self.client.swap(&[swap]).await?.each)? {
            Swapped::Done(_) => bump(&self.client).await,
            Swapped::Differs(_) | Swapped::Early(_) | Swapped::NotHeld => {
                Err(Error::unavailable(format!("job {name:?} changed just now; ask again")))
            }
        }
    }

    async fn state(&self, name: &str) -> Result<(JobState, Version, SystemTime)> {
        check_name(name)?;
        let key = key(name)?;
        let reading = self.client.read(std::slice::from_ref(&key), &[]).await?;
        let Some(Record { version, value }) = only(reading.records)? else { return Err(self.unknown(name).await) };
        Ok((JobState::read(&value, &key)?, version, reading.now))
    }

    /// Says a word to the record, and tells the nodes.
    async fn say(&self, name: &str, word: impl Fn(&JobState, Ms) -> Result<Word>) -> Result<Vec<u64>> {
        for _ in 0..TRIES {
            let (mut state, version, now) = self.state(name).await?;
            let now = Time::from(now).millisecond();
            let word = word(&state, now)?;
            let trigger = trigger(name, &state)?;
            let policy = Policy::new(Overlap::Skip);
            let was = state.clone();
            let Plan { lines, reached, .. } = say(&mut state, name, &trigger, &policy, now, &word);
            if state == was {
                return Ok(reached);
            }
            let swap = Swap { lines, ..Swap::new(key(name)?, Some(version), state.write()?) };
            match only(self.client.swap(&[swap]).await?.each)? {
                Swapped::Done(_) => {
                    bump(&self.client).await?;
                    return Ok(reached);
                }
                Swapped::Differs(_) | Swapped::Early(_) | Swapped::NotHeld => {}
            }
        }
        Err(Error::unavailable(format!("job {name:?} changes all the time; ask again")))
    }

    async fn unknown(&self, name: &str) -> Error {
        let mut known: Vec<String> = match self.client.names(&Pattern::all().after(PREFIX)).await {
            Ok(keys) => keys.iter().map(|key| name_of(key).to_owned()).collect(),
            Err(error) => return error,
        };
        let all = known.len();
        known.truncate(NAMED);
        let dots = if all > NAMED { ", …" } else { "" };
        let list =
            if known.is_empty() { "it knows none".into() } else { format!("it knows {}{dots}", known.join(", ")) };
        Error::misused(format!("the store knows no job {name:?}; {list}"))
    }
}

fn name_of(key: &Key) -> &str {
    key.as_str().strip_prefix(PREFIX).unwrap_or(key.as_str())
}

fn trigger(name: &str, state: &JobState) -> Result<Trigger> {
    let trigger = state.spec.as_ref().and_then(|spec| spec.trigger());
    trigger.ok_or_else(|| {
        Error::misused(format!("job {name:?} was written by a version of bandog that this one cannot read"))
    })
}

fn row(name: &str, state: &JobState, now: SystemTime) -> JobRow {
    let trigger = state.spec.as_ref().and_then(|spec| spec.trigger());
    let spec = state.spec.as_deref();
    let is_on = spec.is_some_and(|spec| spec.enabled) && state.paused.is_none();
    let mut place = state.place();
    // A watermark of the past may have ticks behind it that nobody will run as they are.
    if !matches!(trigger, Some(Trigger::FixedDelay(_))) {
        place.watermark = place.watermark.max(Time::from(now).millisecond());
    }
    let next = trigger.as_ref().filter(|_| is_on).and_then(|trigger| trigger.next(place));
    JobRow {
        name: name.to_owned(),
        trigger: trigger.as_ref().map_or_else(String::new, Trigger::text),
        description: trigger.as_ref().map_or_else(String::new, Trigger::description),
        zone: trigger.as_ref().and_then(Trigger::zone),
        enabled: spec.is_some_and(|spec| spec.enabled),
        paused: state.paused.as_deref().cloned(),
        next: next.map(time),
        watermark: time(state.watermark),
        lease_ms: spec.map_or(0, |spec| spec.lease_ms.unsigned_abs()),
        overlap: spec.map(|spec| spec.overlap.clone()).unwrap_or_default(),
        catch_up: spec.map(|spec| spec.catch_up.clone()).unwrap_or_default(),
        on_crash: spec.map(|spec| spec.on_crash.clone()).unwrap_or_default(),
        live: state.running.iter().map(|live| live.row(name)).collect(),
        queued: u64::try_from(state.queue.len()).unwrap_or(u64::MAX),
        ok: state.counts.ok,
        failed: state.counts.failed,
        skipped: state.counts.skipped,
        missed: state.counts.missed,
        lost: state.counts.lost,
        last: state.last.as_ref().map(|past| past.row(name)),
    }
}
