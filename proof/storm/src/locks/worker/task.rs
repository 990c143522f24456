//! The parts that the tasks for locks, latches, barriers and elections share.

use std::{pin::pin, time::Duration};

use bandog::{Error, Result};
use tokio::time;

use super::context::Context;
use crate::{
    calls::{self, Context as _, Outcome},
    history::CallId,
    locks::history::{Name, Op, Verb},
    plan::TIMEOUT,
};

/// Interval at which a call without a limit checks whether all tasks must end.
const STOP_INTERVAL: Duration = Duration::from_millis(20);

pub(super) type Task = calls::Task<Context>;

impl Task {
    /// Counts a call, and pauses for some milliseconds or not at all, so that the tasks with locks make most calls.
    pub(super) async fn rest(&mut self) {
        self.count(1);
        match self.random.u8(..10) {
            0..6 => time::sleep(Duration::from_millis(self.random.u64(..8))).await,
            _ => tokio::task::yield_now().await,
        }
    }

    /// Records the beginning of a call, and returns the call's number.
    pub(super) fn begin(&self, name: usize, op: Op, limit: Duration) -> CallId {
        self.context.recorder.begin(self.number, Name(name), op, limit)
    }

    /// Makes a call for a latch or a barrier, and records it. The future of the call is dropped after `patience`, or
    /// when all tasks must end if there is no `patience`. `limit` is the time in which the call must end.
    pub(super) async fn step<T>(
        &self,
        (name, op): (usize, Op),
        (limit, patience): (Duration, Option<Duration>),
        call: impl Future<Output = Result<T>>,
        outcome: impl FnOnce(T) -> Outcome,
    ) -> Outcome {
        let id = self.begin(name, op, limit);
        let outcome = tokio::select! { biased;
            answer = call => answer.map_or_else(|error| Context::failed(Name(name), &error), outcome),
            () = self.give_up(patience) => Outcome::Cancelled,
        };
        self.context.recorder.end(id, outcome);
        if is_unavailable(outcome) {
            time::sleep(Duration::from_millis(5)).await;
        }
        outcome
    }

    /// Waits for this time, or until all tasks must end.
    pub(super) async fn give_up(&self, patience: Option<Duration>) {
        let mut end = pin!(time::sleep(patience.unwrap_or(Duration::MAX)));
        while !(self.must_stop() && patience.is_none()) {
            tokio::select! {
                () = &mut end => return,
                () = time::sleep(STOP_INTERVAL) => {}
            }
        }
    }

    /// Records the end of a call for a lock with this error.
    pub(super) fn failed(&self, name: usize, call: CallId, error: &Error) -> Outcome {
        let outcome = Context::failed(Name(name), error);
        self.context.recorder.end(call, outcome);
        outcome
    }

    /// Releases what the call `of` holds, and records the release. In some cases, the future of the release is dropped,
    /// and the lock is released nevertheless.
    pub(super) async fn release(
        &self,
        (name, of): (usize, CallId),
        is_dropped: bool,
        release: impl Future<Output = Result<()>>,
    ) -> Outcome {
        let call = self.begin(name, Op::Release { of }, TIMEOUT);
        let outcome = tokio::select! { biased;
            answer = release => answer.map_or_else(|error| Context::failed(Name(name), &error), |()| Outcome::Ok),
            () = tokio::task::yield_now(), if is_dropped => Outcome::Cancelled,
        };
        self.context.recorder.end(call, outcome);
        outcome
    }
}

impl Op {
    /// The operation of a call for a lock with a watchdog or a fixed lease.
    pub(super) fn lock(share: crate::locks::share::Share, verb: Verb, ttl: Duration, watched: bool) -> Self {
        Self::Lock { share, verb, ttl: crate::history::nanos(ttl), watched }
    }
}

/// Whether the store or its replicas did not answer in time.
pub(super) fn is_unavailable(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Refused | Outcome::Unclear | Outcome::NotReplicated)
}
