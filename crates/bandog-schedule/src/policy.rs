//! Policies of a job: overlaps, missed ticks, crashes and failures. Each policy has a short text, which can be parsed.

mod text;

use std::{num::NonZeroU32, time::Duration};

use bandog_core::MAX_TTL;

/// The policy for a tick that is due while the job runs on any node of the cluster.
///
/// As text: `skip`, `queue` (the same as `queue(1)`), `queue(10)`, `allow(3)`, `replace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// The tick is skipped, and recorded as skipped. This is the default, except for jobs with a fixed rate.
    Skip,
    /// Up to this number of ticks wait and run one after the other. Further ticks are skipped. With 1000,
    /// this is the default of jobs with a fixed rate.
    Queue(NonZeroU32),
    /// Up to this number of runs are under way at the same time. Further ticks are skipped.
    Allow(NonZeroU32),
    /// The run under way is cancelled, and the tick runs after that run has ended.
    Replace,
}

impl Overlap {
    /// Maximum number of concurrent runs.
    pub(crate) fn max_runs(self) -> usize {
        match self {
            Self::Skip | Self::Queue(_) | Self::Replace => 1,
            Self::Allow(max) => to_usize(max),
        }
    }
}

pub(crate) fn to_usize(count: NonZeroU32) -> usize {
    usize::try_from(count.get()).unwrap_or(usize::MAX)
}

/// The policy for ticks that no node has claimed in time, for example because no node was alive or the store was down.
///
/// Ticks that are younger than the misfire grace ([`crate::Job::misfire_grace`]) run normally. This policy is for older
/// ticks. A tick that waits for a slot of a node, or whose job has a fixed delay or fires once, is never missed.
///
/// As text: `skip`, `once`, `all(10)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUp {
    /// No missed tick runs.
    Skip,
    /// The latest missed tick runs, unless a later tick is still within the misfire grace and runs anyway. Default.
    Once,
    /// The latest missed ticks run, at most this number. Among these ticks, the oldest one runs first.
    All(NonZeroU32),
}

/// The policy for a run whose node died or lost its session. As text: `retry`, `retry(3)`, `abandon`.
///
/// For each such death, the history gets a line with the state [`crate::State::Lost`] and the attempt's number. The
/// death also counts as a failure for [`crate::Job::pause_after`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCrash {
    /// Another node runs the same tick again, with the next attempt's number and a greater fence. So the tick runs at
    /// least once, and may run more often. This is the same as [`OnCrash::RetryUpTo`] with [`MAX_DEATHS`]. So a run
    /// that kills each of its nodes is not repeated forever.
    Retry,
    /// As [`OnCrash::Retry`], but when this number of nodes has died during the run, the run is recorded as lost. A
    /// node that is stopped ([`crate::Running::stop`]) hands its run over, and does not count as dead.
    RetryUpTo(NonZeroU32),
    /// The run is recorded as lost. So the tick runs at most once. This is the default, as in Spring.
    Abandon,
}

/// With [`OnCrash::Retry`], a run is recorded as lost after this number of deaths.
pub const MAX_DEATHS: u32 = 5;

impl OnCrash {
    /// Whether another node is allowed to run the tick again.
    pub(crate) fn retries(self) -> bool {
        match self {
            Self::Retry | Self::RetryUpTo(_) => true,
            Self::Abandon => false,
        }
    }

    /// Number of deaths after which a run is lost.
    pub(crate) fn max_deaths(self) -> u32 {
        match self {
            Self::Retry => MAX_DEATHS,
            Self::RetryUpTo(deaths) => deaths.get(),
            Self::Abandon => 1,
        }
    }
}

/// Which nodes run a tick. As text: `cluster`, `each_node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A single node of the cluster runs the tick. This is the default. Without a store, the cluster is only this
    /// process.
    Cluster,
    /// Each node runs the tick by itself, without the store, for example to fill caches.
    EachNode,
}

/// The policy for a tick that is due while the store does not answer. As text: `fail_closed`, `fail_open`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreDown {
    /// The tick does not run until the store answers again. Then the tick is claimed late, or is missed. This is the
    /// default.
    FailClosed,
    /// The tick runs on each node that cannot reach the store. So it might run more than once. These runs have the kind
    /// [`crate::Kind::Unclaimed`]. Jobs with a fixed delay have an exception: if another node runs the job when the
    /// store goes down, this node does not know the end of that run. So the job waits for the store.
    FailOpen,
}

