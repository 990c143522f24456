//! Prints the jobs of a file, without running them.

use std::{
    ffi::OsString,
    io::{self, Write},
    num::NonZeroU32,
    time::{Duration, SystemTime},
};

use bandog::schedule::JobRow;
use serde::Serialize;

use super::{
    entry::{JobEntry, Rare},
    file::JobFile,
};
use crate::{
    console::{escaped, report},
    exit_code::ExitCode,
    fault::Fault,
    kept::program,
    print,
};

/// Number of next fires to print.
const FIRES: usize = 3;

/// A job as JSON. The values of its environment variables are left out, because they might be secrets.
#[derive(Serialize)]
pub(super) struct JobJson<'a> {
    name: &'a str,
    trigger: String,
    description: String,
    zone: String,
    enabled: bool,
    next: Vec<String>,
    command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_failure: Option<Vec<String>>,
    directory: Option<String>,
    env: Vec<&'a str>,
    initial_delay_ms: u128,
    overlap: String,
    catch_up: String,
    misfire_grace_ms: u128,
    on_crash: String,
    timeout_ms: Option<u128>,
    lease_ms: Option<u128>,
    retry: String,
    jitter_ms: u128,
    window_ms: Option<u128>,
    grace_ms: Option<u128>,
    pause_after: Option<NonZeroU32>,
    revision: Option<u64>,
    scope: Option<String>,
    store_down: Option<String>,
}

impl<'a> From<&'a JobEntry> for JobJson<'a> {
    fn from(entry: &'a JobEntry) -> Self {
        let zone = entry.trigger.zone();
        let next = entry.fires(SystemTime::now().into(), FIRES);
        Self {
            name: &entry.name,
            trigger: entry.trigger.text(),
            description: entry.trigger.description(),
            next: next.iter().map(|time| time.at(&zone).to_string()).collect(),
            zone: zone.to_string(),
            enabled: entry.enabled,
            command: words(&entry.command),
            on_failure: entry.on_failure.as_deref().map(words),
            directory: entry.directory.as_ref().map(|path| path.display().to_string()),
            env: entry.env.iter().map(|(name, _)| name.as_str()).collect(),
            initial_delay_ms: entry.initial_delay.as_millis(),
            overlap: entry.overlap.to_string(),
            catch_up: entry.catch_up.to_string(),
            misfire_grace_ms: entry.misfire_grace.as_millis(),
            on_crash: entry.on_crash.to_string(),
            timeout_ms: entry.timeout.map(|timeout| timeout.as_millis()),
            lease_ms: entry.lease.map(|lease| lease.as_millis()),
            retry: entry.retry.to_string(),
            jitter_ms: entry.jitter.as_millis(),
            window_ms: entry.rare.window.map(|window| window.as_millis()),
            grace_ms: entry.rare.grace.map(|grace| grace.as_millis()),
            pause_after: entry.rare.pause_after,
            revision: entry.rare.revision,
            scope: entry.rare.scope.map(|scope| scope.to_string()),
            store_down: entry.rare.store_down.map(|policy| policy.to_string()),
        }
    }
}

/// The words of a command.
fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Number of fires whose distances are compared with the jitter.
const COMPARED: usize = 50;

/// Warns if the directory or the command of a job cannot be used now, and if its jitter is too long.
pub(super) fn warn(entry: &JobEntry) {
    let directory = entry.directory.as_deref();
    // The same directory as at the end of a failed run.
    let after_failure = directory.filter(|directory| program::enter(directory).is_ok());
    let commands = [
        (Some(&entry.command), directory, "its runs will fail"),
        (entry.on_failure.as_ref(), after_failure, "on_failure has no effect"),
    ];
    for (command, directory, effect) in commands {
        let Some(command) = command else { continue };
        if let Err(missing) = program::check(command, &entry.env, directory) {
            report(&format!("{}: {missing}; {effect} until this is corrected", entry.name));
        }
    }
    let fires = entry.fires(SystemTime::now().into(), COMPARED);
    let gap =
        fires.windows(2).filter_map(|pair| u64::try_from(pair[1].millisecond() - pair[0].millisecond()).ok()).min();
    if let Some(gap) = gap.map(Duration::from_millis).filter(|gap| entry.jitter > *gap / 2) {
        let [jitter, gap] = [entry.jitter, gap].map(humantime::format_duration);
        let what = "is more than half of the shortest time between two ticks";
        report(&format!("{}: its jitter of {jitter} {what}, {gap}; runs may follow each other closely", entry.name));
    }
}

