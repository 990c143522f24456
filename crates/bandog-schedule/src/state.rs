//! The record of a job in the store.

mod runs;
mod spec;

use std::collections::{BTreeMap, VecDeque};

use bandog_core::{Error, ErrorKind, Key, Result};
use serde::{Deserialize, Serialize};

use crate::{
    Kind, Paused,
    pauses::AllJobsPause,
    policy::Policy,
    trigger::{DurationMs, TickCursor, Trigger, UnixMs, duration_ms},
};

pub(crate) use self::{
    runs::{HistoryEntry, LiveRun, QueuedRun, SessionClaim, format_time},
    spec::JobSpec,
};

/// Interval at which a node writes a heartbeat into the record of an idle job.
const HEARTBEAT_MS: DurationMs = 86_400_000;
/// Minimum time without a heartbeat of an unknown job: a job that no live node has.
pub(crate) const MIN_UNKNOWN_MS: DurationMs = 2 * HEARTBEAT_MS;

/// A job's record. Times are in milliseconds since 1970. A tick is an instant at which the job is due. A claim is the
/// write of a tick or a run into the record by the node that runs it. An era is the random name of the store's data,
/// which changes when the store loses its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobState {
    /// The settings of the job. None for jobs of this process only.
    pub(crate) spec: Option<Box<JobSpec>>,
    /// The newest tick that was ever claimed. The watermark only rises (except by a reset of an operator), so a tick is
    /// claimed at most once.
    pub(crate) watermark: UnixMs,
    /// For a fixed rate: the tick from which the periods are counted. For a job that fires once: its tick.
    pub(crate) anchor: UnixMs,
    /// The next tick of a fixed delay. It is ignored while a run is under way or queued ([`JobState::tick_cursor`]).
    pub(crate) next_due: Option<UnixMs>,
    /// The fence of the last claim.
    pub(crate) fence: u64,
    /// The number of the last run.
    pub(crate) run: u64,
    pub(crate) counts: Counts,
    /// Number of lines that were ever written to each ring of the history. A ring keeps the last 50 lines.
    pub(crate) rings: [u64; 3],
    /// Number of failures in a row, since the last success.
    pub(crate) streak: u32,
    /// Start and end of the run that ended last. Ticks between these two times overlapped with this run.
    pub(crate) busy: Option<(UnixMs, UnixMs)>,
    /// The tick of the last run that succeeded.
    pub(crate) last_success: Option<UnixMs>,
    /// The run that ended last, without its note.
    pub(crate) last: Option<Box<HistoryEntry>>,
    pub(crate) running: Vec<LiveRun>,
    pub(crate) queue: VecDeque<QueuedRun>,
    /// Number of node deaths by the number of the run, for runs that run or are queued. Nodes of older versions drop
    /// this field, so the count starts again after they write the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[expect(clippy::box_collection, reason = "there may be a million jobs, and hardly one has deaths to count")]
    pub(crate) deaths: Option<Box<BTreeMap<u64, u32>>>,
    pub(crate) paused: Option<Box<Paused>>,
    /// The last pause or resume of all jobs that this record contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) all: Option<Box<AllJobsPause>>,
    /// Time of the last heartbeat of a node that has the job. While such a node is alive, the heartbeat is at most a
    /// day old. 0 for jobs of this process only.
    #[serde(default, skip_serializing_if = "is_never")]
    pub(crate) seen: UnixMs,
    /// Where and when the record was created. None for jobs of this process only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) born: Option<Box<Creation>>,
}

/// The creation of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Creation {
    /// The era of the store at the creation. A store that has lost its data has another era.
    pub(crate) era: String,
    /// No tick before this time was ever claimed in this record.
    pub(crate) at: UnixMs,
    /// Whether the record lacks the values from before its creation: the node that created it did not know the job, and
    /// no other node has added the values that it remembers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fresh: bool,
    /// Number of times an operator has set the watermark back. A node that remembers a smaller number does not restore
    /// its watermark.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) resets: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_never(time: &UnixMs) -> bool {
    *time == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) missed: u64,
    pub(crate) lost: u64,
}

