//! A job: a name, a trigger, a body and policies.

use std::{
    fmt,
    num::NonZeroU32,
    panic::{AssertUnwindSafe, Location},
    sync::Arc,
    time::Duration,
};

use bandog_core::{Error, MAX_TTL, Result, check_ttl};
use bandog_cron::{Cron, DayMatch, Daylight, Dialect, ParseError, Phrasing, Time, Zone};
use futures_util::{FutureExt, future::BoxFuture};

use crate::{
    CatchUp, OnCrash, Outcome, Overlap, Retry, Run, Scope, StoreDown,
    inject::Wants,
    policy::Policy,
    run::Failure,
    trigger::{MIN_PERIOD, Trigger, millis},
};

/// A job to be handed to a [`crate::Scheduler`]: built step by step, and complete with [`Job::run`].
///
/// A wrong value is kept, and told with the job's name by [`crate::Scheduler::start`].
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
    when: When,
    policy: Policy,
    body: Option<Body>,
    fault: Option<Error>,
    pub(crate) wants: Option<Wants>,
    /// Where it was made, for the error of two jobs with one name.
    pub(crate) place: &'static Location<'static>,
}

/// A trigger as it is being built.
enum When {
    Cron(Expression),
    FixedRate(Duration),
    FixedDelay(Duration),
    At(Time),
    Once,
}

/// A cron expression and what was said of it.
struct Expression {
    text: Box<str>,
    dialect: Dialect,
    days: Option<DayMatch>,
    daylight: Option<Daylight>,
    zone: Option<Box<str>>,
    /// Whose words its errors use.
    phrasing: Phrasing,
}

/// How many ticks of a fixed rate wait by default.
const BACKLOG: NonZeroU32 = NonZeroU32::MIN.saturating_add(999);

impl Job {
    /// A job that fires when a cron expression does: Quartz's dialect and UTC, unless [`Job::dialect`] and
    /// [`Job::zone`] say otherwise. The expression `-` disables it, as in Spring.
    #[track_caller]
    pub fn cron(name: impl AsRef<str>, expression: impl AsRef<str>) -> Self {
        let text = expression.as_ref().into();
        let (dialect, days, daylight, zone) = (Dialect::Quartz, None, None, None);
        let expression = Expression { text, dialect, days, daylight, zone, phrasing: Phrasing::Calls };
        let is_dash = expression.is_dash();
        let job = Self::new(name, When::Cron(expression));
        if is_dash { job.disabled() } else { job }
    }

    /// A job that fires at once and then in every period (1 ms at least), on a grid that all nodes share.
    ///
    /// A run that takes longer than the period delays the ticks after it, which then run one after the other.
    #[track_caller]
    pub fn fixed_rate(name: impl AsRef<str>, period: Duration) -> Self {
        let job = Self::new(name, When::FixedRate(period)).overlap(Overlap::Queue(BACKLOG));
        job.at_least("fixed_rate", period, MIN_PERIOD)
    }

    /// A job that fires at once and then so long after each run's end (1 ms at least), also of a run by hand.
    #[track_caller]
    pub fn fixed_delay(name: impl AsRef<str>, delay: Duration) -> Self {
        Self::new(name, When::FixedDelay(delay)).at_least("fixed_delay", delay, MIN_PERIOD)
    }

    /// A job that fires once, at this instant. An instant that lies before the job's first registration never fires.
    #[track_caller]
    pub fn at(name: impl AsRef<str>, time: Time) -> Self {
        Self::new(name, When::At(time))
    }

    /// A job that fires once, at its first registration, or [`Job::initial_delay`] after it.
    #[track_caller]
    pub fn once(name: impl AsRef<str>) -> Self {
        Self::new(name, When::Once)
    }

    #[track_caller]
    fn new(name: impl AsRef<str>, when: When) -> Self {
        let policy = Policy::new(Overlap::Skip);
        let place = Location::caller();
        Self { name: name.as_ref().into(), when, policy, body: None, fault: None, wants: None, place }
    }

