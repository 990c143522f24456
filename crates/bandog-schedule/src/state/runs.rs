//! The runs in a job's record: queued runs, runs under way, and the lines of the history.

use std::sync::Arc;

use bandog_core::{ClaimId, Holding, Key};
use bandog_cron::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Kind, RunRow, State, trigger::UnixMs};

/// A run that waits to start. In the record it is an array: `[id, kind, tick, attempt]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuedRun {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) tick: UnixMs,
    pub(crate) attempt: u32,
}

impl Serialize for QueuedRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        (self.id, self.kind, self.tick, self.attempt).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for QueuedRun {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let (id, kind, tick, attempt) = Deserialize::deserialize(deserializer)?;
        Ok(Self { id, kind, tick, attempt })
    }
}

/// The lock and the claim of a node's session. In the record it is an array: `["schedule/node/1", "uuid:7"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionClaim {
    /// The key of the lock.
    pub(crate) lock: String,
    /// The id of the claim.
    pub(crate) claim: String,
}

impl SessionClaim {
    pub(crate) fn new(holding: &Holding) -> Self {
        Self { lock: holding.key.to_string(), claim: holding.id.to_string() }
    }

    /// The lock and the claim. None if the record is damaged.
    fn holding(&self) -> Option<Holding> {
        Some(Holding { key: Key::new(&self.lock).ok()?, id: self.claim.parse::<ClaimId>().ok()? })
    }
}

impl Serialize for SessionClaim {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        (&self.lock, &self.claim).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SessionClaim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let (lock, claim) = Deserialize::deserialize(deserializer)?;
        Ok(Self { lock, claim })
    }
}

/// A run under way: a node has claimed the run, and its end is not written to the record yet. [`RunRow`] describes the
/// fields with the same names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LiveRun {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) tick: UnixMs,
    pub(crate) due: UnixMs,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
    pub(crate) started: UnixMs,
    /// The node's name, for histories.
    pub(crate) node: Arc<str>,
    /// The node's session. None for jobs of this process only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<Box<SessionClaim>>,
    /// Whether an operator or a newer run has cancelled this run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancel: bool,
}

impl LiveRun {
    /// The claim of the node's session. If this claim has expired, the node is dead. None for a job of this process,
    /// and if the record is damaged.
    pub(crate) fn holding(&self) -> Option<Holding> {
        self.session.as_deref()?.holding()
    }
}

/// A line of the history: a run that ended, or a range of ticks that did not run. [`RunRow`] describes the fields with
/// the same names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HistoryEntry {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) tick: UnixMs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<UnixMs>,
    pub(crate) ticks: u64,
    pub(crate) attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<u64>,
    pub(crate) due: UnixMs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<UnixMs>,
    pub(crate) ended: UnixMs,
    pub(crate) state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) retried: bool,
}

impl HistoryEntry {
    /// Parses a line. None if the text is not a line of a history.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The row for operators.
    pub(crate) fn row(&self, job: &str) -> RunRow {
        RunRow {
            job: job.to_owned(),
            id: self.id,
            tick: format_time(self.tick),
            from: self.from.map(format_time),
            ticks: self.ticks,
            kind: self.kind,
            attempt: self.attempt,
            node: self.node.as_deref().map(str::to_owned),
            fence: self.fence,
            due: format_time(self.due),
            started: self.started.map(format_time),
            ended: Some(format_time(self.ended)),
            lag_ms: self.started.map(|started| lag_ms(started, self.due)),
            state: self.state,
            error: self.error.clone(),
            note: self.note.clone(),
            orphaned: false,
            cancelling: false,
            retried: self.retried,
        }
    }
}

impl LiveRun {
    /// The row for operators.
    pub(crate) fn row(&self, job: &str) -> RunRow {
        RunRow {
            job: job.to_owned(),
            id: self.id,
            tick: format_time(self.tick),
            from: None,
            ticks: 1,
            kind: self.kind,
            attempt: self.attempt,
            node: Some(self.node.to_string()),
            fence: Some(self.fence),
            due: format_time(self.due),
            started: Some(format_time(self.started)),
            ended: None,
            lag_ms: Some(lag_ms(self.started, self.due)),
            state: State::Running,
            error: None,
            note: None,
            orphaned: false,
            cancelling: self.cancel,
            retried: false,
        }
    }
}

impl QueuedRun {
    /// The row for operators.
    pub(crate) fn row(&self, job: &str) -> RunRow {
        let Self { id, kind, tick, attempt } = *self;
        RunRow {
            job: job.to_owned(),
            id,
            tick: format_time(tick),
            from: None,
            ticks: 1,
            kind,
            attempt,
            node: None,
            fence: None,
            due: format_time(tick),
            started: None,
            ended: None,
            lag_ms: None,
            state: State::Queued,
            error: None,
            note: None,
            orphaned: false,
            cancelling: false,
            retried: false,
        }
    }
}

/// An instant in RFC 3339.
pub(crate) fn format_time(ms: UnixMs) -> String {
    Time::from_millisecond(ms).to_string()
}

/// Delay of the start after the planned start.
fn lag_ms(started: UnixMs, due: UnixMs) -> u64 {
    started.saturating_sub(due).max(0).unsigned_abs()
}