/// How a failed run is retried. Retries are attempts of the same run, and have the same fence.
///
/// As text: `3`, `3 from 1s`, `3 from 1s to 1m`, `3 within 10m` or `3 until next tick`. A text with all parts is
/// `3 from 1s to 1m within 10m until next tick`.
///
/// ```
/// use bandog::schedule::{Job, Retry, Run};
/// use std::time::Duration;
///
/// let retry = Retry::times(10).within(Duration::from_secs(600)).until_next_tick();
/// assert_eq!("10 within 10m until next tick".parse::<Retry>().unwrap(), retry);
/// let job = Job::cron("report", "0 0 * * * ?").retry(retry).run(async |_: Run| Err::<(), _>("no paper"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Maximum number of retries.
    pub(crate) times: u32,
    /// The first backoff.
    pub(crate) base: Duration,
    /// The longest backoff, without the random time that is added.
    pub(crate) cap: Duration,
    within: Option<Duration>,
    until_next_tick: bool,
}

impl Retry {
    /// At most this number of retries. The first backoff (the time before a retry) is 1 s. Each further backoff is
    /// twice as long as the backoff before it. A backoff of more than 1 minute is shortened to 1 minute. Then a random
    /// time is added, which is at most a tenth of the backoff.
    pub const fn times(times: u32) -> Self {
        let (base, cap) = (Duration::from_secs(1), Duration::from_secs(60));
        Self { times, base, cap, within: None, until_next_tick: false }
    }

    /// The first backoff.
    #[must_use]
    pub const fn from(mut self, base: Duration) -> Self {
        self.base = base;
        self
    }

    /// The longest backoff, without the random time that is added.
    #[must_use]
    pub const fn to(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// Maximum time between the start of the first attempt and the start of a retry. When another node takes the run
    /// over, the time begins again. An attempt that has started is not stopped at the end of this time. To limit its
    /// duration, use [`crate::Job::timeout`]. Default: no limit.
    #[must_use]
    pub const fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// No retry starts at or after the job's next tick, because the run of that tick does the same work. By default,
    /// retries continue after the next tick. This setting has no effect on jobs with a fixed delay, because they have
    /// no next tick while they run.
    #[must_use]
    pub const fn until_next_tick(mut self) -> Self {
        self.until_next_tick = true;
        self
    }

    /// Maximum time from the first attempt to the start of a retry. `next` returns the time until the next tick.
    pub(crate) fn limit(&self, next: impl FnOnce() -> Option<Duration>) -> Option<Duration> {
        let next = if self.until_next_tick { next() } else { None };
        [self.within, next].into_iter().flatten().min()
    }

    /// The backoff before a retry. `attempt`: the number of the retry; the first retry has number 1. None if the policy
    /// does not allow this retry.
    pub(crate) fn backoff(&self, attempt: u32) -> Option<Duration> {
        if attempt > self.times {
            return None;
        }
        let doubled = self.base.saturating_mul(1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX));
        Some(doubled.min(self.cap).min(MAX_TTL).mul_f64(1.0 + fastrand::f64() / 10.0))
    }
}

/// Lease of a job if the scheduler has no client. The value is the same as the default watchdog of a client.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// The settings of a job, except its name, its trigger and its body. The methods of [`crate::Job`] with the same names
/// describe the settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Policy {
    pub(crate) overlap: Overlap,
    pub(crate) catch_up: CatchUp,
    pub(crate) window: Duration,
    pub(crate) misfire_grace: Duration,
    pub(crate) on_crash: OnCrash,
    /// Lease of the session under which a node runs the job. The value is [`crate::Job::lease`]. The default is the
    /// watchdog of the scheduler's client. A scheduler without a store does not use the lease.
    pub(crate) lease: Duration,
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) retry: Retry,
    pub(crate) jitter: Duration,
    pub(crate) initial_delay: Duration,
    pub(crate) enabled: bool,
    pub(crate) revision: u64,
    pub(crate) scope: Scope,
    pub(crate) store_down: StoreDown,
    pub(crate) pause_after: Option<NonZeroU32>,
}

impl Policy {
    /// The default settings, with this overlap policy.
    pub(crate) const fn new(overlap: Overlap) -> Self {
        Self {
            overlap,
            catch_up: CatchUp::Once,
            window: Duration::from_secs(3600),
            misfire_grace: Duration::from_secs(60),
            on_crash: OnCrash::Abandon,
            lease: DEFAULT_LEASE,
            timeout: None,
            grace: Duration::from_secs(5),
            retry: Retry::times(0),
            jitter: Duration::ZERO,
            initial_delay: Duration::ZERO,
            enabled: true,
            revision: 0,
            scope: Scope::Cluster,
            store_down: StoreDown::FailClosed,
            pause_after: None,
        }
    }
}
