//! What the cluster knows of one job: the record that nodes swap.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bandog_core::{ClaimId, Error, ErrorKind, Holding, Key, Result};
use bandog_cron::{Cron, DayMatch, Daylight, Dialect, Rules, Time, Zone};
use serde::{Deserialize, Serialize};

use crate::{
    Kind, Paused, RunRow, State,
    pauses::All,
    plan::delay,
    policy::Policy,
    trigger::{Ms, Place, Trigger, millis},
};

/// So often a node says of an idle job that it has it.
const DAY: Ms = 86_400_000;

/// A job's record. Times are in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobState {
    /// What the job is; none for jobs of this process only.
    pub(crate) spec: Option<Box<Spec>>,
    /// The newest tick that was ever claimed. It only rises, and never expires: so a tick is claimed once, for ever.
    pub(crate) watermark: Ms,
    /// Where a fixed rate's grid begins, and when a single run is due.
    pub(crate) anchor: Ms,
    /// When a fixed delay is due, unless a run is under way or waits ([`JobState::place`]).
    pub(crate) next_due: Option<Ms>,
    /// The last fence.
    pub(crate) fence: u64,
    /// The last run's number.
    pub(crate) run: u64,
    pub(crate) counts: Counts,
    /// How many lines each ring of the history was given.
    pub(crate) rings: [u64; 3],
    /// Failures since the last run that ended well.
    pub(crate) streak: u32,
    /// When the run that ended last began and ended: ticks in between came while the job ran.
    pub(crate) busy: Option<(Ms, Ms)>,
    /// The tick of the last run that ended well.
    pub(crate) last_success: Option<Ms>,
    /// The run that ended last, without its note.
    pub(crate) last: Option<Box<Past>>,
    pub(crate) running: Vec<Live>,
    pub(crate) queue: VecDeque<Waiting>,
    /// Deaths of nodes that ran it, by the run's number: of runs that run or wait. A node of an older version drops them,
    /// so they count anew when it has written the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[expect(clippy::box_collection, reason = "there may be a million jobs, and hardly one has deaths to count")]
    pub(crate) deaths: Option<Box<BTreeMap<u64, u32>>>,
    pub(crate) paused: Option<Box<Paused>>,
    /// The last word to all jobs that has reached this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) all: Option<Box<All>>,
    /// When a node that has the job last said so: while one lives, within a day. 0 for jobs of this process only.
    #[serde(default, skip_serializing_if = "is_never")]
    pub(crate) seen: Ms,
    /// Where and when the record was made; none for jobs of this process only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) born: Option<Box<Born>>,
}

/// The making of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Born {
    /// What the board said then: a store that has lost its data begins another era.
    pub(crate) era: String,
    /// No tick before this time was ever claimed in this record.
    pub(crate) at: Ms,
    /// Whoever made it knew nothing of the job, and nobody has added what was known before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fresh: bool,
    /// How often its watermark was set back by hand: who remembers a greater one from before is not asked.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) resets: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_never(time: &Ms) -> bool {
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

/// A run that waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waiting(pub(crate) u64, pub(crate) Kind, pub(crate) Ms, pub(crate) u32);

/// A run that a node has claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Live {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) tick: Ms,
    pub(crate) due: Ms,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
    pub(crate) started: Ms,
    /// The node, for people.
    pub(crate) node: Arc<str>,
    /// The node's session: the lock and the claim. None in this process only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<Box<(String, String)>>,
    /// Somebody wants it to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancel: bool,
}

impl Live {
    /// The lock whose end says that the node is dead.
    pub(crate) fn holding(&self) -> Option<Holding> {
        let (key, id) = self.session.as_deref()?;
        Some(Holding { key: Key::new(key).ok()?, id: id.parse::<ClaimId>().ok()? })
    }
}

/// A run that ended, or ticks that did not run: one line of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Past {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) tick: Ms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Ms>,
    pub(crate) ticks: u64,
    pub(crate) attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<u64>,
    pub(crate) due: Ms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<Ms>,
    pub(crate) ended: Ms,
    pub(crate) state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

/// What a job is, so that processes that do not have its code can tell of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) trigger: SpecTrigger,
    pub(crate) enabled: bool,
    pub(crate) revision: u64,
    pub(crate) lease_ms: Ms,
    pub(crate) overlap: String,
    pub(crate) catch_up: String,
    pub(crate) on_crash: String,
    pub(crate) jitter_ms: Ms,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpecTrigger {
    Cron {
        text: String,
        dialect: String,
        zone: String,
        /// What was said beside the dialect: of two restricted day fields, and of clocks that are set forward or back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        days: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        daylight: Option<String>,
    },
    FixedRate(Ms),
    FixedDelay(Ms),
    At(Ms),
    Once,
    Never,
}

