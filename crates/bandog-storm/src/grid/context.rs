//! A client of the grid, and the file to which it writes its history.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use bandog::{
    Client, Error, ErrorKind, Result,
    grid::{Bloom, ClientGrid, Grid, Ids},
};
use tokio::sync::Mutex;

use super::history::{Event, Kind, Object, Op, Outcome};
use crate::history::{CallId, Log, Nanos, nanos, now};

/// Number of items and rate of false positives of the Bloom filter.
const BLOOM: (u64, f64) = (100_000, 0.01);
/// Number of ids in a block: small, so that many blocks are reserved.
const BLOCK: u64 = 5;

/// The state that the tasks of one client share.
pub(super) struct Context {
    pub(super) grid: Grid,
    pub(super) number: u32,
    pub(super) ids: Ids,
    bloom: Mutex<Option<Bloom<u64>>>,
    calls: AtomicU64,
    log: Log,
}

impl Context {
    pub(super) fn open(client: &Client, number: u32, path: &Path) -> Self {
        let grid = client.grid();
        let ids = grid.ids(Object(Kind::Ids, 0).name()).expect("the store has objects").block(BLOCK);
        let log = Log::open(path).expect("the history's directory can be written to");
        Self { grid, number, ids, bloom: Mutex::default(), calls: AtomicU64::new(0), log }
    }

    /// The number of the next call.
    pub(super) fn next_call(&self) -> CallId {
        self.calls.fetch_add(1, Relaxed)
    }

    pub(super) fn note(&self, event: &Event) {
        self.log.write(event);
    }

    /// Records the beginning of a call.
    pub(super) fn begin(&self, task: u32, object: Object, op: Op, limit: Duration) -> CallId {
        self.begin_at(now(), task, object, op, limit)
    }

    /// Records the beginning of a call at this time.
    pub(super) fn begin_at(&self, at: Nanos, task: u32, object: Object, op: Op, limit: Duration) -> CallId {
        let call = self.next_call();
        self.note(&Event::Began { call, at, task, object, op, limit: nanos(limit) });
        call
    }

    /// Records the end of a call.
    pub(super) fn end(&self, call: CallId, outcome: Outcome) {
        self.note(&Event::Ended { call, at: now(), outcome });
    }

    /// The Bloom filter, which is made or opened.
    pub(super) async fn bloom(&self) -> Result<Bloom<u64>> {
        if let Some(bloom) = &*self.bloom.lock().await {
            return Ok(bloom.clone());
        }
        let opened = self.grid.bloom(Object(Kind::Bloom, 0).name())?.create_or_open(BLOOM.0, BLOOM.1).await?;
        *self.bloom.lock().await = Some(opened.clone());
        Ok(opened)
    }

    /// Opens the Bloom filter again at its next use, because the store has lost it.
    pub(super) async fn forget_bloom(&self) {
        *self.bloom.lock().await = None;
    }
}

/// The outcome of a call with this error.
pub(super) fn outcome(object: Object, error: &Error) -> Outcome {
    match error.kind() {
        _ if error.maybe_applied() => Outcome::Unclear,
        ErrorKind::Unavailable | ErrorKind::Overloaded => Outcome::Refused,
        ErrorKind::Denied => Outcome::Denied,
        ErrorKind::Lost => Outcome::Lost,
        // The store has lost the filter, or has no sharded channels.
        ErrorKind::Misused if object.0 == Kind::Bloom => Outcome::Refused,
        ErrorKind::Unsupported if object.0 == Kind::Sharded => Outcome::Refused,
        _ => {
            eprintln!("storm: {object}: {error}");
            Outcome::Broken
        }
    }
}
