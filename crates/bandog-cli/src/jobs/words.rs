//! Jobs and runs as text, for people. Times are shown in the job's zone.

use std::{
    io::{self, Write},
    time::Duration,
};

use bandog::schedule::{JobRow, Paused, Presence, RunRow, State};
use bandog_cron::{Time, Zone};

use crate::console::escaped;

/// The present time, and the time zone in which times are printed.
pub(super) struct Clock {
    now: Time,
    zone: Option<Zone>,
}

impl Clock {
    /// A clock for the output. If there is no zone, or if this machine does not know the zone, times are in UTC.
    pub(super) fn new(now: Time, zone: Option<&str>) -> Self {
        Self { now, zone: zone.and_then(|zone| Zone::named(zone).ok()) }
    }

    /// An instant as text, in the zone of the output. `time` is the instant as a text in UTC, as in the rows of the
    /// store.
    pub(super) fn at(&self, time: &str) -> String {
        match (time.parse::<Time>(), &self.zone) {
            (Ok(time), Some(zone)) => time.at(zone).to_string(),
            (Ok(time), None) => time.to_string(),
            (Err(_), _) => escaped(time),
        }
    }

    /// The time until an instant: `in 3m 12s`, or `now`.
    pub(super) fn until(&self, time: &str) -> String {
        match between(self.now, time) {
            Some(left) if left > 0 => format!("in {}", whole(left)),
            Some(_) | None => "now".into(),
        }
    }

    /// The time since an instant: `3m 12s`.
    pub(super) fn since(&self, time: &str) -> String {
        let ago = between(self.now, time).map_or(0, |left| left.saturating_neg().max(0));
        whole(ago)
    }
}

/// Milliseconds from one instant to another. None if the second instant cannot be parsed.
fn between(from: Time, to: &str) -> Option<i64> {
    Some(to.parse::<Time>().ok()?.millisecond().saturating_sub(from.millisecond()))
}

/// A duration in its two largest units, rounded up to whole seconds. The text is, for example, `3m 12s`.
fn whole(ms: i64) -> String {
    let secs = ms.unsigned_abs().div_ceil(1000);
    brief(Duration::from_secs(secs))
}

/// A duration in its two largest units.
fn brief(duration: Duration) -> String {
    let text = humantime::format_duration(duration).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// A duration, such as `250ms`, `5s`, `12.3s`, `2h 3m`.
pub(super) fn span(ms: u64) -> String {
    match ms {
        0..=999 => format!("{ms}ms"),
        1_000..=59_999 if ms % 1000 < 100 => format!("{}s", ms / 1000),
        1_000..=59_999 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        _ => brief(Duration::from_secs(ms / 1000)),
    }
}

/// The duration of a run. None if the run has not ended.
pub(super) fn took(run: &RunRow) -> Option<String> {
    let started: Time = run.started.as_ref()?.parse().ok()?;
    let ended = between(started, run.ended.as_ref()?)?;
    Some(span(ended.max(0).unsigned_abs()))
}

/// The present state of a job.
pub(super) fn state(job: &JobRow, clock: &Clock) -> String {
    let mut words = Vec::new();
    match &job.live[..] {
        [] => {}
        [one] => words.push(running(one, clock)),
        many => words.push(format!("{} running", many.len())),
    }
    if job.queued > 0 {
        words.push(format!("{} waiting", job.queued));
    }
    words.extend(job.paused.as_ref().map(paused));
    words.extend(job.all_paused.as_ref().map(all_paused));
    if !job.enabled {
        words.push("disabled".into());
    }
    match (&job.unknown_since, job.presence) {
        (Some(since), _) => words.push(format!("unknown since {}: no scheduler has it", clock.at(since))),
        (None, Presence::Absent) => words.push("no node has it".into()),
        (None, Presence::NoNode) => words.push("no node is up".into()),
        (None, Presence::Present | Presence::Unknown) => {}
    }
    if let Some(until) = &job.rests_until {
        words.push(format!(
            "rests until {}, since the store's clock was ahead: see `bandog jobs reset`",
            clock.at(until)
        ));
    }
    if words.is_empty() { "idle".into() } else { words.join(", ") }
}

/// The operator and the reason of a pause.
pub(super) fn paused(Paused { by, reason, .. }: &Paused) -> String {
    format!("paused by {}: {}", escaped(by), escaped(reason))
}

/// The operator and the reason of the pause of all jobs.
pub(super) fn all_paused(all: &Paused) -> String {
    format!("all jobs are {}", paused(all))
}

/// The state of a run that is recorded as running.
fn running(run: &RunRow, clock: &Clock) -> String {
    let node = escaped(run.node.as_deref().unwrap_or("?"));
    if run.orphaned {
        return format!("left behind by {node}, which is dead");
    }
    let verb = if run.cancelling { "cancelling" } else { "running" };
    match &run.started {
        Some(started) => format!("{verb} on {node} for {}", clock.since(started)),
        None => format!("{verb} on {node}"),
    }
}

/// The outcome of a job's last run.
pub(super) fn last(job: &JobRow, clock: &Clock) -> String {
    let Some(run) = &job.last else { return "never".into() };
    let ended = run.ended.as_ref().map(|ended| format!(" {} ago", clock.since(ended)));
    let took = took(run).map(|took| format!(", took {took}"));
    format!("{}{}{}", run.state.as_str(), ended.unwrap_or_default(), took.unwrap_or_default())
}

/// One run as text: its number, its tick, its node, its outcome and more.
pub(super) fn run(run: &RunRow, clock: &Clock) -> String {
    let mut words = vec![format!("run {} ({}, tick {})", run.id, run.kind.as_str(), clock.at(&run.tick))];
    match run.state {
        State::Running => words.push(running(run, clock)),
        state => {
            let node = run.node.as_deref().map(|node| format!(" on {}", escaped(node)));
            words.push(format!("{}{}", state.as_str(), node.unwrap_or_default()));
            words.extend(run.retried.then(|| "repeated by another attempt".to_owned()));
        }
    }
    words.extend(took(run).map(|took| format!("took {took}")));
    words.extend(run.lag_ms.map(|lag| format!("lag {}", span(lag))));
    words.extend((run.attempt > 1).then(|| format!("attempt {}", run.attempt)));
    words.extend(run.fence.map(|fence| format!("fence {fence}")));
    words.extend(run.error.as_deref().map(escaped));
    words.join(", ")
}

/// One row of a table, and further lines. The further lines are printed below the row, and are indented.
pub(super) struct TableRow<const N: usize> {
    pub(super) cells: [String; N],
    pub(super) below: Vec<String>,
}

/// Prints a table whose columns are as wide as their widest cell.
pub(super) fn table<const N: usize>(heads: [&str; N], lines: &[TableRow<N>]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let widths: [usize; N] = std::array::from_fn(|at| {
        let widest = lines.iter().map(|line| line.cells[at].chars().count()).max().unwrap_or(0);
        widest.max(heads[at].len())
    });
    let aligned = |cells: &[String; N]| {
        let cells: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    writeln!(out, "{}", aligned(&heads.map(String::from)))?;
    for line in lines {
        writeln!(out, "{}", aligned(&line.cells))?;
        line.below.iter().try_for_each(|below| writeln!(out, "  {below}"))?;
    }
    out.flush()
}
