//! Jobs that are declared with `#[bandog::scheduled]`. The attribute has keys, such as `cron = "@daily"`, and passes
//! the text of each key to this module.

use std::{collections::BTreeMap, fmt, num::NonZeroU32, panic::Location, str::FromStr, sync::Arc, time::Duration};

use bandog_core::{Error, Failure, Outcome, Result};
use bandog_cron::Time;

use crate::{
    Job, Scheduler,
    inject::{Given, Inject, WantedValues},
};

/// The error about an attribute without a trigger.
const NO_TRIGGER: &str = "it has no trigger: write one of `cron`, `fixed_rate`, `fixed_delay`, `at`";

/// A function of the program that is declared with `#[bandog::scheduled]`.
#[derive(Debug, Clone, Copy)]
pub struct Declared {
    /// Creates the function's job.
    pub make: fn() -> Job,
}

inventory::collect!(Declared);

impl Scheduler {
    /// Adds all jobs that functions of this program declare with `#[bandog::scheduled]`.
    ///
    /// The linker collects these functions. If the program never names a library, the linker leaves the library out. In
    /// that case, name the library (`use reports as _;`), or add its jobs one by one (`.job(reports::daily::job())`).
    /// The second way also works on systems whose linker cannot collect functions. An empty schedule is rarely
    /// intended. So if there is no declared function, [`Scheduler::start`] returns an error.
    pub fn declared(mut self) -> Self {
        let jobs = declared();
        if jobs.is_empty() {
            let message = "declared() found no function with #[bandog::scheduled] in this program; name the library that \
                           has them (`use reports as _;`), or hand each job over with .job(daily::job())";
            self.errors.push(Error::misused(message));
        }
        self.jobs(jobs)
    }
}

/// All declared jobs of this program, sorted by name. [`Scheduler::declared`] adds the same jobs. Use this function for
/// a [`crate::TestScheduler`], or if a scheduler should get only some of the jobs.
pub fn declared() -> Vec<Job> {
    let mut jobs: Vec<Job> = inventory::iter::<Declared>().map(|declared| (declared.make)()).collect();
    jobs.sort_by(|one, other| one.name().cmp(other.name()));
    jobs
}

/// A piece of a key's text.
#[derive(Debug, Clone, Copy)]
pub enum Piece {
    /// Literal text.
    Text(&'static str),
    /// The name of an environment variable, and a default. The value of the variable is used. If the variable is not
    /// set, the default is used.
    Variable(&'static str, Option<&'static str>),
}

/// A key and the pieces of its text.
pub(crate) type Text<'a> = (&'static str, &'a [Piece]);

/// The result of a declared function: its failure, if it has failed.
pub type Ended = Option<Failure>;

/// A job that is being built from an attribute and its function.
#[derive(Debug)]
pub struct Declaring {
    job: Job,
    /// The values that the function's parameters require.
    wants: WantedValues,
}

impl Declaring {
    /// Reads the keys of this function's attribute.
    #[track_caller]
    pub fn new(function: &str, texts: &[Text<'_>]) -> Self {
        let location = Location::caller();
        let mut job = job(function, texts, |name| std::env::var(name).ok());
        job.location = location;
        Self { job, wants: WantedValues::default() }
    }

    /// Adds a parameter of the function. Returns a function that computes the parameter's value for a run.
    pub fn takes<T: Inject>(&mut self) -> fn(&Given) -> T {
        self.wants.all.push(T::lacks);
        T::inject
    }

    /// Completes the job of an async function.
    pub fn run<F, G>(self, body: F) -> Job
    where
        F: Fn(&Given) -> G + Send + Sync + 'static,
        G: Future<Output = Ended> + Send + 'static,
    {
        let shares = Arc::clone(&self.wants.shares);
        self.ready(|job| job.run(move |run| body(&Given { run, shares: Arc::clone(&shares) })))
    }

    /// Completes the job of a function that is allowed to block.
    pub fn run_blocking<F: Fn(&Given) -> Ended + Send + Sync + 'static>(self, body: F) -> Job {
        let shares = Arc::clone(&self.wants.shares);
        self.ready(|job| job.run_blocking(move |run| body(&Given { run, shares: Arc::clone(&shares) })))
    }

