//! What the page shows and does, whoever knows of it.

use bandog::ErrorKind;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// Rows as JSON, or why there are none.
pub(crate) type Answer = Result<Box<RawValue>, Trouble>;

/// Jobs, runs and locks of one store.
pub(crate) trait Source: Send + Sync + 'static {
    /// The store, as everybody may see it.
    fn store(&self) -> &str;
    /// All jobs.
    fn jobs(&self) -> impl Future<Output = Answer> + Send;
    /// One job.
    fn job(&self, name: &str) -> impl Future<Output = Answer> + Send;
    /// A job's runs that are kept, the last first.
    fn history(&self, name: &str) -> impl Future<Output = Answer> + Send;
    /// The locks that somebody holds.
    fn locks(&self) -> impl Future<Output = Answer> + Send;
    /// The nodes that run jobs, and what is paused.
    fn nodes(&self) -> impl Future<Output = Answer> + Send;
    /// Does something to a job, and tells what came of it.
    fn act(&self, name: &str, act: Act) -> impl Future<Output = Answer> + Send;
}

/// What can be done to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// It runs now, whenever its next tick is.
    Run,
    /// Its ticks are skipped until it is resumed.
    Pause { reason: String },
    /// Its ticks count again.
    Resume,
    /// This run is cancelled, or all of them.
    Cancel { id: Option<u64> },
}

/// What a request to act may carry, all of it optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    pub(super) reason: Option<String>,
    pub(super) id: Option<u64>,
}

/// Why something was not told or done.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Trouble {
    /// In a word, which programs may rely on.
    pub(super) kind: &'static str,
    /// In a sentence.
    pub(super) message: String,
    #[serde(skip)]
    pub(super) status: StatusCode,
}

impl Trouble {
    pub(super) fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status }
    }

    /// What the store, or the library before it asked the store, says.
    pub(crate) fn of(error: &bandog::Error) -> Self {
        let (status, kind) = match error.kind() {
            ErrorKind::Misused => (StatusCode::BAD_REQUEST, "misused"),
            ErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
            ErrorKind::Unavailable | ErrorKind::NotReplicated => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            ErrorKind::Closed => (StatusCode::SERVICE_UNAVAILABLE, "closed"),
            ErrorKind::Denied => (StatusCode::BAD_GATEWAY, "denied"),
            ErrorKind::Corrupt => (StatusCode::BAD_GATEWAY, "corrupt"),
            // `ErrorKind` may grow; what is not known yet is our own fault.
            ErrorKind::Lost | _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Self::new(status, kind, error.to_string())
    }
}

/// Anything as JSON.
pub(crate) fn json(rows: &(impl Serialize + ?Sized)) -> Answer {
    to_raw_value(rows).map_err(|error| {
        Trouble::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", format!("this cannot be written as JSON: {error}"))
    })
}
