//! The record of a job in the store.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bandog_core::{ClaimId, Error, ErrorKind, Holding, Key, Result};
use bandog_cron::{Cron, DayMatch, Daylight, Dialect, Rules, Time, Zone};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Kind, Paused, RunRow, State,
    pauses::AllJobsPause,
    plan::delay,
    policy::Policy,
    trigger::{DurationMs, TickCursor, Trigger, UnixMs, duration_ms},
};

/// Interval at which a node writes a heartbeat into the record of an idle job.
const HEARTBEAT_MS: DurationMs = 86_400_000;

/// A job's record. Times are in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobState {
    /// What the job is. None for jobs of this process only.
    pub(crate) spec: Option<Box<JobSpec>>,
    /// The newest tick that was ever claimed. It never expires and only rises, so a tick is claimed at most once.
    pub(crate) watermark: UnixMs,
    /// The start of a fixed rate's grid, and the time of a single run.
    pub(crate) anchor: UnixMs,
    /// The next tick of a fixed delay. It counts only while no run is under way or queued ([`JobState::tick_cursor`]).
    pub(crate) next_due: Option<UnixMs>,
    /// The fence of the last claim.
    pub(crate) fence: u64,
    /// The number of the last run.
    pub(crate) run: u64,
    pub(crate) counts: Counts,
    /// Number of lines written to each ring of the history.
    pub(crate) rings: [u64; 3],
    /// Number of failures since the last success.
    pub(crate) streak: u32,
    /// Start and end of the run that ended last. Ticks in between overlapped with it.
    pub(crate) busy: Option<(UnixMs, UnixMs)>,
    /// The tick of the last run that ended well.
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
    /// The last heartbeat of a node that has the job: at most a day ago while such a node lives. 0 for jobs of this
    /// process only.
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
    /// The node that created the record did not know the job before, and no other node has added earlier values.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fresh: bool,
    /// Number of times an operator has set the watermark back. A node that remembers a smaller number does not restore
    /// its watermark.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) resets: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_never(time: &UnixMs) -> bool {
    *time == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
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

/// A run that waits to start. In the record it is an array: `[id, kind, tick, attempt]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuedRun {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) tick: UnixMs,
    pub(crate) attempt: u32,
}

impl Serialize for QueuedRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        (self.id, self.kind, self.tick, self.attempt).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for QueuedRun {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let (id, kind, tick, attempt) = Deserialize::deserialize(deserializer)?;
        Ok(Self { id, kind, tick, attempt })
    }
}

/// The lock and the claim of a node's session. In the record it is an array: `["schedule/node/1", "uuid:7"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionClaim {
    /// The key of the lock.
    pub(crate) lock: String,
    pub(crate) claim: String,
}

impl SessionClaim {
    pub(crate) fn new(holding: &Holding) -> Self {
        Self { lock: holding.key.to_string(), claim: holding.id.to_string() }
    }

    /// None if the record is damaged.
    fn holding(&self) -> Option<Holding> {
        Some(Holding { key: Key::new(&self.lock).ok()?, id: self.claim.parse::<ClaimId>().ok()? })
    }
}

impl Serialize for SessionClaim {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        (&self.lock, &self.claim).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SessionClaim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let (lock, claim) = Deserialize::deserialize(deserializer)?;
        Ok(Self { lock, claim })
    }
}

/// A run that a node has claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LiveRun {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) tick: UnixMs,
    pub(crate) due: UnixMs,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
    pub(crate) started: UnixMs,
    /// The node's name, for histories.
    pub(crate) node: Arc<str>,
    /// The node's session. None for jobs of this process only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<Box<SessionClaim>>,
    /// A caller or a newer run has cancelled it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancel: bool,
}

impl LiveRun {
    /// The claim of the node's session. When it has expired, the node is dead.
    pub(crate) fn holding(&self) -> Option<Holding> {
        self.session.as_deref()?.holding()
    }
}

