//! The record of a job in the store.

mod runs;
mod spec;

use std::collections::{BTreeMap, VecDeque};

use bandog_core::{Error, ErrorKind, Key, Result};
use bandog_cron::Time;
use serde::{Deserialize, Serialize};

use crate::{
    Kind, Paused,
    pauses::AllJobsPause,
    policy::Policy,
    trigger::{DurationMs, TickCursor, Trigger, UnixMs, duration_ms},
};

pub(crate) use self::{
    runs::{HistoryEntry, LiveRun, QueuedRun, SessionClaim, format_time},
    spec::{JobSpec, TriggerSpec},
};

/// Interval at which a node writes a heartbeat into the record of an idle job.
const HEARTBEAT_MS: DurationMs = 86_400_000;
/// A job counts as unknown if it had no heartbeat for this time. No live node has the code of an unknown job.
pub(crate) const MIN_UNKNOWN_MS: DurationMs = 2 * HEARTBEAT_MS;

/// Time for which the runs of a lost record wait for the copies of all nodes, counted from the creation of the new record.
/// It is several polls long.
const COPIES_MS: DurationMs = 5_000;

/// A job's record. Times are in milliseconds since 1970. A tick is an instant at which the job is due. Before a node
/// runs a tick, the node claims the tick: it writes the tick's run into the record. The era is a random name of the
/// store's data. When the store loses its data, the era changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobState {
    /// The settings of the job. None for jobs of this process only.
    pub(crate) spec: Option<Box<JobSpec>>,
    /// The newest tick that was ever claimed. Only later ticks can be claimed, so a tick is claimed at most once. The
    /// watermark never falls, except when an operator resets the job.
    pub(crate) watermark: UnixMs,
    /// For a fixed rate: the tick from which the periods are counted. For a job that fires once: its tick.
    pub(crate) anchor: UnixMs,
    /// The next tick of a job with a fixed delay. Ignored while a run is under way or queued
    /// ([`JobState::tick_cursor`]).
    pub(crate) next_due: Option<UnixMs>,
    /// The fence of the last claim.
    pub(crate) fence: u64,
    /// The number of the last run.
    pub(crate) run: u64,
    /// Number of runs and ticks by result.
    pub(crate) counts: Counts,
    /// The history has three rings: for successful runs, for other runs, and for ticks that did not run. A ring keeps
    /// the last 50 lines. For each ring: the number of lines that were ever written.
    pub(crate) rings: [u64; 3],
    /// Number of failures since the last success.
    pub(crate) streak: u32,
    /// Start and end of the run that ended last. A tick between these two times overlapped with that run.
    pub(crate) busy: Option<(UnixMs, UnixMs)>,
    /// The tick of the last run that succeeded.
    pub(crate) last_success: Option<UnixMs>,
    /// The run that ended last, without its note.
    pub(crate) last: Option<Box<HistoryEntry>>,
    /// The runs under way.
    pub(crate) running: Vec<LiveRun>,
    /// The runs that wait to start.
    pub(crate) queue: VecDeque<QueuedRun>,
    /// For each run under way or queued: how many nodes have died during this run. The key is the number of the run.
    /// When a node with an older version of bandog writes the record, this field is lost, and the count starts at 0
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[expect(clippy::box_collection, reason = "there may be a million jobs, and hardly one has deaths to count")]
    pub(crate) deaths: Option<Box<BTreeMap<u64, u32>>>,
    /// The pause of this job.
    pub(crate) paused: Option<Box<Paused>>,
    /// The last pause or resume of all jobs that was applied to this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) all: Option<Box<AllJobsPause>>,
    /// Time of the last heartbeat. Each node that has the job's code writes a heartbeat when the last heartbeat is a
    /// day old. 0 for jobs of this process only.
    #[serde(default, skip_serializing_if = "is_never")]
    pub(crate) seen: UnixMs,
    /// The creation of the record. None for jobs of this process only, and for records of older versions of bandog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) born: Option<Box<Creation>>,
}

/// The creation of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Creation {
    /// The era of the store's data at the creation. If the store loses only its board (the record that contains the
    /// present era), the new era replaces this value.
    pub(crate) era: String,
    /// Time of the creation. No earlier tick was ever claimed in this record.
    pub(crate) at: UnixMs,
    /// Whether the record might lack values that an earlier record of the job had. True if no node has added the values
    /// of its copy of an earlier record yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fresh: bool,
    /// How often an operator has set the watermark back. If a node's copy of the record has a smaller number, the node
    /// does not restore the watermark of its copy.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) resets: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