    /// What it does: an async function of the [`Run`], which gives nothing or a `Result`. It runs as a task of the
    /// runtime in which the scheduler was started. An error and a panic are failures: logged, counted, recorded, and
    /// tried again if [`Job::retry`] says so; they never stop the schedule. The first [`crate::MAX_ERROR`] bytes of an
    /// error's text are kept.
    ///
    /// # Cancel safety
    /// The future is dropped where it stands when the run was cancelled and its grace is over, or at once when its lease
    /// was lost.
    pub fn run<F, G>(mut self, body: F) -> Self
    where
        F: Fn(Run) -> G + Send + Sync + 'static,
        G: Future<Output: Outcome> + Send + 'static,
    {
        self.body = Some(Arc::new(move |run| {
            let going = body(run);
            Box::pin(async move { going.await.failure() })
        }));
        self
    }

    /// What it does, as a function that may block: it runs in the runtime's blocking pool. It cannot be dropped where it
    /// stands, so it should check [`Run::is_cancelled`], or [`Run::is_stopping`] if it works in a loop.
    pub fn run_blocking<F, O>(mut self, body: F) -> Self
    where
        F: Fn(Run) -> O + Send + Sync + 'static,
        O: Outcome,
    {
        let body = Arc::new(body);
        self.body = Some(Arc::new(move |run| {
            let body = Arc::clone(&body);
            Box::pin(async move {
                let done = tokio::task::spawn_blocking(move || body(run).failure()).await;
                done.unwrap_or_else(|ended| Some(Failure(ended.to_string())))
            })
        }));
        self
    }

    /// The zone whose clocks a cron expression follows, by its IANA name. Default UTC.
    pub fn zone(self, name: impl AsRef<str>) -> Self {
        self.of_cron("zone", |cron| cron.zone = Some(name.as_ref().into()))
    }

    /// The dialect of its cron expression. Default Quartz.
    pub fn dialect(self, dialect: Dialect) -> Self {
        self.of_cron("dialect", |cron| cron.dialect = dialect)
    }

    /// When a day matches, if its cron expression restricts the day of the month and the day of the week. Default what
    /// the dialect says: Quartz refuses such an expression, in Spring's both must match, in Unix's one.
    ///
    /// ```
    /// use bandog::schedule::{DayMatch, Job, Run};
    ///
    /// let job = Job::cron("friday the 13th", "0 0 9 13 * FRI").day_match(DayMatch::And).run(async |_: Run| ());
    /// ```
    pub fn day_match(self, days: DayMatch) -> Self {
        self.of_cron("day_match", |cron| cron.days = Some(days))
    }

    /// What its cron expression does where clocks are set forward or back. Default [`Daylight::Elapsed`] if its hours are
    /// `*` or stepped, else [`Daylight::Pinned`].
    ///
    /// ```
    /// use bandog::schedule::{Daylight, Job, Run};
    ///
    /// let job = Job::cron("backup", "0 30 2 * * ?").zone("America/New_York").daylight(Daylight::Skip);
    /// # let _ = job.run(async |_: Run| ());
    /// ```
    pub fn daylight(self, daylight: Daylight) -> Self {
        self.of_cron("daylight", |cron| cron.daylight = Some(daylight))
    }

    fn of_cron(mut self, what: &str, say: impl FnOnce(&mut Expression)) -> Self {
        match &mut self.when {
            When::Cron(cron) => say(cron),
            When::FixedRate(_) | When::FixedDelay(_) | When::At(_) | When::Once => {
                self.blame(Error::misused(format!("{what} belongs to cron, and this job has another trigger")));
            }
        }
        self
    }