/// A line of the history: a run that ended, or a range of ticks that did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HistoryEntry {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) tick: UnixMs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<UnixMs>,
    pub(crate) ticks: u64,
    pub(crate) attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<u64>,
    pub(crate) due: UnixMs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<UnixMs>,
    pub(crate) ended: UnixMs,
    pub(crate) state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

/// The settings of a job, for processes that do not have its code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobSpec {
    pub(crate) trigger: TriggerSpec,
    pub(crate) enabled: bool,
    pub(crate) revision: u64,
    pub(crate) lease_ms: DurationMs,
    pub(crate) overlap: String,
    pub(crate) catch_up: String,
    pub(crate) on_crash: String,
    pub(crate) jitter_ms: DurationMs,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TriggerSpec {
    Cron {
        text: String,
        dialect: String,
        zone: String,
        /// `day_match` and `daylight`, unless they are the dialect's defaults.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        days: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        daylight: Option<String>,
    },
    FixedRate(DurationMs),
    FixedDelay(DurationMs),
    At(UnixMs),
    Once,
    Never,
}

impl TriggerSpec {
    fn cron(cron: &Cron) -> Self {
        let rules = cron.rules();
        let usual = Cron::parse_with(cron.text(), rules).ok().map(|cron| cron.daylight());
        Self::Cron {
            text: cron.text().to_owned(),
            dialect: rules.dialect().to_string(),
            zone: cron.zone().to_string(),
            days: rules.day_match().map(|days| days.to_string()),
            daylight: Some(cron.daylight())
                .filter(|daylight| Some(*daylight) != usual)
                .map(|daylight| daylight.to_string()),
        }
    }
}

impl JobSpec {
    pub(crate) fn new(trigger: &Trigger, policy: &Policy, lease: Duration) -> Self {
        let trigger = match trigger {
            Trigger::Cron(cron) => TriggerSpec::cron(cron),
            Trigger::FixedRate(period) => TriggerSpec::FixedRate(*period),
            Trigger::FixedDelay(delay) => TriggerSpec::FixedDelay(*delay),
            Trigger::At(time) => TriggerSpec::At(*time),
            Trigger::Once => TriggerSpec::Once,
            Trigger::Never => TriggerSpec::Never,
        };
        Self {
            trigger,
            enabled: policy.enabled,
            revision: policy.revision,
            lease_ms: duration_ms(lease),
            overlap: policy.overlap.to_string(),
            catch_up: policy.catch_up.to_string(),
            on_crash: policy.on_crash.to_string(),
            jitter_ms: duration_ms(policy.jitter),
        }
    }

    /// The trigger. None if another version of bandog wrote one that this version cannot read.
    pub(crate) fn trigger(&self) -> Option<Trigger> {
        Some(match &self.trigger {
            TriggerSpec::Cron { text, dialect, zone, days, daylight } => {
                let dialect: Dialect = dialect.parse().ok()?;
                let rules: Rules = match days {
                    Some(days) => dialect.days(days.parse::<DayMatch>().ok()?),
                    None => dialect.into(),
                };
                let cron = Cron::parse_with(text, rules).ok()?.in_zone(Zone::named(zone).ok()?);
                Trigger::Cron(Arc::new(match daylight {
                    Some(daylight) => cron.on_daylight(daylight.parse::<Daylight>().ok()?),
                    None => cron,
                }))
            }
            // Only a damaged record has such a period.
            TriggerSpec::FixedRate(period) | TriggerSpec::FixedDelay(period) if *period <= 0 => return None,
            TriggerSpec::FixedRate(period) => Trigger::FixedRate(*period),
            TriggerSpec::FixedDelay(delay) => Trigger::FixedDelay(*delay),
            TriggerSpec::At(time) => Trigger::At(*time),
            TriggerSpec::Once => Trigger::Once,
            TriggerSpec::Never => Trigger::Never,
        })
    }
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

    /// Whether its ticks are not claimed, because the job or all jobs are paused.
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

