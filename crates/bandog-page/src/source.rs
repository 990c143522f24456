//! The data and the actions of the page, independent of their origin.

use std::time::Duration;

use bandog_core::{
    Error, ErrorKind, Pattern,
    queues::{ElementId, ElementRow, Phase, QueueStatus},
    structures::{CacheReport, Cursor, ObjectRow},
};
use bandog_cron::Time;
use bandog_schedule::{Fire, JobRow, RunRow};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// Rows as JSON, or an error.
pub(crate) type Answer = Result<Box<RawValue>, Trouble>;

/// A page of objects, and where the next one begins. None after the last page.
pub(crate) type ObjectsPage = (Vec<ObjectRow>, Option<Cursor>);

/// A page of elements of a queue, and where the next one begins. None after the last page.
pub(crate) type ElementsPage = (Vec<ElementRow>, Option<Cursor>);

/// A lock that is held, or a latch that is not open.
#[derive(Debug)]
pub(crate) struct ListedLock {
    pub(crate) name: String,
    /// Number of calls that wait for it.
    pub(crate) waiters: usize,
    pub(crate) json: Box<RawValue>,
}

/// Jobs, runs, queues and locks of one store. Each call queries the store.
pub(crate) trait Source: Send + Sync + 'static {
    /// The store's name without secrets.
    fn store(&self) -> &str;
    /// All jobs.
    fn jobs(&self) -> impl Future<Output = Result<Vec<JobRow>, Trouble>> + Send;
    /// The runs of a job that the store still has, the latest run first.
    fn history(&self, name: &str) -> impl Future<Output = Result<Vec<RunRow>, Trouble>> + Send;
    /// The ticks (the times at which jobs are due) from now until `within` has passed, at most `most` ticks of each
    /// job.
    fn fires(&self, within: Duration, most: usize) -> impl Future<Output = Result<Vec<Fire>, Trouble>> + Send;
    /// The locks that are held, and the latches that are not open.
    fn locks(&self) -> impl Future<Output = Result<Vec<ListedLock>, Trouble>> + Send;
    /// Whether the store has objects.
    fn has_objects(&self) -> bool;
    /// A page of the objects whose names match. The store examines about this number of names.
    fn objects(
        &self,
        pattern: &Pattern,
        from: &Cursor,
        about: usize,
    ) -> impl Future<Output = Result<ObjectsPage, Trouble>> + Send;
    /// What clients have counted of their caches in the last minutes.
    fn cache_reports(&self) -> impl Future<Output = Result<Vec<CacheReport>, Trouble>> + Send;
    /// Whether the store has work queues.
    fn has_queues(&self) -> bool;
    /// The names of the first work queues, at most this number.
    fn queue_names(&self, most: usize) -> impl Future<Output = Result<Vec<String>, Trouble>> + Send;
    /// The state of a work queue.
    fn queue(&self, name: &str) -> impl Future<Output = Result<QueueStatus, Trouble>> + Send;
    /// A page of about this number of elements of a work queue.
    fn elements(
        &self,
        name: &str,
        phase: Phase,
        from: &Cursor,
        about: usize,
    ) -> impl Future<Output = Result<ElementsPage, Trouble>> + Send;
    /// The nodes that run jobs, and the pauses of jobs that are in force now.
    fn nodes(&self) -> impl Future<Output = Answer> + Send;
    /// Executes an action, and returns the result.
    fn act(&self, target: &Target, act: Act) -> impl Future<Output = Answer> + Send;
}

/// The thing on which an action is executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The job with this name.
    Job(String),
    /// All jobs.
    All,
    /// The node or the machine with this name.
    Node(String),
    /// The lock with this name.
    Lock(String),
    /// The work queue with this name.
    Queue(String),
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// Runs the job now, in addition to its ticks.
    Run,
    /// Skips the ticks of the job or of all jobs until they are resumed, stops the node from claiming ticks, or stops the
    /// deliveries of the queue.
    Pause { reason: String },
    /// Ends the pause.
    Resume,
    /// Cancels this run, or all runs of the job.
    Cancel { id: Option<u64> },
    /// Runs the past ticks of the job from the first time to the second one, both included.
    Backfill { from: Time, to: Time },
    /// Deletes the job and its history.
    Forget,
    /// Takes the lock from its holders.
    Release,
    /// Makes these dead elements of the queue ready again. Empty: all.
    Retry { ids: Vec<ElementId> },
    /// Removes these elements of the queue.
    Remove { ids: Vec<ElementId> },
}

/// The optional fields in the body of a request for an action.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActFields {
    pub(crate) reason: Option<String>,
    pub(crate) id: Option<u64>,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) ids: Option<Vec<String>>,
}

/// The error of a request.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Trouble {
    /// One word that identifies the kind of error. Programs can rely on this word.
    pub(crate) kind: &'static str,
    /// The text for people.
    pub(crate) message: String,
    #[serde(skip)]
    pub(crate) status: StatusCode,
}

impl Trouble {
    pub(crate) fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status }
    }

    /// An error of the store, or an error that the library found before it sent a request.
    pub(crate) fn of(error: &Error) -> Self {
        let (status, kind) = match error.kind() {
            ErrorKind::Misused => (StatusCode::BAD_REQUEST, "misused"),
            ErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
            ErrorKind::Unavailable | ErrorKind::NotReplicated => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            ErrorKind::Closed => (StatusCode::SERVICE_UNAVAILABLE, "closed"),
            ErrorKind::Denied => (StatusCode::BAD_GATEWAY, "denied"),
            ErrorKind::Corrupt => (StatusCode::BAD_GATEWAY, "corrupt"),
            // `ErrorKind` might get new kinds. An unknown kind is an internal error.
            ErrorKind::Lost | _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Self::new(status, kind, error.to_string())
    }

    /// The path does not exist.
    pub(crate) fn nothing_here() -> Self {
        Self::new(StatusCode::NOT_FOUND, "path", "there is nothing under this path")
    }

    /// The store has no objects or work queues.
    pub(crate) fn none_in_store(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "path", format!("the store of this page has no {what}"))
    }

    /// The locks are not known yet, because the scan of the store is in progress.
    pub(crate) fn scanning() -> Self {
        let message = "the store is being scanned for locks, which takes long with many keys: retry later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "scanning", message)
    }

    /// The store knows no such job.
    pub(crate) fn no_job(name: &str) -> Self {
        let message = format!("the store knows no job {name:?}; GET /api/jobs lists them all");
        Self::new(StatusCode::NOT_FOUND, "job", message)
    }
}

/// Serializes a value as JSON.
pub(crate) fn json(rows: &(impl Serialize + ?Sized)) -> Answer {
    to_raw_value(rows).map_err(|error| unwritable(&error))
}

/// The error for a value that cannot be serialized.
pub(crate) fn unwritable(error: &serde_json::Error) -> Trouble {
    let message = format!("cannot serialize as JSON: {error}");
    Trouble::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
}
