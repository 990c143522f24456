//! One job of a file.

mod hint;
mod read;

use std::{ffi::OsString, num::NonZeroU32, path::PathBuf, time::Duration};

use bandog::schedule::{CatchUp, Job, OnCrash, Overlap, Retry, Scope, StoreDown};
use bandog_cron::{Cron, Time, Zone};

pub(super) use self::read::{DEFAULTS, Zones, read, report_duplicates};

/// Default maximum number of waiting ticks of a job with a fixed rate, as in [`Job::fixed_rate`].
const BACKLOG: NonZeroU32 = NonZeroU32::MIN.saturating_add(999);
/// Time for the report of a killed command, which the scheduler gives to a run in addition to the command's grace.
const REPORT: Duration = Duration::from_secs(1);
/// Default maximum delay of a tick, as in [`Job::misfire_grace`].
const MISFIRE_GRACE: Duration = Duration::from_secs(60);

/// A job of a file, without mistakes. Keys that are missing in the file have their default values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JobEntry {
    pub(super) name: String,
    pub(super) trigger: Trigger,
    pub(super) command: Vec<OsString>,
    /// The command for a run that has failed for good.
    pub(super) on_failure: Option<Vec<OsString>>,
    /// The working directory of the command. None means that of bandog.
    pub(super) directory: Option<PathBuf>,
    pub(super) env: Vec<(String, String)>,
    pub(super) initial_delay: Duration,
    pub(super) overlap: Overlap,
    pub(super) catch_up: CatchUp,
    pub(super) misfire_grace: Duration,
    pub(super) on_crash: OnCrash,
    pub(super) timeout: Option<Duration>,
    /// None means the default lease, which follows the ttl of the client's watchdog and the period.
    pub(super) lease: Option<Duration>,
    pub(super) retry: Retry,
    pub(super) jitter: Duration,
    pub(super) enabled: bool,
    pub(super) rare: Rare,
}

/// Settings of a job that few files have. None means the default of [`Job`].
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Rare {
    pub(super) window: Option<Duration>,
    pub(super) grace: Option<Duration>,
    pub(super) pause_after: Option<NonZeroU32>,
    pub(super) revision: Option<u64>,
    pub(super) scope: Option<Scope>,
    pub(super) store_down: Option<StoreDown>,
}

/// The trigger of a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Trigger {
    /// An expression and its time zone.
    Cron(Box<Cron>),
    /// The period between two ticks.
    FixedRate(Duration),
    /// The time from the end of a run to the next tick.
    FixedDelay(Duration),
    /// The instant of the only tick.
    At(Time),
}

impl Trigger {
    /// The default overlap policy of a job with this trigger.
    fn overlap(&self) -> Overlap {
        match self {
            Self::FixedRate(_) => Overlap::Queue(BACKLOG),
            Self::Cron(_) | Self::FixedDelay(_) | Self::At(_) => Overlap::Skip,
        }
    }

    /// The trigger as it is written in the file. A job's row in the store has the same text.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Cron(cron) => format!("cron {cron}"),
            Self::FixedRate(period) => format!("fixed_rate {}", humantime::format_duration(*period)),
            Self::FixedDelay(delay) => format!("fixed_delay {}", humantime::format_duration(*delay)),
            Self::At(time) => format!("at {time}"),
        }
    }

    /// The trigger in words.
    pub(super) fn description(&self) -> String {
        match self {
            Self::Cron(cron) => cron.describe(),
            Self::FixedRate(period) => format!("Every {}", humantime::format_duration(*period)),
            Self::FixedDelay(delay) => format!("{} after each run", humantime::format_duration(*delay)),
            Self::At(time) => format!("Once at {time}"),
        }
    }

    pub(super) fn zone(&self) -> Zone {
        match self {
            Self::Cron(cron) => cron.zone().clone(),
            Self::FixedRate(_) | Self::FixedDelay(_) | Self::At(_) => Zone::UTC,
        }
    }
}

/// Sets what the file sets.
fn set<T>(job: Job, value: Option<T>, setter: fn(Job, T) -> Job) -> Job {
    value.into_iter().fold(job, setter)
}

/// The instant that is `delay` after `time`.
fn later(time: Time, delay: Duration) -> Time {
    Time::from_millisecond(time.millisecond().saturating_add(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)))
}

impl JobEntry {
    /// The next fires, as if the job were registered at the time `now`.
    pub(super) fn fires(&self, now: Time, count: usize) -> Vec<Time> {
        let first = match &self.trigger {
            Trigger::Cron(cron) => cron.next(now),
            Trigger::FixedRate(_) | Trigger::FixedDelay(_) => Some(later(now, self.initial_delay)),
            Trigger::At(time) => Some(*time).filter(|time| *time > now),
        };
        let first = first.filter(|_| self.enabled);
        first.map(|first| self.fires_from(first, count)).unwrap_or_default()
    }

    /// At most `count` fires: the first fire, and the later fires that can be computed from the first.
    pub(super) fn fires_from(&self, first: Time, count: usize) -> Vec<Time> {
        match &self.trigger {
            Trigger::Cron(cron) => [first].into_iter().chain(cron.after(first)).take(count).collect(),
            Trigger::FixedRate(period) => {
                (0..u32::MAX).take(count).map(|index| later(first, period.saturating_mul(index))).collect()
            }
            Trigger::FixedDelay(_) | Trigger::At(_) => vec![first],
        }
    }

    /// The job for the scheduler, without the function that a run calls.
    pub(super) fn job(&self) -> Job {
        let mut job = match &self.trigger {
            Trigger::Cron(cron) => Job::from_cron(&self.name, (**cron).clone()),
            Trigger::FixedRate(period) => Job::fixed_rate(&self.name, *period).initial_delay(self.initial_delay),
            Trigger::FixedDelay(delay) => Job::fixed_delay(&self.name, *delay).initial_delay(self.initial_delay),
            Trigger::At(time) => Job::at(&self.name, *time),
        };
        job = job.overlap(self.overlap).catch_up(self.catch_up).misfire_grace(self.misfire_grace);
        job = job.on_crash(self.on_crash).retry(self.retry).jitter(self.jitter);
        if let Some(timeout) = self.timeout {
            job = job.timeout(timeout);
        }
        if let Some(lease) = self.lease {
            job = job.lease(lease);
        }
        let Rare { window, grace, pause_after, revision, scope, store_down } = &self.rare;
        job = set(job, *window, Job::window);
        job = set(job, grace.map(|grace| grace + REPORT), Job::grace);
        job = set(job, pause_after.map(NonZeroU32::get), Job::pause_after);
        job = set(job, *revision, Job::revision);
        job = set(job, *scope, Job::scope);
        job = set(job, *store_down, Job::store_down);
        if self.enabled { job } else { job.disabled() }
    }
}