    /// The state after the clock was set by this time.
    pub(crate) fn move_by(&mut self, by: DurationMs) {
        let times = [&mut self.watermark, &mut self.anchor].into_iter().chain(&mut self.next_due);
        let busy = self.busy.iter_mut().flat_map(|(began, ended)| [began, ended]);
        let runs = self.running.iter_mut().map(|live| &mut live.started);
        let waiting = self.queue.iter_mut().map(|queued| &mut queued.tick);
        times.chain(busy).chain(runs).chain(waiting).for_each(|time| *time = time.saturating_add(by));
    }

    /// Whether no run of it is under way or queued.
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

    /// A fixed delay has no next tick while a run of any kind is under way or queued. The end of that run sets it.
    pub(crate) fn tick_cursor(&self) -> TickCursor {
        let next_due = self.next_due.filter(|_| self.is_idle());
        TickCursor { watermark: self.watermark, anchor: self.anchor, next_due }
    }

    /// Counts a fixed delay from this end of a run.
    pub(crate) fn wait_from(&mut self, end: UnixMs, trigger: &Trigger) {
        self.next_due = Some(end.saturating_add(delay(trigger)));
    }

    /// Counts a fixed delay from the end of an unclaimed run, unless the next tick is already later.
    pub(crate) fn wait_from_unclaimed(&mut self, end: UnixMs, trigger: &Trigger) {
        self.next_due = self.next_due.max(Some(end.saturating_add(delay(trigger))));
    }

    /// Marks a tick that ran without a claim. A queued run for the same tick of a fixed delay is removed, since there
    /// is one at a time. For other triggers, queued runs and retries stay.
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

impl HistoryEntry {
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The row for operators.
    pub(crate) fn row(&self, job: &str) -> RunRow {
        RunRow {
            job: job.to_owned(),
            id: self.id,
            tick: format_time(self.tick),
            from: self.from.map(format_time),
            ticks: self.ticks,
            kind: self.kind,
            attempt: self.attempt,
            node: self.node.as_deref().map(str::to_owned),
            fence: self.fence,
            due: format_time(self.due),
            started: self.started.map(format_time),
            ended: Some(format_time(self.ended)),
            lag_ms: self.started.map(|started| lag_ms(started, self.due)),
            state: self.state,
            error: self.error.clone(),
            note: self.note.clone(),
            orphaned: false,
        }
    }
}

impl LiveRun {
    /// The row for operators.
    pub(crate) fn row(&self, job: &str) -> RunRow {
        RunRow {
            job: job.to_owned(),
            id: self.id,
            tick: format_time(self.tick),
            from: None,
            ticks: 1,
            kind: self.kind,
            attempt: self.attempt,
            node: Some(self.node.to_string()),
            fence: Some(self.fence),
            due: format_time(self.due),
            started: Some(format_time(self.started)),
            ended: None,
            lag_ms: Some(lag_ms(self.started, self.due)),
            state: State::Running,
            error: None,
            note: None,
            orphaned: false,
        }
    }
}

impl QueuedRun {
    /// The row for operators.
    pub(crate) fn row(&self, job: &str) -> RunRow {
        let Self { id, kind, tick, attempt } = *self;
        RunRow {
            job: job.to_owned(),
            id,
            tick: format_time(tick),
            from: None,
            ticks: 1,
            kind,
            attempt,
            node: None,
            fence: None,
            due: format_time(tick),
            started: None,
            ended: None,
            lag_ms: None,
            state: State::Queued,
            error: None,
            note: None,
            orphaned: false,
        }
    }
}

/// An instant in RFC 3339.
pub(crate) fn format_time(ms: UnixMs) -> String {
    Time::from_millisecond(ms).to_string()
}

fn lag_ms(started: UnixMs, due: UnixMs) -> u64 {
    started.saturating_sub(due).max(0).unsigned_abs()
}

mod change;
#[cfg(test)]
mod tests;
