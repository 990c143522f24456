//! A job: its name, trigger, body and policies.

mod definition;
mod draft;

use std::{fmt, num::NonZeroU32, panic::Location, sync::Arc, time::Duration};

use bandog_core::{Error, Failure, MAX_TTL, Outcome, Result, check_ttl};
use bandog_cron::{Cron, DayMatch, Daylight, Dialect, Phrasing, Time};

use self::draft::{CronDraft, TriggerDraft};
use crate::{
    CatchUp, OnCrash, Overlap, Retry, Run, Scope, StoreDown,
    inject::{Shares, WantedValues},
    policy::Policy,
    trigger::{MIN_PERIOD, Trigger, duration_ms},
};

pub use self::definition::MAX_NAME;
pub(crate) use self::definition::{Body, JobDefinition, check_name, run_body};

/// Minimum of the default lease, so that a node survives short pauses of its process.
const MIN_DEFAULT_LEASE: Duration = Duration::from_secs(10);

/// A job for a [`crate::Scheduler`], built step by step. [`Job::run`] completes it.
///
/// Methods with wrong values do not fail. Instead, [`crate::Scheduler::start`] returns an error that names the job.
///
/// ```
/// use bandog::schedule::{CatchUp, Job, Run};
/// use std::time::Duration;
///
/// let report = Job::cron("report", "0 15 10 ? * MON-FRI")
///     .zone("Europe/Berlin")
///     .catch_up(CatchUp::Skip)
///     .timeout(Duration::from_secs(600))
///     .run(async |run: Run| println!("the report of {}", run.tick()));
/// ```
#[must_use = "a job does nothing until a scheduler has it"]
pub struct Job {
    name: Box<str>,
    /// The trigger.
    when: TriggerDraft,
    policy: Policy,
    lease: Option<Duration>,
    body: Option<Body>,
    /// The first error in the job's values.
    error: Option<Error>,
    /// The values that the parameters of a declared function require.
    pub(crate) wants: Option<WantedValues>,
    /// The place in the source where the job was made. The error about two jobs with the same name contains it.
    pub(crate) location: &'static Location<'static>,
}

/// Default maximum number of queued ticks of a job with a fixed rate.
const DEFAULT_QUEUE: NonZeroU32 = NonZeroU32::MIN.saturating_add(999);

impl Job {
    /// A job with a cron expression. The default dialect is Quartz's, see [`Job::dialect`]. The default time zone is
    /// UTC, see [`Job::zone`]. The expression `-` disables the job, as in Spring.
    #[track_caller]
    pub fn cron(name: impl AsRef<str>, expression: impl AsRef<str>) -> Self {
        let text = expression.as_ref().into();
        let (dialect, days, daylight, zone) = (Dialect::Quartz, None, None, None);
        let expression = CronDraft { text, dialect, days, daylight, zone, phrasing: Phrasing::Calls };
        let is_dash = expression.is_dash();
        let job = Self::new(name, TriggerDraft::Cron(expression));
        if is_dash { job.disabled() } else { job }
    }

