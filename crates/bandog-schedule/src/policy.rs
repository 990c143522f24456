//! Policies of a job: overlaps, missed ticks, crashes and failures. Each is read from and written as a short text.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use bandog_core::{Error, MAX_TTL, Result};

/// What happens to a tick while the job still runs, anywhere in the cluster.
///
/// Written `skip`, `queue` (for one), `queue(10)`, `allow(3)`, `replace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// The tick is skipped, and recorded. Default of cron, fixed delays and single runs.
    Skip,
    /// Up to this number of ticks wait and run one after the other; further ones are skipped. Default of fixed rates,
    /// with 1000.
    Queue(NonZeroU32),
    /// Up to this number of runs at a time; further ticks are skipped.
    Allow(NonZeroU32),
    /// The run is cancelled, and the tick runs after its end.
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

/// What happens to ticks that no node claimed in time, because no node was alive or the store was down.
///
/// Ticks younger than the misfire grace run normally; this policy is for older ones. Written `skip`, `once`, `all(10)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUp {
    /// None of them runs.
    Skip,
    /// The latest one runs. Default.
    Once,
    /// The latest ticks up to this number run, the oldest first.
    All(NonZeroU32),
}

/// What happens to a run whose node died or lost its session. Written `retry`, `retry(3)`, `abandon`.
///
/// Each such death is a line of the history with the state [`crate::State::Lost`] and the attempt's number, and counts
/// as a failure for [`crate::Job::pause_after`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCrash {
    /// Another node runs the same tick again, with the next attempt's number and a greater fence: at least once. The
    /// same as [`OnCrash::RetryUpTo`] with [`MAX_DEATHS`], so that a run that kills every node comes to an end.
    Retry,
    /// The same, until this number of nodes has died during the run. Then the run is recorded as lost. A node that
    /// stops in order and hands over its run does not count.
    RetryUpTo(NonZeroU32),
    /// The run is recorded as lost: at most once. Default, as in Spring.
    Abandon,
}

/// Number of deaths after which [`OnCrash::Retry`] abandons a run.
pub const MAX_DEATHS: u32 = 5;

impl OnCrash {
    /// Whether another node may run it again.
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

/// Which nodes run a tick. Written `cluster`, `each_node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One node of the cluster. Default. Without a store there is only this process.
    Cluster,
    /// Every node by itself, without the store, for example to fill caches.
    EachNode,
}

/// What happens at a tick while the store does not answer. Written `fail_closed`, `fail_open`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreDown {
    /// Nothing runs until the store answers again. The tick is then claimed late, or missed. Default.
    FailClosed,
    /// The tick runs on every node that cannot reach the store, marked as unclaimed: so more than once. A fixed delay
    /// that another node was running at the time waits for the store, since the end of that run is unknown.
    FailOpen,
}

/// How a failed run is retried, within the same run and under the same fence.
///
/// Written `3`, `3 from 1s`, `3 from 1s to 1m`, `3 within 10m`, `3 until next tick`, and all of it
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
    pub(crate) times: u32,
    pub(crate) base: Duration,
    pub(crate) cap: Duration,
    within: Option<Duration>,
    until_next_tick: bool,
}

impl Retry {
    /// This number of retries. The first backoff is 1 s, each further one twice as long, up to 1 minute, plus a random
    /// part of up to a tenth.
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

    /// The longest backoff.
    #[must_use]
    pub const fn to(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// No retry starts later than this time after the first attempt. The time starts again when another node takes the
    /// run over. An attempt that has started continues: [`crate::Job::timeout`] limits it. Default no limit.
    #[must_use]
    pub const fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// No retry starts at or after the job's next tick, whose run does the same work. It has no effect on a fixed
    /// delay, which has no tick while it runs. By default retries continue.
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

    /// The backoff before this retry (1 is the first), or none if there is no such retry.
    pub(crate) fn backoff(&self, attempt: u32) -> Option<Duration> {
        if attempt > self.times {
            return None;
        }
        let doubled = self.base.saturating_mul(1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX));
        Some(doubled.min(self.cap).min(MAX_TTL).mul_f64(1.0 + fastrand::f64() / 10.0))
    }
}

/// Lease of a policy that no client has completed. It equals the default watchdog of a client.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// The settings of a job, except its name, its trigger and its body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Policy {
    pub(crate) overlap: Overlap,
    pub(crate) catch_up: CatchUp,
    pub(crate) window: Duration,
    pub(crate) misfire_grace: Duration,
    pub(crate) on_crash: OnCrash,
    /// Lease of the session under which a node runs the job: of the job, or else the watchdog of the scheduler's
    /// client. A scheduler without a store does not use it.
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

/// Splits `word` or `word(number)`.
fn split_number(text: &str) -> (&str, Option<&str>) {
    let text = text.trim();
    match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        Some((word, number)) => (word.trim(), Some(number.trim())),
        None => (text, None),
    }
}

