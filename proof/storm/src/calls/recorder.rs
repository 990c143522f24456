//! The file to which a client writes its history.

use std::{
    marker::PhantomData,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::{call::Words, lines::Event, outcome::Outcome};
use crate::history::{CallId, Log, Nanos, nanos, now};

/// Writes the history of one client.
#[derive(Debug)]
pub(crate) struct Recorder<W> {
    log: Log,
    calls: AtomicU64,
    words: PhantomData<W>,
}

impl<W: Words> Recorder<W> {
    pub(crate) fn open(path: &Path) -> Self {
        let log = Log::open(path).expect("the history's directory can be written to");
        Self { log, calls: AtomicU64::new(0), words: PhantomData }
    }

    /// The number of the next call.
    pub(crate) fn next_call(&self) -> CallId {
        self.calls.fetch_add(1, Relaxed)
    }

    pub(crate) fn note(&self, other: W::Other) {
        self.log.write(&Event::<W>::Other(other));
    }

    /// Records a time in which a task has blocked the runtime of the client.
    pub(crate) fn blocked(&self, from: Nanos, to: Nanos) {
        self.log.write(&Event::<W>::Stalled { from, to });
    }

    /// Records that the runtime of the client is ended.
    pub(crate) fn killed(&self, at: Nanos) {
        self.log.write(&Event::<W>::Killed { at });
    }

    /// Records the beginning of a call.
    pub(crate) fn begin(&self, task: u32, object: W::Object, op: W::Op, limit: Duration) -> CallId {
        self.begin_at(now(), task, object, op, limit)
    }

    /// Records the beginning of a call at this time.
    pub(crate) fn begin_at(&self, at: Nanos, task: u32, object: W::Object, op: W::Op, limit: Duration) -> CallId {
        let call = self.next_call();
        self.log.write(&Event::<W>::Began { call, at, task, object, op, limit: nanos(limit) });
        call
    }

    /// Records the end of a call.
    pub(crate) fn end(&self, call: CallId, outcome: Outcome) {
        self.log.write(&Event::<W>::Ended { call, at: now(), outcome });
    }
}