    /// A job with an expression that is parsed already, with its dialect, its zone and its rule for daylight saving.
    ///
    /// ```
    /// use bandog::schedule::{Cron, Job, Run, Zone};
    ///
    /// let cron = Cron::parse("0 15 10 ? * MON-FRI")?.in_zone(Zone::of_system("UTC")?);
    /// let job = Job::from_cron("report", cron).run(async |_: Run| ());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn from_cron(name: impl AsRef<str>, cron: Cron) -> Self {
        Self::new(name, TriggerDraft::Parsed(Arc::new(cron)))
    }

    /// A job that fires immediately and then once per period. All nodes compute the same ticks. The period must be
    /// between 1 ms and 365 days.
    ///
    /// A run that takes longer than the period delays the next ticks, which then run one after the other.
    #[track_caller]
    pub fn fixed_rate(name: impl AsRef<str>, period: Duration) -> Self {
        let job = Self::new(name, TriggerDraft::FixedRate(period)).overlap(Overlap::Queue(DEFAULT_QUEUE));
        job.at_least("fixed_rate", period, MIN_PERIOD)
    }

    /// A job that fires immediately. After the end of each run, the job waits for the delay and fires again. A run that
    /// an operator has requested also starts a new delay. The delay must be between 1 ms and 365 days.
    #[track_caller]
    pub fn fixed_delay(name: impl AsRef<str>, delay: Duration) -> Self {
        Self::new(name, TriggerDraft::FixedDelay(delay)).at_least("fixed_delay", delay, MIN_PERIOD)
    }

    /// A job that fires once, at this instant. The job never fires if the instant lies before the job's first
    /// registration.
    #[track_caller]
    pub fn at(name: impl AsRef<str>, time: Time) -> Self {
        Self::new(name, TriggerDraft::At(time))
    }

    /// A job that fires once, at its first registration. With [`Job::initial_delay`], the job fires after this delay
    /// instead.
    #[track_caller]
    pub fn once(name: impl AsRef<str>) -> Self {
        Self::new(name, TriggerDraft::Once)
    }

    #[track_caller]
    fn new(name: impl AsRef<str>, when: TriggerDraft) -> Self {
        let policy = Policy::new(Overlap::Skip);
        let location = Location::caller();
        let (lease, body, error, wants) = (None, None, None, None);
        Self { name: name.as_ref().into(), when, policy, lease, body, error, wants, location }
    }

    /// Sets the body: an async function of the [`Run`] that returns `()` or a `Result`. The body runs as a task of the
    /// runtime in which the scheduler was started. Errors and panics are failures: they are logged, counted and
    /// recorded, and the run is retried according to [`Job::retry`], unless the error can never succeed ([`Outcome`]). Failures never stop the schedule. The history
    /// keeps the first [`crate::MAX_ERROR`] bytes of an error's text.
    ///
    /// A later body replaces an earlier one. So a test can give a declared job another body: `sweep::job().run(…)`. The
    /// values that the function takes as [`crate::Shared`] are then not needed.
    ///
    /// # Cancel safety
    /// If a run is cancelled and does not end within [`Job::grace`], its future is dropped. If the node has lost its
    /// session (the lock that proves that the node is alive), the future is dropped immediately.
    pub fn run<F, G>(mut self, body: F) -> Self
    where
        F: Fn(Run) -> G + Send + Sync + 'static,
        G: Future<Output: Outcome> + Send + 'static,
    {
        self.wants = None;
        self.body = Some(Arc::new(move |run| {
            let future = body(run);
            Box::pin(async move { future.await.failure() })
        }));
        self
    }

    /// Sets a body that is allowed to block. The body runs in the runtime's blocking pool. A blocking body cannot be
    /// dropped while it runs, so it should check [`Run::is_cancelled`], or [`Run::is_stopping`] if it works in a loop.
    pub fn run_blocking<F, O>(mut self, body: F) -> Self
    where
        F: Fn(Run) -> O + Send + Sync + 'static,
        O: Outcome,
    {
        let body = Arc::new(body);
        self.wants = None;
        self.body = Some(Arc::new(move |run| {
            let body = Arc::clone(&body);
            Box::pin(async move {
                let done = tokio::task::spawn_blocking(move || body(run).failure()).await;
                done.unwrap_or_else(|ended| Some(Failure::new(ended.to_string())))
            })
        }));
        self
    }

    /// The time zone of a cron expression, by its IANA name. Default: UTC.
    pub fn zone(self, name: impl AsRef<str>) -> Self {
        self.with_cron("zone", |cron| cron.zone = Some(name.as_ref().into()))
    }

    /// The dialect of the cron expression. Default: Quartz.
    pub fn dialect(self, dialect: Dialect) -> Self {
        self.with_cron("dialect", |cron| cron.dialect = dialect)
    }

    /// Which days match if the cron expression restricts both the day of the month and the day of the week. The default
    /// is the rule of the dialect: Quartz refuses such an expression, in Spring both fields must match, and in Unix one
    /// of them must match.
    ///
    /// ```
    /// use bandog::schedule::{DayMatch, Job, Run};
    ///
    /// let job = Job::cron("friday the 13th", "0 0 9 13 * FRI").day_match(DayMatch::And).run(async |_: Run| ());
    /// ```
    pub fn day_match(self, days: DayMatch) -> Self {
        self.with_cron("day_match", |cron| cron.days = Some(days))
    }

    /// When the cron expression fires on days on which clocks are set forward or back. Default: [`Daylight::Elapsed`]
    /// if the hours of the expression are `*` or have a step, else [`Daylight::Pinned`].
    ///
    /// ```
    /// use bandog::schedule::{Daylight, Job, Run};
    ///
    /// let job = Job::cron("backup", "0 30 2 * * ?").zone("America/New_York").daylight(Daylight::Skip);
    /// # let _ = job.run(async |_: Run| ());
    /// ```
    pub fn daylight(self, daylight: Daylight) -> Self {
        self.with_cron("daylight", |cron| cron.daylight = Some(daylight))
    }

    /// Changes the cron expression. `what`: the name of the setting. If the job has another kind of trigger, the error
    /// contains this name.
    fn with_cron(mut self, what: &str, set: impl FnOnce(&mut CronDraft)) -> Self {
        match &mut self.when {
            TriggerDraft::Cron(cron) => set(cron),
            TriggerDraft::Parsed(_)
            | TriggerDraft::FixedRate(_)
            | TriggerDraft::FixedDelay(_)
            | TriggerDraft::At(_)
            | TriggerDraft::Once => {
                self.record_error(Error::misused(format!("{what} belongs to cron, but this job has another trigger")));
            }
        }
        self
    }

    /// Time between the job's first registration in the store and its first tick. Jobs with a cron expression and jobs
    /// from [`Job::at`] cannot have an initial delay. Default: zero.
    pub fn initial_delay(mut self, delay: Duration) -> Self {
        match &self.when {
            TriggerDraft::Cron(_) | TriggerDraft::Parsed(_) | TriggerDraft::At(_) => {
                self.record_error(Error::misused("initial_delay belongs to fixed_rate, fixed_delay and once"));
            }
            TriggerDraft::FixedRate(_) | TriggerDraft::FixedDelay(_) | TriggerDraft::Once => {
                self.policy.initial_delay = delay
            }
        }
        self.at_least("initial_delay", delay, Duration::ZERO)
    }

    /// The policy for a tick that is due while the job runs. Default: [`Overlap::Skip`]. For jobs with a fixed rate,
    /// the default is [`Overlap::Queue`] with 1000.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.policy.overlap = overlap;
        self
    }

    /// The policy for ticks that no node claimed in time. Default: [`CatchUp::Once`].
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.policy.catch_up = catch_up;
        self
    }

    /// Maximum age of a missed tick that is caught up. Default: 1 h.
    pub fn window(mut self, window: Duration) -> Self {
        self.policy.window = window;
        self.at_least("window", window, Duration::ZERO)
    }

    /// Maximum time between the planned start of a tick and its claim. A tick that is claimed later counts as missed. A
    /// tick that waits for a slot of a node is claimed after half of this time, so it is not missed. Default: 1 minute.
    pub fn misfire_grace(mut self, grace: Duration) -> Self {
        self.policy.misfire_grace = grace;
        self.at_least("misfire_grace", grace, Duration::ZERO)
    }

    /// The policy for a run whose node died. Default: [`OnCrash::Abandon`]. Choose [`OnCrash::Retry`] if a tick of the
    /// job must not be omitted, and no harm is done if it runs twice.
    pub fn on_crash(mut self, on_crash: OnCrash) -> Self {
        self.policy.on_crash = on_crash;
        self
    }

    /// If a node does not renew its session (the lock that proves that the node is alive) for this time, the node
    /// counts as dead. The lease can be shorter than a run, because a live node renews its session during the run. The
    /// lease must be between 100 ms and 365 days. Default: the watchdog of the client, which is 30 s by default. If the job's
    /// period is shorter than that, the default is a third of the watchdog, but at least 10 s, so that the death of a node
    /// costs a frequent job fewer ticks.
    pub fn lease(mut self, lease: Duration) -> Self {
        match check_ttl("lease", lease) {
            Ok(lease) => self.lease = Some(lease),
            Err(error) => self.record_error(error),
        }
        self
    }

    /// Maximum duration of one attempt. A longer attempt is cancelled. The timeout must be between 1 ms and 365 days.
    /// Default: no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy.timeout = Some(timeout);
        self.at_least("timeout", timeout, MIN_PERIOD)
    }

    /// Maximum time for which a cancelled run can continue. After this time, the run is dropped. Default: 5 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.policy.grace = grace;
        self.at_least("grace", grace, Duration::ZERO)
    }

    /// How a failed run is retried. Default: a failed run is not retried.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.policy.retry = retry;
        self
    }

    /// Spreads the starts of jobs that are due at the same time. Each tick is delayed by a pseudo-random time, which is
    /// less than `jitter`. All nodes compute the same delay for a tick. Default: zero.
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.policy.jitter = jitter;
        self.at_least("jitter", jitter, Duration::ZERO)
    }

    /// Disables the job's ticks. Operators can still run the job by hand.
    pub fn disabled(mut self) -> Self {
        self.policy.enabled = false;
        self
    }

    /// The revision of the job, for rolling deploys. If the store has a greater revision of the job than this node,
    /// this node claims no tick of the job. Default: 0.
    pub fn revision(mut self, revision: u64) -> Self {
        self.policy.revision = revision;
        self
    }

    /// Whether a single node or every node runs a tick. Default: [`Scope::Cluster`].
    pub fn scope(mut self, scope: Scope) -> Self {
        self.policy.scope = scope;
        self
    }

    /// The policy for a tick that is due while the store does not answer. Default: [`StoreDown::FailClosed`].
    pub fn store_down(mut self, store_down: StoreDown) -> Self {
        self.policy.store_down = store_down;
        self
    }

    /// Pauses the job after this number of failures in a row, at least 1. Default: never.
    pub fn pause_after(mut self, failures: u32) -> Self {
        self.policy.pause_after = NonZeroU32::new(failures);
        if failures == 0 {
            self.record_error(Error::misused("pause_after is 0; it must be at least 1"));
        }
        self
    }

    /// The same job with a body that calls `begin` before each attempt, and `end` with the result of `begin` after it. If
    /// the attempt is dropped, only the result of `begin` is dropped.
    pub(crate) fn watched<W: Send + 'static>(
        mut self,
        begin: impl Fn(&Run) -> W + Send + Sync + 'static,
        end: fn(W, Option<&Failure>),
    ) -> Self {
        self.body = self.body.map(|body| -> Body {
            Arc::new(move |run| {
                let (watch, body) = (begin(&run), Arc::clone(&body));
                Box::pin(async move {
                    let failure = run_body(&body, run).await;
                    end(watch, failure.as_ref());
                    failure
                })
            })
        });
        self
    }

    /// The name of the job.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks that a duration is at least `least` and at most 365 days. `what`: the name of the setting, for the error.
    fn at_least(mut self, what: &str, value: Duration, least: Duration) -> Self {
        if !(least..=MAX_TTL).contains(&value) {
            let least = humantime::format_duration(least);
            self.record_error(Error::misused(format!("{what} is {value:?}; it must be between {least} and 365 days")));
        }
        self
    }

    /// Keeps the first error.
    fn record_error(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// Changes the errors of the cron expression: they name the keys of `#[bandog::scheduled]` instead of the methods
    /// of this type.
    pub(crate) fn with_key_phrasing(mut self) -> Self {
        if let TriggerDraft::Cron(cron) = &mut self.when {
            cron.phrasing = Phrasing::Keys;
        }
        self
    }

    /// The job with this error. If the job has an error already, that error stays.
    pub(crate) fn with_error(mut self, error: Error) -> Self {
        self.record_error(error);
        self
    }

    /// Connects the parameters of a declared function with the values of the scheduler ([`crate::Scheduler::share`]).
    pub(crate) fn given(mut self, shares: &Shares) -> Self {
        if let Some(wants) = self.wants.take() {
            shares.add_wants(&self.name, wants);
        }
        self
    }

    /// Checks the job, and returns the job as the scheduler keeps it. `lease`: the watchdog of the scheduler's client, from
    /// which the default lease follows. None if the scheduler has no client.
    pub(crate) fn prepare(self, lease: Option<Duration>) -> Result<JobDefinition> {
        let named = |error: Error| Error::misused(format!("job {:?}: {error}", self.name));
        if let Some(error) = &self.error {
            return Err(named(error.clone()));
        }
        check_name(&self.name).map_err(named)?;
        let trigger = self.when.prepare(self.policy.enabled).map_err(named)?;
        let body = self.body.clone().ok_or_else(|| named(Error::misused("it has no body; end it with .run(…)")))?;
        let mut policy = self.policy;
        let default = lease.map(|watchdog| default_lease(&trigger, watchdog));
        policy.lease = self.lease.or(default).unwrap_or(policy.lease);
        Ok(JobDefinition { name: self.name.into(), trigger, policy: Arc::new(policy), body })
    }
}

/// The lease of a job without an explicit one. There are two values, so that a node has at most two sessions for them.
fn default_lease(trigger: &Trigger, watchdog: Duration) -> Duration {
    if trigger.period().is_some_and(|period| period < duration_ms(watchdog)) {
        (watchdog / 3).max(MIN_DEFAULT_LEASE).min(watchdog)
    } else {
        watchdog
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("name", &self.name).field("policy", &self.policy).finish_non_exhaustive()
    }
}