fn count(text: &str) -> Option<NonZeroU32> {
    text.parse().ok()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The error about a text that is no policy: its number is wrong, or all of it.
fn unreadable<T>(what: &str, text: &str, words: &[&str], known: &str) -> Result<T> {
    match split_number(text) {
        (word, Some(n)) if words.contains(&word) && is_number(n) => {
            let allowed = format!("{word} takes a number from 1 to {}", u32::MAX);
            Err(Error::misused(format!("{what} = {text:?}: {allowed}")))
        }
        _ => unknown(what, text, known),
    }
}

fn unknown<T>(what: &str, text: &str, known: &str) -> Result<T> {
    Err(Error::misused(format!("{what} = {text:?} is unknown; write {known}")))
}

impl FromStr for Overlap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match split_number(text) {
            ("skip", None) => Ok(Self::Skip),
            ("queue", None) => Ok(Self::Queue(NonZeroU32::MIN)),
            ("replace", None) => Ok(Self::Replace),
            ("queue", Some(n)) if count(n).is_some() => Ok(Self::Queue(count(n).unwrap_or(NonZeroU32::MIN))),
            ("allow", Some(n)) if count(n).is_some() => Ok(Self::Allow(count(n).unwrap_or(NonZeroU32::MIN))),
            _ => unreadable("overlap", text, &["queue", "allow"], "skip, queue, queue(10), allow(3) or replace"),
        }
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::Queue(n) => write!(f, "queue({n})"),
            Self::Allow(n) => write!(f, "allow({n})"),
            Self::Replace => f.write_str("replace"),
        }
    }
}

impl FromStr for CatchUp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match split_number(text) {
            ("skip", None) => Ok(Self::Skip),
            ("once", None) => Ok(Self::Once),
            ("all", Some(n)) if count(n).is_some() => Ok(Self::All(count(n).unwrap_or(NonZeroU32::MIN))),
            _ => unreadable("catch_up", text, &["all"], "skip, once or all(10)"),
        }
    }
}

impl fmt::Display for CatchUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::Once => f.write_str("once"),
            Self::All(n) => write!(f, "all({n})"),
        }
    }
}

impl FromStr for OnCrash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match split_number(text) {
            ("retry", None) => Ok(Self::Retry),
            ("abandon", None) => Ok(Self::Abandon),
            ("retry", Some(n)) if count(n).is_some() => Ok(Self::RetryUpTo(count(n).unwrap_or(NonZeroU32::MIN))),
            _ => unreadable("on_crash", text, &["retry"], "retry, retry(3) or abandon"),
        }
    }
}

impl fmt::Display for OnCrash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry => f.write_str("retry"),
            Self::RetryUpTo(deaths) => write!(f, "retry({deaths})"),
            Self::Abandon => f.write_str("abandon"),
        }
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "cluster" => Ok(Self::Cluster),
            "each_node" => Ok(Self::EachNode),
            _ => unknown("scope", text, "cluster or each_node"),
        }
    }
}

impl FromStr for StoreDown {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "fail_closed" => Ok(Self::FailClosed),
            "fail_open" => Ok(Self::FailOpen),
            _ => unknown("store_down", text, "fail_closed or fail_open"),
        }
    }
}

impl FromStr for Retry {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match read_retry(text) {
            Some(retry) => Ok(retry),
            None if text.split_whitespace().next().is_some_and(|n| is_number(n) && n.parse::<u32>().is_err()) => {
                Err(Error::misused(format!("retry = {text:?}: it takes a number from 0 to {}", u32::MAX)))
            }
            None => unknown("retry", text, "3, \"3 from 1s to 1m\", \"3 within 10m\" or \"3 until next tick\""),
        }
    }
}

fn read_retry(text: &str) -> Option<Retry> {
    let mut words = text.split_whitespace().peekable();
    let mut retry = Retry::times(words.next()?.parse().ok()?);
    let mut time = |word| {
        if words.next_if_eq(&word).is_none() {
            return Some(None);
        }
        // A duration may have several words, as `1m 30s` has.
        let mut text = words.next()?.to_owned();
        while let Some(more) = words.next_if(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
            text = format!("{text} {more}");
        }
        humantime::parse_duration(&text).ok().map(Some)
    };
    (retry.base, retry.cap) = (time("from")?.unwrap_or(retry.base), time("to")?.unwrap_or(retry.cap));
    retry.within = time("within")?;
    let rest: Vec<&str> = words.collect();
    retry.until_next_tick = rest == ["until", "next", "tick"];
    (rest.is_empty() || retry.until_next_tick).then_some(retry)
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [base, cap] = [self.base, self.cap].map(humantime::format_duration);
        write!(f, "{} from {base} to {cap}", self.times)?;
        if let Some(within) = self.within {
            write!(f, " within {}", humantime::format_duration(within))?;
        }
        f.write_str(if self.until_next_tick { " until next tick" } else { "" })
    }
}