/// Whether the time is 0. A time of 0 is not written to the record.
fn is_never(time: &UnixMs) -> bool {
    *time == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
/// As [`is_none`], for a large count.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
/// Whether the count is 0. A count of 0 is not written to the record.
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// Number of runs and ticks by result. The fields have the same meaning as in [`crate::JobRow`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) cancelled: u64,
    pub(crate) skipped: u64,
    pub(crate) missed: u64,
    pub(crate) lost: u64,
}

impl JobState {
    /// The state of a new job. Ticks before `now` are ignored, and do not count as missed.
    pub(crate) fn new(policy: &Policy, now: UnixMs, spec: Option<Box<JobSpec>>) -> Self {
        let first = now.saturating_add(duration_ms(policy.initial_delay));
        Self {
            spec,
            watermark: now - 1,
            anchor: first,
            next_due: Some(first),
            fence: 0,
            run: 0,
            counts: Counts::default(),
            rings: [0; 3],
            streak: 0,
            busy: None,
            last_success: None,
            last: None,
            running: Vec::new(),
            queue: VecDeque::new(),
            deaths: None,
            paused: None,
            born: None,
            all: None,
            seen: 0,
        }
    }

    /// The first record of a job that is not in the store yet. Ticks before `at` are ignored.
    pub(crate) fn create(policy: &Policy, at: UnixMs, spec: Option<Box<JobSpec>>, era: &str) -> Self {
        let born = Some(Box::new(Creation { era: era.to_owned(), at, fresh: true, resets: 0 }));
        Self { born, seen: at, ..Self::new(policy, at, spec) }
    }

    /// Parses a record. `key`: the key of the record, for the error.
    pub(crate) fn read(text: &str, key: &Key) -> Result<Self> {
        serde_json::from_str(text).map_err(|source| {
            Error::new(ErrorKind::Corrupt, "this version cannot read it").during("read").at(key).caused_by(source)
        })
    }