    /// How long after its first registration it fires first. Not for cron and [`Job::at`]. Default zero.
    pub fn initial_delay(mut self, delay: Duration) -> Self {
        match &self.when {
            When::Cron(_) | When::At(_) => {
                self.blame(Error::misused("initial_delay belongs to fixed_rate, fixed_delay and once"));
            }
            When::FixedRate(_) | When::FixedDelay(_) | When::Once => self.policy.initial_delay = delay,
        }
        self.at_least("initial_delay", delay, Duration::ZERO)
    }

    /// What happens to a tick while it runs. Default [`Overlap::Skip`]; of fixed rates [`Overlap::Queue`] with 1000.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.policy.overlap = overlap;
        self
    }

    /// What happens to ticks that nobody claimed in time. Default [`CatchUp::Once`].
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.policy.catch_up = catch_up;
        self
    }

    /// How old a missed tick may be to be caught up. Default 1 h.
    pub fn window(mut self, window: Duration) -> Self {
        self.policy.window = window;
        self.at_least("window", window, Duration::ZERO)
    }

    /// How late a tick may be claimed to run as if nothing had been. Default 1 minute.
    pub fn misfire_grace(mut self, grace: Duration) -> Self {
        self.policy.misfire_grace = grace;
        self.at_least("misfire_grace", grace, Duration::ZERO)
    }

    /// What happens to a run whose node died. Default [`OnCrash::Abandon`]: choose [`OnCrash::Retry`] for jobs that may
    /// run twice and must not be left out.
    pub fn on_crash(mut self, on_crash: OnCrash) -> Self {
        self.policy.on_crash = on_crash;
        self
    }

    /// After what time a node that is silent counts as dead. It is renewed as long as the node lives, so it need not be
    /// as long as a run. Default the client's watchdog (30 s); 100 ms to 365 days.
    pub fn lease(mut self, lease: Duration) -> Self {
        match check_ttl("lease", lease) {
            Ok(lease) => self.policy.lease = Some(lease),
            Err(error) => self.blame(error),
        }
        self
    }

    /// How long one try may take before it is cancelled. Default no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.policy.timeout = Some(timeout);
        self.at_least("timeout", timeout, MIN_PERIOD)
    }

    /// How long a run that was cancelled may go on before it is dropped. Default 5 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.policy.grace = grace;
        self.at_least("grace", grace, Duration::ZERO)
    }

    /// How a failed run is tried again. Default not at all.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.policy.retry = retry;
        self
    }

    /// Spreads its starts: each tick is delayed by less than this, by the same on every node. Default zero.
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.policy.jitter = jitter;
        self.at_least("jitter", jitter, Duration::ZERO)
    }

    /// Its ticks do not run; it can still be run by hand.
    pub fn disabled(mut self) -> Self {
        self.policy.enabled = false;
        self
    }

    /// Which writing of the job this is, for rolling deploys: a node with a lower revision than the store has seen
    /// claims no tick of it. Default 0.
    pub fn revision(mut self, revision: u64) -> Self {
        self.policy.revision = revision;
        self
    }

    /// Who runs its ticks. Default [`Scope::Cluster`].
    pub fn scope(mut self, scope: Scope) -> Self {
        self.policy.scope = scope;
        self
    }

    /// What happens at a tick while the store does not answer. Default [`StoreDown::FailClosed`].
    pub fn store_down(mut self, store_down: StoreDown) -> Self {
        self.policy.store_down = store_down;
        self
    }

    /// Pauses it after so many failures in a row. Default never.
    pub fn pause_after(mut self, failures: NonZeroU32) -> Self {
        self.policy.pause_after = Some(failures);
        self
    }

    /// The same job, whose every try is told of before it begins.
    pub(crate) fn watched(mut self, watch: impl Fn(&Run) + Send + Sync + 'static) -> Self {
        self.body = self.body.map(|body| -> Body {
            Arc::new(move |run| {
                watch(&run);
                body(run)
            })
        });
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn at_least(mut self, what: &str, value: Duration, least: Duration) -> Self {
        if !(least..=MAX_TTL).contains(&value) {
            let least = humantime::format_duration(least);
            self.blame(Error::misused(format!("{what} is {value:?}; it takes {least} to 365 days")));
        }
        self
    }

    /// Keeps the first fault.
    fn blame(&mut self, error: Error) {
        self.fault.get_or_insert(error);
    }

    /// The job of an attribute, whose errors name its keys.
    pub(crate) fn in_keys(mut self) -> Self {
        if let When::Cron(cron) = &mut self.when {
            cron.phrasing = Phrasing::Keys;
        }
        self
    }

    /// The job with this fault, unless it has one.
    pub(crate) fn blamed(mut self, error: Error) -> Self {
        self.blame(error);
        self
    }

    /// The job as the scheduler keeps it.
    pub(crate) fn ready(self) -> Result<Task> {
        let named = |error: Error| Error::misused(format!("job {:?}: {error}", self.name));
        if let Some(fault) = &self.fault {
            return Err(named(fault.clone()));
        }
        check_name(&self.name).map_err(named)?;
        let trigger = self.when.ready(self.policy.enabled).map_err(named)?;
        let body = self.body.clone().ok_or_else(|| named(Error::misused("it has no body; end it with .run(…)")))?;
        Ok(Task { name: self.name.into(), trigger, policy: Arc::new(self.policy), body })
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("name", &self.name).field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl When {
    fn ready(&self, enabled: bool) -> Result<Trigger> {
        Ok(match self {
            Self::Cron(cron) if !enabled && cron.is_dash() => Trigger::Never,
            Self::Cron(cron) => Trigger::Cron(Arc::new(cron.ready()?)),
            Self::FixedRate(period) => Trigger::FixedRate(millis(*period)),
            Self::FixedDelay(delay) => Trigger::FixedDelay(millis(*delay)),
            Self::At(time) => Trigger::At(time.millisecond()),
            Self::Once => Trigger::Once,
        })
    }
}

impl Expression {
    fn ready(&self) -> Result<Cron> {
        let Self { text, dialect, days, daylight, zone, phrasing } = self;
        let rules = days.map_or_else(|| (*dialect).into(), |days| dialect.days(days));
        // The expression begins a line, so that the caret stands under its place.
        let refused = |error: ParseError| {
            Error::misused(format!(
                "this is no expression of the {dialect} dialect\n{}",
                error.phrased(*phrasing).picture()
            ))
        };
        let mut cron = Cron::parse_with(text, rules).map_err(refused)?;
        if cron.never_fires() {
            return Err(Error::misused(format!("{text:?} never fires: no year has such a day")));
        }
        if let Some(zone) = zone {
            cron = cron.in_zone(Zone::named(zone).map_err(|error| Error::misused(error.to_string()))?);
        }
        Ok(match daylight {
            Some(daylight) => cron.on_daylight(*daylight),
            None => cron,
        })
    }

    fn is_dash(&self) -> bool {
        self.text.trim() == "-"
    }
}

/// The longest name of a job, in bytes.
pub const MAX_NAME: usize = 200;

pub(crate) fn check_name(name: &str) -> Result<()> {
    let fits = (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(Error::misused("a job's name has 1 to 200 bytes without control characters")) }
}

pub(crate) type Body = Arc<dyn Fn(Run) -> BoxFuture<'static, Option<Failure>> + Send + Sync>;

/// A job that a scheduler keeps.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) name: Arc<str>,
    pub(crate) trigger: Trigger,
    pub(crate) policy: Arc<Policy>,
    pub(crate) body: Body,
}

/// One try of a body. A panic is a failure.
pub(crate) async fn attempt(body: &Body, run: Run) -> Option<Failure> {
    let making = AssertUnwindSafe(async { body(run).await });
    let failure = making.catch_unwind().await;
    let failure = failure.unwrap_or_else(|panic| Some(Failure(format!("it panicked: {}", words(&*panic)))));
    failure.map(Failure::cut)
}

fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