impl SpecTrigger {
    fn cron(cron: &Cron) -> Self {
        let rules = cron.rules();
        let usual = Cron::parse_with(cron.text(), rules).ok().map(|cron| cron.daylight());
        Self::Cron {
            text: cron.text().to_owned(),
            dialect: rules.dialect().to_string(),
            zone: cron.zone().to_string(),
            days: rules.day_match().map(|days| days.to_string()),
            daylight: Some(cron.daylight()).filter(|said| Some(*said) != usual).map(|said| said.to_string()),
        }
    }
}

impl Spec {
    pub(crate) fn new(trigger: &Trigger, policy: &Policy, lease: Duration) -> Self {
        let trigger = match trigger {
            Trigger::Cron(cron) => SpecTrigger::cron(cron),
            Trigger::FixedRate(period) => SpecTrigger::FixedRate(*period),
            Trigger::FixedDelay(delay) => SpecTrigger::FixedDelay(*delay),
            Trigger::At(time) => SpecTrigger::At(*time),
            Trigger::Once => SpecTrigger::Once,
            Trigger::Never => SpecTrigger::Never,
        };
        Self {
            trigger,
            enabled: policy.enabled,
            revision: policy.revision,
            lease_ms: millis(lease),
            overlap: policy.overlap.to_string(),
            catch_up: policy.catch_up.to_string(),
            on_crash: policy.on_crash.to_string(),
            jitter_ms: millis(policy.jitter),
        }
    }

    /// The trigger that it tells of; none if another version of bandog wrote what this one cannot read.
    pub(crate) fn trigger(&self) -> Option<Trigger> {
        Some(match &self.trigger {
            SpecTrigger::Cron { text, dialect, zone, days, daylight } => {
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
            // No job has such a period; a damaged record may.
            SpecTrigger::FixedRate(period) | SpecTrigger::FixedDelay(period) if *period <= 0 => return None,
            SpecTrigger::FixedRate(period) => Trigger::FixedRate(*period),
            SpecTrigger::FixedDelay(delay) => Trigger::FixedDelay(*delay),
            SpecTrigger::At(time) => Trigger::At(*time),
            SpecTrigger::Once => Trigger::Once,
            SpecTrigger::Never => Trigger::Never,
        })
    }
}

impl JobState {
    /// A job that nobody knew before: nothing before now is missed.
    pub(crate) fn new(policy: &Policy, now: Ms, spec: Option<Box<Spec>>) -> Self {
        let first = now.saturating_add(millis(policy.initial_delay));
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

    /// The record of a job that the store does not know, whose ticks count from this time.
    pub(crate) fn born(policy: &Policy, at: Ms, spec: Option<Box<Spec>>, era: &str) -> Self {
        let born = Some(Box::new(Born { era: era.to_owned(), at, fresh: true, resets: 0 }));
        Self { born, seen: at, ..Self::new(policy, at, spec) }
    }

    pub(crate) fn read(text: &str, key: &Key) -> Result<Self> {
        serde_json::from_str(text).map_err(|source| {
            Error::new(ErrorKind::Corrupt, "the record is no job that this version can read").at(key).caused_by(source)
        })
    }

    pub(crate) fn write(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|source| Error::new(ErrorKind::Corrupt, "the job's state cannot be written").caused_by(source))
    }

    /// Whether it is time to say again that a node has the job.
    pub(crate) fn is_to_be_seen(&self, now: Ms) -> bool {
        now.saturating_sub(self.seen) >= DAY
    }

    /// Whether its ticks are not claimed: because of a pause of its own, or of all jobs.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some() || self.all_paused().is_some()
    }

    pub(crate) fn all_paused(&self) -> Option<&Paused> {
        self.all.as_ref()?.paused.as_ref()
    }

    /// Whether this word to all jobs is a later one than the job has heard.
    pub(crate) fn lags(&self, word: &All) -> bool {
        self.all.as_ref().map_or(0, |all| all.number) < word.number
    }

    /// The same state by a clock that was set by so much.
    pub(crate) fn move_by(&mut self, by: Ms) {
        let times = [&mut self.watermark, &mut self.anchor].into_iter().chain(&mut self.next_due);
        let busy = self.busy.iter_mut().flat_map(|(began, ended)| [began, ended]);
        let runs = self.running.iter_mut().map(|live| &mut live.started);
        let waiting = self.queue.iter_mut().map(|waiting| &mut waiting.2);
        times.chain(busy).chain(runs).chain(waiting).for_each(|time| *time = time.saturating_add(by));
    }

