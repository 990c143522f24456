//! The bodies of the page's answers.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    ObjectJson,
    cache_json::CacheJson,
    digest::Bar,
    queue_json::{ShownElement, ShownQueue},
    snapshot::Counts,
};

/// An answer with rows. `now` is the time of the answer, and `at` is the time of the query of the store. Both times are
/// by this machine's clock.
#[derive(Serialize)]
pub(crate) struct Rows<'a, T> {
    pub(crate) now: String,
    pub(crate) at: String,
    pub(crate) store: &'a str,
    #[serde(flatten)]
    pub(crate) rows: T,
}

/// A part of the jobs, or all jobs.
#[derive(Serialize)]
pub(crate) struct JobsPart<'a> {
    pub(crate) jobs: Vec<&'a RawValue>,
    /// Number of jobs that match the request's filters.
    pub(crate) total: usize,
    pub(crate) counts: Counts,
    /// The last runs of each job in `jobs`, by the name of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bars: Option<HashMap<String, Vec<Bar>>>,
}

/// A part of the locks, or all locks.
#[derive(Serialize)]
pub(crate) struct LocksPart<'a> {
    pub(crate) locks: Vec<&'a RawValue>,
    /// Number of all locks.
    pub(crate) total: usize,
}

/// Some of the objects.
#[derive(Serialize)]
pub(crate) struct ObjectsPart<'a> {
    pub(crate) objects: Vec<ObjectJson<'a>>,
    /// The clients of caches, with the first objects.
    pub(crate) caches: Vec<CacheJson>,
    /// The cursor of the next objects. None after the last ones.
    pub(crate) next: Option<String>,
}

/// Some of the queues.
#[derive(Serialize)]
pub(crate) struct QueuesPart<'a> {
    pub(crate) queues: Vec<ShownQueue<'a>>,
    /// Number of queues that match, of the first [`crate::queues::MOST_NAMES`].
    pub(crate) total: usize,
}

/// Some of the elements of a queue.
#[derive(Serialize)]
pub(crate) struct ElementsPart<'a> {
    pub(crate) elements: Vec<ShownElement<'a>>,
    /// The cursor of the next elements. None after the last ones.
    pub(crate) next: Option<String>,
}

/// General data about the page.
#[derive(Serialize)]
pub(crate) struct About<'a> {
    pub(crate) now: String,
    pub(crate) version: &'static str,
    pub(crate) store: &'a str,
    /// Whether the page accepts actions. Each action requires a token.
    pub(crate) acts: bool,
    /// Whether the path `metrics` exists.
    pub(crate) metrics: bool,
    /// Whether the store has objects.
    pub(crate) objects: bool,
    /// Whether the store has work queues.
    pub(crate) queues: bool,
}
