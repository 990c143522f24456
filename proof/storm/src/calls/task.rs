//! A task: it makes one random call after the other.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use bandog::{Error, Result};
use tokio::time::timeout;

use super::{call::Words, outcome::Outcome, recorder::Recorder};
use crate::history::CallId;

/// One call of this number is dropped after a short time.
const DROPPED: u32 = 16;
/// Maximum time after which a call is dropped.
const DROPPED_AFTER: Duration = Duration::from_micros(3_000);
/// Number of numbers of a task for its elements, versions and items.
const NUMBERS: u64 = 1 << 26;
/// Maximum number of tasks of a client.
const TASKS: u64 = 16;

/// What the tasks of one client share.
pub(crate) trait Context: Send + Sync + 'static {
    type Words: Words;

    /// The number of the client.
    fn client(&self) -> u32;

    fn recorder(&self) -> &Recorder<Self::Words>;

    /// The outcome of a call with this error.
    fn outcome(object: <Self::Words as Words>::Object, error: &Error) -> Outcome;

    /// The outcome of a call with this error, which is printed if no call may get it.
    fn failed(object: <Self::Words as Words>::Object, error: &Error) -> Outcome {
        let outcome = Self::outcome(object, error);
        if outcome == Outcome::Broken {
            eprintln!("storm: {object:?}: {error}");
        }
        outcome
    }
}

/// The state of one task.
pub(crate) struct Task<C> {
    pub(crate) context: Arc<C>,
    pub(crate) number: u32,
    pub(crate) random: fastrand::Rng,
    /// A number that no other task has.
    pub(crate) owner: u64,
    numbers: u64,
    calls: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl<C: Context> Task<C> {
    pub(crate) fn new(context: Arc<C>, number: u32, seed: u64, calls: Arc<AtomicU64>, stop: Arc<AtomicBool>) -> Self {
        let owner = u64::from(context.client()) * TASKS + u64::from(number);
        let random = fastrand::Rng::with_seed(seed ^ owner << 32);
        Self { context, number, random, owner, numbers: 0, calls, stop }
    }

    pub(crate) fn must_stop(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// A number that is used once in a run, and is not 0.
    pub(crate) fn unique(&mut self) -> u64 {
        self.numbers += 1;
        self.owner * NUMBERS + self.numbers
    }

    /// Makes a call, and records it. Returns the number of the call, and its result if it was successful.
    pub(crate) async fn call<T>(
        &mut self,
        (object, op): (<C::Words as Words>::Object, <C::Words as Words>::Op),
        limit: Duration,
        future: impl Future<Output = Result<T>>,
        result: impl FnOnce(&T) -> Outcome,
    ) -> (CallId, Option<T>) {
        let call = self.context.recorder().begin(self.number, object, op, limit);
        (call, self.finish(call, object, future, result).await)
    }

    /// Makes a call whose beginning is recorded, and records its end. Returns its result if it was successful.
    pub(crate) async fn finish<T>(
        &mut self,
        call: CallId,
        object: <C::Words as Words>::Object,
        future: impl Future<Output = Result<T>>,
        result: impl FnOnce(&T) -> Outcome,
    ) -> Option<T> {
        let (recorded, value) = match self.answer(future).await {
            None => (Outcome::Cancelled, None),
            Some(Ok(value)) => (result(&value), Some(value)),
            Some(Err(error)) => (C::failed(object, &error), None),
        };
        self.context.recorder().end(call, recorded);
        self.count(1);
        value
    }

    /// Waits for the answer to a call. None: the future was dropped, or code of the user has panicked in it.
    pub(crate) async fn answer<T>(&mut self, future: impl Future<Output = Result<T>>) -> Option<Result<T>> {
        let dropped_after = DROPPED_AFTER.mul_f64(self.random.f64() * self.random.f64());
        let caught = caught(future);
        match self.random.u32(..DROPPED) {
            0 => timeout(dropped_after, caught).await.ok().flatten(),
            _ => caught.await,
        }
    }

    /// The number of calls that have ended in this process.
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.calls)
    }

    /// Counts calls that have ended.
    pub(crate) fn count(&self, calls: u64) {
        self.calls.fetch_add(calls, Relaxed);
    }
}

/// The output of a future. None: it has panicked.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}