    /// Whether no run of it is under way or waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.queue.is_empty()
    }

    /// Counts one more death of a node that ran this run, and gives how many there are.
    pub(crate) fn count_death(&mut self, run: u64) -> u32 {
        let deaths = self.deaths.get_or_insert_default().entry(run).or_default();
        *deaths = deaths.saturating_add(1);
        *deaths
    }

    /// Drops the deaths of runs that have ended.
    pub(crate) fn drop_deaths(&mut self) {
        let Self { deaths: Some(deaths), running, queue, .. } = self else { return };
        deaths.retain(|run, _| {
            running.iter().any(|live| live.id == *run) || queue.iter().any(|waiting| waiting.0 == *run)
        });
        if deaths.is_empty() {
            self.deaths = None;
        }
    }

    /// A fixed delay is not due while a run is under way or waits, by whatever it came: the end of that run tells when.
    pub(crate) fn place(&self) -> Place {
        let next_due = self.next_due.filter(|_| self.is_idle());
        Place { watermark: self.watermark, anchor: self.anchor, next_due }
    }

    /// A fixed delay counts from this end of a run.
    pub(crate) fn wait_from(&mut self, end: Ms, trigger: &Trigger) {
        self.next_due = Some(end.saturating_add(delay(trigger)));
    }

    /// The same of a run that nobody claimed: of it and of another's beside it the later end counts.
    pub(crate) fn wait_from_unclaimed(&mut self, end: Ms, trigger: &Trigger) {
        self.next_due = self.next_due.max(Some(end.saturating_add(delay(trigger))));
    }

    /// A tick has run, or runs, unclaimed. That of a fixed delay waits no more, for there is one at a time; what others
    /// have begun of other triggers' ticks, and what is to be tried again, stays.
    pub(crate) fn ran(&mut self, tick: Ms, trigger: &Trigger) {
        self.watermark = self.watermark.max(tick);
        if let Trigger::FixedDelay(_) = trigger {
            let is_it = |Waiting(_, kind, waiting, attempt): &Waiting| {
                *waiting == tick && *attempt == 1 && matches!(kind, Kind::Scheduled | Kind::CatchUp)
            };
            self.queue.retain(|waiting| !is_it(waiting));
        }
    }
}

impl Past {
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// As people see it.
    pub(crate) fn row(&self, job: &str) -> RunRow {
        RunRow {
            job: job.to_owned(),
            id: self.id,
            tick: time(self.tick),
            from: self.from.map(time),
            ticks: self.ticks,
            kind: self.kind,
            attempt: self.attempt,
            node: self.node.as_deref().map(str::to_owned),
            fence: self.fence,
            due: time(self.due),
            started: self.started.map(time),
            ended: Some(time(self.ended)),
            lag_ms: self.started.map(|started| lag(started, self.due)),
            state: self.state,
            error: self.error.clone(),
            note: self.note.clone(),
            orphaned: false,
        }
    }
}

impl Live {
    /// As people see it.
    pub(crate) fn row(&self, job: &str) -> RunRow {
        RunRow {
            job: job.to_owned(),
            id: self.id,
            tick: time(self.tick),
            from: None,
            ticks: 1,
            kind: self.kind,
            attempt: self.attempt,
            node: Some(self.node.to_string()),
            fence: Some(self.fence),
            due: time(self.due),
            started: Some(time(self.started)),
            ended: None,
            lag_ms: Some(lag(self.started, self.due)),
            state: State::Running,
            error: None,
            note: None,
            orphaned: false,
        }
    }
}

impl Waiting {
    /// As people see it.
    pub(crate) fn row(&self, job: &str) -> RunRow {
        let Self(id, kind, tick, attempt) = *self;
        RunRow {
            job: job.to_owned(),
            id,
            tick: time(tick),
            from: None,
            ticks: 1,
            kind,
            attempt,
            node: None,
            fence: None,
            due: time(tick),
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

/// An instant as people read it.
pub(crate) fn time(ms: Ms) -> String {
    Time::from_millisecond(ms).to_string()
}

fn lag(started: Ms, due: Ms) -> u64 {
    started.saturating_sub(due).max(0).unsigned_abs()
}

mod change;
#[cfg(test)]
mod tests;
