//! Jobs and runs as operators see them: on the web page, in `--json`, and in tests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Kind;

/// A job as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// The job's name.
    pub name: String,
    /// The trigger in one line: `cron 0 0 2 * * ?`, `fixed_rate 5s`, `fixed_delay 5s`, `at 2026-01-31T00:00:00Z`,
    /// `once`.
    pub trigger: String,
    /// The trigger in words.
    pub description: String,
    /// The time zone of a cron expression.
    pub zone: Option<String>,
    /// Whether the job is enabled. The ticks of a disabled job do not run.
    pub enabled: bool,
    /// The pause of the job, if it is paused.
    pub paused: Option<Paused>,
    /// The pause of all jobs, if all jobs are paused. The job's ticks run only if neither this pause nor the pause of
    /// the job is in effect.
    #[serde(default)]
    pub all_paused: Option<Paused>,
    /// Time of the last heartbeat of a node that has this job, RFC 3339 in UTC. Nodes write a heartbeat once a day.
    /// None if the heartbeat is less than two days old.
    #[serde(default)]
    pub unknown_since: Option<String>,
    /// Whether a live node has the job.
    #[serde(default)]
    pub presence: Presence,
    /// The next tick, RFC 3339 in UTC. None if the job will not fire any more, is paused, or waits for the end of a
    /// run. None also if nodes are up and none of them has the job.
    pub next: Option<String>,
    /// The newest tick that was ever claimed. Before the first claim, this is the time of the job's first registration.
    pub watermark: String,
    /// The time until which the job does not fire, because its watermark lies in the future, RFC 3339 in UTC. The cause
    /// is that the store's clock was ahead when the last tick was claimed. [`crate::Jobs::reset`] sets the watermark
    /// back. None if the watermark does not lie in the future.
    #[serde(default)]
    pub rests_until: Option<String>,
    /// Duration of the job's lease, in milliseconds. A node that has not renewed its session for this time counts as
    /// dead, and its runs are recorded as lost or taken over.
    pub lease_ms: u64,
    /// The policy for a tick that is due while the job runs.
    pub overlap: String,
    /// The policy for missed ticks.
    pub catch_up: String,
    /// The policy for a run whose node died.
    pub on_crash: String,
    /// The runs under way.
    pub live: Vec<RunRow>,
    /// Number of queued runs.
    pub queued: u64,
    /// Total number of runs that succeeded.
    pub ok: u64,
    /// Total number of runs that failed or timed out.
    pub failed: u64,
    /// Total number of runs that were cancelled, or interrupted by the stop of their node.
    #[serde(default)]
    pub cancelled: u64,
    /// Total number of ticks that were skipped because of a run or a pause.
    pub skipped: u64,
    /// Total number of ticks that no node claimed in time and that were not caught up.
    pub missed: u64,
    /// Total number of runs that were lost with their node, and that no other node repeats.
    pub lost: u64,
    /// The run that ended last.
    pub last: Option<RunRow>,
}

/// Whether a live node has a job. Each node reports its jobs to the store when it claims its session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// A live node has the job.
    Present,
    /// Nodes are up, and none of them has the job: it was removed from the program, or its node is down.
    Absent,
    /// No node is up.
    NoNode,
    /// It is not known, because a live node has not reported its jobs: it runs an older version of bandog, or its names of
    /// jobs have more than 256 KiB.
    #[default]
    Unknown,
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
    /// The paused nodes. The key is the name of a node, `host:pid`. A key without a pid is the name of a machine, and
    /// then all nodes of the machine are paused.
    pub nodes: BTreeMap<String, Paused>,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The run waits for the end of an earlier run, or for a node that can execute it.
    Queued,
    /// The run is under way.
    Running,
    /// The run succeeded.
    Ok,
    /// The run returned an error or panicked.
    Failed,
    /// The run took longer than its timeout.
    TimedOut,
    /// An operator or a newer run cancelled the run.
    Cancelled,
    /// The node stopped before the run had ended.
    Interrupted,
    /// The node of the run died.
    Lost,
    /// The tick did not run, because it was due while the job ran or was paused.
    Skipped,
    /// The tick did not run, because no node claimed it in time and the catch-up policy omits it.
    Missed,
    /// Not a run, but a reset: the job's watermark was in the future, and an operator has set the watermark back
    /// ([`crate::Jobs::reset`]). The row's `tick` is the old watermark, and `from` is the new one. The note contains
    /// the reason.
    Reset,
}

impl State {
    /// The state as one word, as in JSON: `queued`, `running`, `ok`, `failed`, `timed_out`, `cancelled`, `interrupted`,
    /// `lost`, `skipped`, `missed`, `reset`.
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

/// A run (queued, under way or ended), or a range of ticks that did not run. Times are RFC 3339 in UTC. They contain
/// milliseconds only if the milliseconds are not zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// The job's name.
    pub job: String,
    /// The run's number; 0 for ticks that did not run.
    pub id: u64,
    /// The tick of the run, or the last tick of the range.
    pub tick: String,
    /// The first tick of the range; none for a run.
    pub from: Option<String>,
    /// Number of ticks in the range; 1 for a run.
    pub ticks: u64,
    /// The cause of the run.
    pub kind: Kind,
    /// The number of the last attempt.
    pub attempt: u32,
    /// The node of the last attempt: `host:pid`, or the name that was given to the scheduler.
    pub node: Option<String>,
    /// The fence of the run's last claim.
    pub fence: Option<u64>,
    /// The planned start.
    pub due: String,
    /// Time of the claim.
    pub started: Option<String>,
    /// Time of the end.
    pub ended: Option<String>,
    /// Delay of the claim after `due`, in milliseconds.
    pub lag_ms: Option<u64>,
    /// The state of the run.
    pub state: State,
    /// The reason of a failure.
    pub error: Option<String>,
    /// The note that the body set with [`crate::Run::note`].
    pub note: Option<String>,
    /// Whether the run is recorded as under way, but its node is dead (the node's session has expired). When another
    /// node with this job polls the store, that node takes the run over or records the run as lost. Until then, the run
    /// is orphaned.
    #[serde(default)]
    pub orphaned: bool,
    /// Whether the run was cancelled and has not ended yet: its grace runs, or its node has not noticed the cancellation.
    #[serde(default)]
    pub cancelling: bool,
    /// Whether this attempt was lost or interrupted with its node, and a further attempt of the run follows. The run is
    /// counted once, by the state of its last attempt.
    #[serde(default)]
    pub retried: bool,
}

/// A future tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fire {
    /// The job's name.
    pub job: String,
    /// The tick, RFC 3339 in UTC.
    pub tick: String,
    /// The planned start: the tick plus the job's jitter.
    pub due: String,
}

/// A scheduler that runs over the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    /// The node's name. The default is its machine and process, `host:pid`. A node registers itself soon after its
    /// start. Before the registration, this field might contain the id of the node's client.
    pub node: String,
    /// The name of the node's program.
    pub program: Option<String>,
    /// Start of the node's client, measured by the node's own clock, RFC 3339 in UTC.
    pub since: Option<String>,
    /// The version of the time-zone table in the node's program, such as `2026a`. If the rules of a zone have changed
    /// between two versions, nodes with these versions compute different ticks in that zone.
    #[serde(default)]
    pub zones: Option<String>,
    /// The pause of the node or of its machine, if it is paused.
    #[serde(default)]
    pub paused: Option<Paused>,
}
