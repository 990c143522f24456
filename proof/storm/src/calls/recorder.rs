//! The file to which a client writes its history.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::{call::Words, event::Event, outcome::Outcome};
use crate::history::{CallId, Log, Nanos, nanos, now};

/// Writes the history of one client.
#[derive(Debug)]
pub(crate) struct Recorder<W> {
    log: Log,
    calls: AtomicU64,
    words: std::marker::PhantomData<W>,
}

impl<W: Words> Recorder<W> {
    pub(crate) fn open(path: &Path) -> Self {
        Self { log: Log::open(path), calls: AtomicU64::new(0), words: std::marker::PhantomData }
    }

    /// The number of the next call.
    pub(crate) fn next_call(&self) -> CallId {
        self.calls.fetch_add(1, Relaxed)
    }

    pub(crate) fn note(&self, other: W::Other) {
        self.write(Event::Other(other));
    }

    /// Writes a line.
    pub(super) fn write(&self, event: Event<W>) {
        self.log.write(&event);
    }

    /// Records a time in which a task has blocked the runtime of the client.
    pub(crate) fn blocked(&self, from: Nanos, to: Nanos) {
        self.write(Event::Blocked { from, to });
    }

    /// Records the beginning of a call.
    pub(crate) fn begin(&self, task: u32, object: W::Object, op: W::Op, limit: Duration) -> CallId {
        self.begin_at(now(), task, object, op, limit)
    }

    /// Records the beginning of a call at this time.
    pub(crate) fn begin_at(&self, at: Nanos, task: u32, object: W::Object, op: W::Op, limit: Duration) -> CallId {
        let call = self.next_call();
        self.write(Event::Began { call, at, task, object, op, limit: nanos(limit) });
        call
    }

    /// Records the end of a call.
    pub(crate) fn end(&self, call: CallId, outcome: Outcome) {
        self.write(Event::Ended { call, at: now(), outcome });
    }
}