/// Prints all jobs of a file.
pub(super) fn print(file: &JobFile, format: print::Format) -> Result<ExitCode, Fault> {
    file.jobs.iter().for_each(warn);
    print::done(file.jobs.iter().try_for_each(|entry| match format.json {
        true => print::json(&JobJson::from(entry)),
        false => writeln!(io::stdout(), "{}", lines(entry, None).join("\n")),
    }))
}

/// A job as text: its trigger, next fires, command and policies. `row` is the job's row in the store. It is none if the
/// store is not used.
pub(super) fn lines(entry: &JobEntry, row: Option<&JobRow>) -> Vec<String> {
    let job = JobJson::from(entry);
    let next = match row.map_or_else(|| job.next.clone(), |row| next(entry, row)) {
        _ if !entry.enabled => "never: it is not enabled".to_owned(),
        fires if !fires.is_empty() => fires.join(", "),
        _ => match row {
            Some(JobRow { paused: Some(paused), .. }) => {
                format!("paused by {}: {}", escaped(&paused.by), escaped(&paused.reason))
            }
            Some(JobRow { all_paused: Some(paused), .. }) => {
                format!("all jobs are paused by {}: {}", escaped(&paused.by), escaped(&paused.reason))
            }
            Some(row) if !row.live.is_empty() => "after the present run".to_owned(),
            Some(_) | None => "never again".to_owned(),
        },
    };
    let mut lines = vec![
        format!("{}: {} ({})", escaped(job.name), job.description, job.zone),
        format!("  next    {next}"),
        format!("  command {}", quoted(&job.command)),
    ];
    lines.extend(job.on_failure.map(|command| format!("  on_failure {}", quoted(&command))));
    lines.push(format!("  policy  {}", policy(entry, row.map(|row| Duration::from_millis(row.lease_ms)))));
    lines
}

/// The next fires. The first fire is read from the row in the store. The later fires are computed from the first fire.
fn next(entry: &JobEntry, row: &JobRow) -> Vec<String> {
    let Some(first) = row.next.as_ref().and_then(|next| next.parse().ok()) else { return Vec::new() };
    let zone = entry.trigger.zone();
    entry.fires_from(first, FIRES).iter().map(|time| time.at(&zone).to_string()).collect()
}

/// The policies as text. Policies that each user should choose are always in the text. The other policies are in the
/// text only if they differ from the defaults.
fn policy(entry: &JobEntry, lease: Option<Duration>) -> String {
    let span = |duration| humantime::format_duration(duration).to_string();
    let mut words = vec![
        format!("overlap {}", entry.overlap),
        format!("catch_up {}", entry.catch_up),
        format!("misfire_grace {}", span(entry.misfire_grace)),
        format!("on_crash {}", entry.on_crash),
    ];
    words.extend(entry.lease.or(lease).map(|lease| format!("lease {}", span(lease))));
    words.extend(entry.timeout.map(|timeout| format!("timeout {}", span(timeout))));
    let retry = entry.retry.to_string();
    words.extend((!retry.starts_with("0 ")).then(|| format!("retry {retry}")));
    let Rare { window, grace, pause_after, revision, scope, store_down } = &entry.rare;
    words.extend(window.map(|window| format!("window {}", span(window))));
    words.extend(grace.map(|grace| format!("grace {}", span(grace))));
    words.extend(pause_after.map(|failures| format!("pause_after {failures}")));
    words.extend(revision.map(|revision| format!("revision {revision}")));
    words.extend(scope.map(|scope| format!("scope {scope}")));
    words.extend(store_down.map(|policy| format!("store_down {policy}")));
    words.extend((!entry.jitter.is_zero()).then(|| format!("jitter {}", span(entry.jitter))));
    words.join(", ")
}

/// The command as text. Words with special characters are in quotation marks.
fn quoted(command: &[String]) -> String {
    let word = |word: &String| {
        let is_plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c));
        if is_plain { word.clone() } else { format!("{word:?}") }
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}