impl JobState {
    /// The state of a new job. No tick before `now` is missed.
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

    /// The record of a job that is not in the store. Its ticks count from `at`.
    pub(crate) fn create(policy: &Policy, at: UnixMs, spec: Option<Box<JobSpec>>, era: &str) -> Self {
        let born = Some(Box::new(Creation { era: era.to_owned(), at, fresh: true, resets: 0 }));
        Self { born, seen: at, ..Self::new(policy, at, spec) }
    }

    pub(crate) fn read(text: &str, key: &Key) -> Result<Self> {
        serde_json::from_str(text).map_err(|source| {
            Error::new(ErrorKind::Corrupt, "this version cannot read the record of the job").at(key).caused_by(source)
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

    /// Time of the last heartbeat, if the heartbeat is so old that no live node can have the job.
    pub(crate) fn unknown_since(&self, now: UnixMs) -> Option<UnixMs> {
        Some(self.seen).filter(|seen| *seen > 0 && now.saturating_sub(*seen) >= MIN_UNKNOWN_MS)
    }

    /// Whether the job or all jobs are paused, so that no node claims its ticks.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some() || self.all_paused().is_some()
    }

    pub(crate) fn all_paused(&self) -> Option<&Paused> {
        self.all.as_ref()?.paused.as_ref()
    }

    /// Whether this pause or resume of all jobs is newer than the one in the record.
    pub(crate) fn has_not_applied(&self, all_pause: &AllJobsPause) -> bool {
        self.all.as_ref().map_or(0, |all| all.number) < all_pause.number
    }

    /// Moves all times of the state by this duration, after the clock was set.
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

    /// Counts a node's death during this run, and returns the number of deaths.
    pub(crate) fn count_death(&mut self, run: u64) -> u32 {
        let deaths = self.deaths.get_or_insert_default().entry(run).or_default();
        *deaths = deaths.saturating_add(1);
        *deaths
    }

    /// Drops the deaths of runs that have ended.
    pub(crate) fn drop_deaths(&mut self) {
        let Self { deaths: Some(deaths), running, queue, .. } = self else { return };
        deaths.retain(|run, _| {
            running.iter().any(|live| live.id == *run) || queue.iter().any(|queued| queued.id == *run)
        });
        if deaths.is_empty() {
            self.deaths = None;
        }
    }

    /// The values that the next tick depends on. A fixed delay has no next tick while a run of any kind is under way or
    /// queued: the end of that run sets it.
    pub(crate) fn tick_cursor(&self) -> TickCursor {
        let next_due = self.next_due.filter(|_| self.is_idle());
        TickCursor { watermark: self.watermark, anchor: self.anchor, next_due }
    }

    /// Counts a fixed delay from this end of a run.
    pub(crate) fn wait_from(&mut self, end: UnixMs, trigger: &Trigger) {
        self.next_due = Some(end.saturating_add(trigger.delay()));
    }

    /// Counts a fixed delay from the end of an unclaimed run, unless the next tick is already later.
    pub(crate) fn wait_from_unclaimed(&mut self, end: UnixMs, trigger: &Trigger) {
        self.next_due = self.next_due.max(Some(end.saturating_add(trigger.delay())));
    }

    /// Marks a tick that ran without a claim. A fixed delay has one tick at a time, so its queued run for the same tick
    /// is removed. Other triggers keep their queued runs and retries.
    pub(crate) fn mark_ran(&mut self, tick: UnixMs, trigger: &Trigger) {
        self.watermark = self.watermark.max(tick);
        if let Trigger::FixedDelay(_) = trigger {
            let is_it = |queued: &QueuedRun| {
                queued.tick == tick && queued.attempt == 1 && matches!(queued.kind, Kind::Scheduled | Kind::CatchUp)
            };
            self.queue.retain(|queued| !is_it(queued));
        }
    }
}

#[cfg(test)]
mod tests;