    pub(crate) fn write(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|source| Error::new(ErrorKind::Corrupt, "the job's state cannot be written").caused_by(source))
    }

    /// Whether the heartbeat of the job is due.
    pub(crate) fn needs_heartbeat(&self, now: UnixMs) -> bool {
        now.saturating_sub(self.seen) >= HEARTBEAT_MS
    }

    /// Time of the last heartbeat, if it is so old that no live node can have the job. None if the heartbeat is newer.
    pub(crate) fn unknown_since(&self, now: UnixMs) -> Option<UnixMs> {
        Some(self.seen).filter(|seen| *seen > 0 && now.saturating_sub(*seen) >= MIN_UNKNOWN_MS)
    }

    /// Whether the job or all jobs are paused. No node claims ticks of a paused job.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some() || self.all_paused().is_some()
    }

    /// The pause that is in effect and that the history does not show yet: no tick has been skipped since it began.
    pub(crate) fn unrecorded_pause(&self) -> Option<&Paused> {
        let pauses = || self.paused.as_deref().into_iter().chain(self.all_paused());
        let is_recorded =
            |pause: &Paused| pause.at.parse().is_ok_and(|began: Time| began.millisecond() <= self.watermark);
        pauses().next().filter(|_| !pauses().any(is_recorded))
    }

    /// The pause of all jobs, if it is in effect.
    pub(crate) fn all_paused(&self) -> Option<&Paused> {
        self.all.as_ref()?.paused.as_ref()
    }

    /// Whether this pause or resume of all jobs is newer than the one that was applied to the record.
    pub(crate) fn has_not_applied(&self, all_pause: &AllJobsPause) -> bool {
        self.all.as_ref().map_or(0, |all| all.number) < all_pause.number
    }

    /// Moves all times of the state by this duration, because the wall clock was set.
    pub(crate) fn move_by(&mut self, by: DurationMs) {
        let times = [&mut self.watermark, &mut self.anchor].into_iter().chain(&mut self.next_due);
        let busy = self.busy.iter_mut().flat_map(|(began, ended)| [began, ended]);
        let runs = self.running.iter_mut().map(|live| &mut live.started);
        let waiting = self.queue.iter_mut().map(|queued| &mut queued.tick);
        times.chain(busy).chain(runs).chain(waiting).for_each(|time| *time = time.saturating_add(by));
    }

    /// Whether no run of the job is under way or queued.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.queue.is_empty()
    }

    /// Counts the death of a node that ran this run. Returns the number of such deaths.
    pub(crate) fn count_death(&mut self, run: u64) -> u32 {
        let deaths = self.deaths.get_or_insert_default().entry(run).or_default();
        *deaths = deaths.saturating_add(1);
        *deaths
    }

    /// Removes the counts of runs that have ended.
    pub(crate) fn drop_deaths(&mut self) {
        let Self { deaths: Some(deaths), running, queue, .. } = self else { return };
        deaths.retain(|run, _| {
            running.iter().any(|live| live.id == *run) || queue.iter().any(|queued| queued.id == *run)
        });
        if deaths.is_empty() {
            self.deaths = None;
        }
    }

    /// Whether a run that was claimed or queued at this time is from before the store lost its data, and copies of other
    /// nodes can still show its end.
    pub(crate) fn awaits_copies(&self, at: UnixMs, now: UnixMs) -> bool {
        self.copies_until(now).is_some() && self.born.as_deref().is_some_and(|born| at < born.at)
    }

    /// After the store has lost the record: until when copies of other nodes can show the ends of runs. None: no longer.
    pub(crate) fn copies_until(&self, now: UnixMs) -> Option<UnixMs> {
        let born = self.born.as_deref().filter(|born| !born.fresh)?;
        Some(born.at.saturating_add(COPIES_MS)).filter(|until| now < *until)
    }

    /// The values that the next tick depends on. A job with a fixed delay has no next tick while a run of any kind is
    /// under way or queued, because the next tick depends on the end of that run.
    ///
    /// If an older version of bandog paused a job with a fixed delay, the record has no next tick. Then the job is due when
    /// the pause has ended.
    pub(crate) fn tick_cursor(&self) -> TickCursor {
        let last = self.busy.map_or(self.watermark, |(_, end)| end.max(self.watermark));
        let next_due = self.next_due.or_else(|| (!self.is_paused()).then_some(last.saturating_add(1)));
        let next_due = next_due.filter(|_| self.is_idle());
        TickCursor { watermark: self.watermark, anchor: self.anchor, next_due }
    }

    /// Sets the next tick of a job with a fixed delay. `end`: the end of a run, at which the delay begins.
    pub(crate) fn wait_from(&mut self, end: UnixMs, trigger: &Trigger) {
        self.next_due = Some(end.saturating_add(self.delay(trigger)));
    }

    /// The delay of a job with a fixed delay. If the record has another delay than this node's `trigger`, the record's
    /// delay counts: a newer replica has written it.
    pub(crate) fn delay(&self, trigger: &Trigger) -> DurationMs {
        match self.spec.as_ref().map(|spec| &spec.trigger) {
            Some(TriggerSpec::FixedDelay(delay)) => *delay,
            Some(_) | None => trigger.delay(),
        }
    }

    /// As `wait_from`, for the end of an unclaimed run. If the next tick is already later, the next tick does not
    /// change.
    pub(crate) fn wait_from_unclaimed(&mut self, end: UnixMs, trigger: &Trigger) {
        self.next_due = self.next_due.max(Some(end.saturating_add(self.delay(trigger))));
    }

    /// Marks a tick that ran without a claim. A job with a fixed delay has only one tick at a time. So if a run of the
    /// same tick is queued, this run is removed from the queue. For other triggers, queued runs and retries stay in the
    /// queue.
    pub(crate) fn mark_ran(&mut self, tick: UnixMs, trigger: &Trigger) {
        self.watermark = self.watermark.max(tick);
        if let Trigger::FixedDelay(_) = trigger {
            // Whether the queued run is the first attempt of the same tick.
            let is_it = |queued: &QueuedRun| {
                queued.tick == tick && queued.attempt == 1 && matches!(queued.kind, Kind::Scheduled | Kind::CatchUp)
            };
            self.queue.retain(|queued| !is_it(queued));
        }
    }
}

#[cfg(test)]
mod tests;