    /// Completes the job. `with_body` adds the body.
    fn ready(self, with_body: impl FnOnce(Job) -> Job) -> Job {
        let mut job = with_body(self.job);
        job.wants = Some(self.wants).filter(|wants| !wants.all.is_empty());
        job
    }
}

/// Converts the result of a declared function to a common type.
pub fn ended<O: Outcome>(outcome: O) -> Ended {
    outcome.failure()
}

/// The job that these texts describe. If a text is wrong, the first such error becomes the job's error, and the start
/// of the scheduler returns it.
fn job(function: &str, texts: &[Text<'_>], environment: impl Fn(&str) -> Option<String>) -> Job {
    let mut error = None;
    let mut values = BTreeMap::new();
    for (key, pieces) in texts {
        match pieces.iter().map(|piece| resolve(*piece, &environment)).collect::<Result<String, String>>() {
            Ok(text) => drop(values.insert(*key, text)),
            Err(why) => error = error.or_else(|| Some(Error::misused(format!("{key} contains {why}")))),
        }
    }
    let name = values.remove("name").unwrap_or_else(|| function.to_owned());
    let job = match error.map_or_else(|| trigger(&name, &mut values), Err) {
        Ok(job) => job,
        Err(error) => return Job::once(&name).with_error(error),
    };
    values.into_iter().fold(job, |job, (key, text)| option(job, key, text.trim()))
}

/// The text of a piece. An environment variable is looked up twice: first by the name in the attribute, for example
/// `app.report.cron`, and then by the same name in capital letters with `_`, for example `APP_REPORT_CRON`.
fn resolve(piece: Piece, environment: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let (name, default) = match piece {
        Piece::Text(text) => return Ok(text.to_owned()),
        Piece::Variable(name, default) => (name, default),
    };
    let plain = name.replace(['.', '-'], "_").to_ascii_uppercase();
    let found = environment(name).or_else(|| environment(&plain)).or_else(|| default.map(ToOwned::to_owned));
    found.ok_or_else(|| format!("${{{name}}}, but the environment has no variable {plain}"))
}

/// Creates the job with the trigger that one of the keys describes, and removes this key.
fn trigger(name: &str, values: &mut BTreeMap<&str, String>) -> Result<Job> {
    let mut take = |key| values.remove(key).map(|text: String| (key, text));
    let found = ["cron", "fixed_rate", "fixed_delay", "at"].into_iter().find_map(&mut take);
    let (key, text) = found.ok_or_else(|| Error::misused(NO_TRIGGER))?;
    Ok(match (key, text.trim()) {
        ("cron", text) => Job::cron(name, text).with_key_phrasing(),
        (_, "-") => Job::once(name).disabled(),
        ("fixed_rate", text) => Job::fixed_rate(name, duration(key, text)?),
        ("fixed_delay", text) => Job::fixed_delay(name, duration(key, text)?),
        (_, text) => Job::at(name, text.parse::<Time>().map_err(|error| Error::misused(format!("{key}: {error}")))?),
    })
}

/// Applies a key that is neither the name nor the trigger to the job. `text`: the value of the key.
fn option(job: Job, key: &str, text: &str) -> Job {
    match key {
        "zone" => job.zone(text),
        "dialect" => with(job, read(text), Job::dialect),
        "day_match" => with(job, read(text), Job::day_match),
        "daylight" => with(job, read(text), Job::daylight),
        "enabled" if text == "true" => job,
        "enabled" if text == "false" => job.disabled(),
        "overlap" => with(job, text.parse(), Job::overlap),
        "catch_up" => with(job, text.parse(), Job::catch_up),
        "on_crash" => with(job, text.parse(), Job::on_crash),
        "retry" => with(job, text.parse(), Job::retry),
        "store_down" => with(job, text.parse(), Job::store_down),
        "scope" => with(job, text.parse(), Job::scope),
        "revision" => with(job, number(key, text), Job::revision),
        "pause_after" => with(job, number(key, text).map(NonZeroU32::get), Job::pause_after),
        "initial_delay" => with(job, duration(key, text), Job::initial_delay),
        "window" => with(job, duration(key, text), Job::window),
        "misfire_grace" => with(job, duration(key, text), Job::misfire_grace),
        "lease" => with(job, duration(key, text), Job::lease),
        "timeout" => with(job, duration(key, text), Job::timeout),
        "grace" => with(job, duration(key, text), Job::grace),
        "jitter" => with(job, duration(key, text), Job::jitter),
        _ => job.with_error(Error::misused(format!("{key} = {text:?} is unknown"))),
    }
}

/// Sets a value of the job, or the error if there is no value.
fn with<T>(job: Job, value: Result<T>, set: fn(Job, T) -> Job) -> Job {
    match value {
        Ok(value) => set(job, value),
        Err(error) => job.with_error(error),
    }
}

/// Parses a duration. `key`: the key of the attribute, for the error.
fn duration(key: &str, text: &str) -> Result<Duration> {
    humantime::parse_duration(text)
        .map_err(|_| Error::misused(format!("{key} = {text:?} is not a duration; write 500ms, 10s or 2m")))
}

/// Parses a value whose type is defined in `bandog-cron`. The errors of these types name the allowed values.
fn read<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|error: T::Err| Error::misused(error.to_string()))
}

/// Parses a number. `key`: the key of the attribute, for the error.
fn number<T: FromStr>(key: &str, text: &str) -> Result<T> {
    let least = if key == "pause_after" { 1 } else { 0 };
    text.parse().map_err(|_| Error::misused(format!("{key} = {text:?}; it must be a number from {least}")))
}
