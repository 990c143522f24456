//! What people see of jobs and runs: on the page, in `--json`, in tests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Kind;

/// A job as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its name.
    pub name: String,
    /// What fires it: `cron 0 0 2 * * ?`, `fixed_rate 5s`, `fixed_delay 5s`, `at 2026-01-31T00:00:00Z`, `once`.
    pub trigger: String,
    /// The same in words.
    pub description: String,
    /// The zone of a cron expression.
    pub zone: Option<String>,
    /// Whether its ticks run at all.
    pub enabled: bool,
    /// By whom and why it is paused, if it is.
    pub paused: Option<Paused>,
    /// By whom and why all jobs are paused, if they are: its ticks run when neither pause stands.
    #[serde(default)]
    pub all_paused: Option<Paused>,
    /// Since when no node has said that it has this job, RFC 3339 in UTC; none if one did within two days. Nodes say so
    /// once a day.
    #[serde(default)]
    pub unknown_since: Option<String>,
    /// The next tick, RFC 3339 in UTC; none when it will not fire any more, is paused, or waits for a run to end.
    pub next: Option<String>,
    /// The newest tick that was ever claimed, or when the job was first registered.
    pub watermark: String,
    /// Until when it rests because the store's clock was ahead when its last tick was claimed, RFC 3339 in UTC; none if
    /// it does not. [`crate::Jobs::reset`] ends it.
    #[serde(default)]
    pub rests_until: Option<String>,
    /// How long a dead node's run keeps its place.
    pub lease_ms: u64,
    /// What happens to a tick while the job runs.
    pub overlap: String,
    /// What happens to missed ticks.
    pub catch_up: String,
    /// What happens to a dead node's run.
    pub on_crash: String,
    /// The runs that are running now.
    pub live: Vec<RunRow>,
    /// How many runs wait.
    pub queued: u64,
    /// How many runs ended well, ever.
    pub ok: u64,
    /// How many failed, timed out or were cancelled, ever.
    pub failed: u64,
    /// How many ticks were skipped because of a run or a pause, ever.
    pub skipped: u64,
    /// How many ticks nobody claimed in time and nobody ran later, ever.
    pub missed: u64,
    /// How many runs were lost with their node, ever.
    pub lost: u64,
    /// The run that ended last.
    pub last: Option<RunRow>,
}

/// A pause of a job, of all jobs, or of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Who paused it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Since when, RFC 3339 in UTC.
    pub at: String,
}

/// What is paused beside single jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// By whom and why all jobs are paused, if they are.
    pub all: Option<Paused>,
    /// The nodes that are paused, by their names; a name without a process is a machine's, and means all of its nodes.
    pub nodes: BTreeMap<String, Paused>,
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for a run before it, or for a node.
    Queued,
    /// It runs.
    Running,
    /// It ended well.
    Ok,
    /// It gave an error or panicked.
    Failed,
    /// It took longer than its timeout.
    TimedOut,
    /// Somebody, or its successor, cancelled it.
    Cancelled,
    /// Its node stopped before it had ended.
    Interrupted,
    /// Its node died.
    Lost,
    /// Its tick came while the job ran or was paused.
    Skipped,
    /// Its tick was claimed by nobody in time, and the catch-up policy left it out.
    Missed,
    /// No run: the watermark lay in the future and was set back, from the row's `tick` to its `from`, as its note tells
    /// ([`crate::Jobs::reset`]).
    Reset,
}

impl State {
    /// One word, as in JSON: `queued`, `running`, `ok`, `failed`, `timed_out`, `cancelled`, `interrupted`, `lost`,
    /// `skipped`, `missed`, `reset`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Lost => "lost",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
            Self::Reset => "reset",
        }
    }
}

/// A run of a job: one that waits or runs, one that ended, or a range of ticks that did not run. Times are RFC 3339 in
/// UTC, with milliseconds where they have some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// The job's name.
    pub job: String,
    /// Its number; 0 for ticks that did not run.
    pub id: u64,
    /// The tick; of a range the last one.
    pub tick: String,
    /// The first tick of a range.
    pub from: Option<String>,
    /// How many ticks it stands for: 1, or those of a range.
    pub ticks: u64,
    /// Why it came to be.
    pub kind: Kind,
    /// The last attempt's number.
    pub attempt: u32,
    /// The node that runs it or ran it: `host:pid`.
    pub node: Option<String>,
    /// The fence of its last claim.
    pub fence: Option<u64>,
    /// When it was to start.
    pub due: String,
    /// When it was claimed.
    pub started: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
    /// How much later than due it was claimed, in milliseconds.
    pub lag_ms: Option<u64>,
    /// What became of it.
    pub state: State,
    /// Why it failed.
    pub error: Option<String>,
    /// What it left as a note.
    pub note: Option<String>,
    /// It is recorded as running, but its node's session has ended: the next node that looks takes it over or records
    /// it as lost. It stays so while no node has this job.
    #[serde(default)]
    pub orphaned: bool,
}

/// A tick that is to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fire {
    /// The job's name.
    pub job: String,
    /// The tick, RFC 3339 in UTC.
    pub tick: String,
    /// When it is to start: the tick and the job's jitter.
    pub due: String,
}

/// A scheduler that runs over the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    /// What it calls itself, by default its machine and process, `host:pid`; in its first moments perhaps its client.
    pub node: String,
    /// Its program.
    pub program: Option<String>,
    /// Since when its client lives, RFC 3339 in UTC, by its own clock.
    pub since: Option<String>,
    /// The version of the time-zone table in its program, such as `2026a`. Nodes with different ones may find different
    /// ticks in zones that have changed.
    #[serde(default)]
    pub zones: Option<String>,
    /// By whom and why it, or its machine, is paused, if it is.
    #[serde(default)]
    pub paused: Option<Paused>,
}
