//! Jobs and runs as operators see them: on the page, in `--json`, in tests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Kind;

/// A job as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its name.
    pub name: String,
    /// Its trigger: `cron 0 0 2 * * ?`, `fixed_rate 5s`, `fixed_delay 5s`, `at 2026-01-31T00:00:00Z`, `once`.
    pub trigger: String,
    /// The trigger in words.
    pub description: String,
    /// The time zone of a cron expression.
    pub zone: Option<String>,
    /// Whether its ticks run.
    pub enabled: bool,
    /// The pause of the job, if it is paused.
    pub paused: Option<Paused>,
    /// The pause of all jobs, if they are paused. The job's ticks run when neither pause is in effect.
    #[serde(default)]
    pub all_paused: Option<Paused>,
    /// Time of the last heartbeat of a node that has this job, RFC 3339 in UTC. None if it is less than two days old.
    /// Nodes write a heartbeat once a day.
    #[serde(default)]
    pub unknown_since: Option<String>,
    /// The next tick, RFC 3339 in UTC. None if the job will not fire any more, is paused, or waits for the end of a
    /// run.
    pub next: Option<String>,
    /// The newest tick that was ever claimed, or the time of the job's first registration.
    pub watermark: String,
    /// End of the job's rest, RFC 3339 in UTC: the store's clock was ahead when the last tick was claimed. None if the
    /// job does not rest. [`crate::Jobs::reset`] ends the rest.
    #[serde(default)]
    pub rests_until: Option<String>,
    /// Time after which a dead node's run is lost or taken over, in milliseconds.
    pub lease_ms: u64,
    /// What happens to a tick while the job runs.
    pub overlap: String,
    /// What happens to missed ticks.
    pub catch_up: String,
    /// What happens to a dead node's run.
    pub on_crash: String,
    /// The runs under way.
    pub live: Vec<RunRow>,
    /// Number of queued runs.
    pub queued: u64,
    /// Total number of runs that succeeded.
    pub ok: u64,
    /// Total number of runs that failed, timed out or were cancelled.
    pub failed: u64,
    /// Total number of ticks that were skipped because of a run or a pause.
    pub skipped: u64,
    /// Total number of ticks that no node claimed in time and that were not caught up.
    pub missed: u64,
    /// Total number of runs that were lost with their node.
    pub lost: u64,
    /// The run that ended last.
    pub last: Option<RunRow>,
}

/// A pause of a job, of all jobs, or of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// The operator, or `bandog` for [`crate::Job::pause_after`].
    pub by: String,
    /// The reason.
    pub reason: String,
    /// Start of the pause, RFC 3339 in UTC.
    pub at: String,
}

/// The pauses of all jobs and of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// The pause of all jobs, if they are paused.
    pub all: Option<Paused>,
    /// The paused nodes by name. A name without a process is a machine's, and means all of its nodes.
    pub nodes: BTreeMap<String, Paused>,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for an earlier run, or for a node.
    Queued,
    /// It is under way.
    Running,
    /// It succeeded.
    Ok,
    /// It returned an error or panicked.
    Failed,
    /// It took longer than its timeout.
    TimedOut,
    /// An operator or a newer run cancelled it.
    Cancelled,
    /// Its node stopped before its end.
    Interrupted,
    /// Its node died.
    Lost,
    /// Its tick was due while the job ran or was paused.
    Skipped,
    /// No node claimed its tick in time, and the catch-up policy left it out.
    Missed,
    /// No run: an operator set a watermark in the future back, from the row's `tick` to its `from`. The note has the
    /// reason ([`crate::Jobs::reset`]).
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

/// A run that is queued, under way or has ended, or a range of ticks that did not run. Times are RFC 3339 in UTC, with
/// milliseconds if they are not zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// The job's name.
    pub job: String,
    /// Its number; 0 for ticks that did not run.
    pub id: u64,
    /// The tick; the last one of a range.
    pub tick: String,
    /// The first tick of a range.
    pub from: Option<String>,
    /// Number of ticks: 1, or those of the range.
    pub ticks: u64,
    /// The cause of the run.
    pub kind: Kind,
    /// The last attempt's number.
    pub attempt: u32,
    /// The node that runs it or ran it: `host:pid`.
    pub node: Option<String>,
    /// The fence of its last claim.
    pub fence: Option<u64>,
    /// Its planned start.
    pub due: String,
    /// Time of the claim.
    pub started: Option<String>,
    /// Time of the end.
    pub ended: Option<String>,
    /// Delay of the claim after `due`, in milliseconds.
    pub lag_ms: Option<u64>,
    /// Its state.
    pub state: State,
    /// The reason of a failure.
    pub error: Option<String>,
    /// The note of its body.
    pub note: Option<String>,
    /// It is recorded as under way, but its node's session has expired. The next node that polls takes it over or
    /// records it as lost. It stays so while no node has this job.
    #[serde(default)]
    pub orphaned: bool,
}

/// A tick to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fire {
    /// The job's name.
    pub job: String,
    /// The tick, RFC 3339 in UTC.
    pub tick: String,
    /// Its planned start: the tick and the job's jitter.
    pub due: String,
}

/// A scheduler that runs over the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    /// Its name, by default its machine and process, `host:pid`. In its first moments it may be the name of its client.
    pub node: String,
    /// Its program.
    pub program: Option<String>,
    /// Start of its client, RFC 3339 in UTC, by its own clock.
    pub since: Option<String>,
    /// The version of the time-zone table in its program, such as `2026a`. Nodes with different ones may compute
    /// different ticks in zones that have changed.
    #[serde(default)]
    pub zones: Option<String>,
    /// The pause of the node or of its machine, if it is paused.
    #[serde(default)]
    pub paused: Option<Paused>,
}
