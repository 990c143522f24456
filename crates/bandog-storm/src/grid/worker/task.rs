//! A task: it makes one random call after the other.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog::Result;
use tokio::time::timeout;

use crate::{
    grid::{
        context::{Context, outcome},
        history::{Object, Op, Outcome},
    },
    history::CallId,
    plan::TIMEOUT,
};

/// Maximum duration of a call that is sent once.
pub(super) const ONCE: Duration = TIMEOUT;
/// Maximum duration of an exact call.
pub(super) const EXACT: Duration = TIMEOUT.saturating_mul(4);
/// Maximum duration of a call that takes an element, without the time for which it waits.
pub(super) const TAKES: Duration = TIMEOUT.saturating_mul(4);
/// Maximum duration of the end of an element.
pub(super) const SETTLES: Duration = TIMEOUT.saturating_mul(9);
/// Maximum duration of a call that makes several requests.
pub(super) const SEVERAL: Duration = Duration::from_secs(60);

/// One call of this number is dropped after a short time.
const DROPPED: u32 = 16;
/// Maximum time after which a call is dropped.
const DROPPED_AFTER: Duration = Duration::from_micros(3_000);
/// Number of numbers of a task for its elements, versions and items.
const NUMBERS: u64 = 1 << 26;
/// Maximum number of tasks of a client.
const TASKS: u64 = 16;

/// The state of one task.
pub(super) struct Task {
    pub(super) context: Arc<Context>,
    pub(super) number: u32,
    pub(super) random: fastrand::Rng,
    /// A number that no other task has.
    pub(super) owner: u64,
    /// The number of the last message at each topic.
    pub(super) published: BTreeMap<Object, u64>,
    numbers: u64,
    calls: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Task {
    pub(super) fn new(
        context: Arc<Context>,
        number: u32,
        seed: u64,
        calls: Arc<AtomicU64>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let owner = u64::from(context.number) * TASKS + u64::from(number);
        let random = fastrand::Rng::with_seed(seed ^ owner << 32);
        Self { context, number, random, owner, published: BTreeMap::new(), numbers: 0, calls, stop }
    }

    pub(super) async fn run(mut self) {
        while !self.must_stop() {
            match self.random.u8(..100) {
                // Fewer elements are pushed than taken out, so none stays for long.
                0..18 => self.push().await,
                18..42 => self.pop().await,
                42..52 => self.take().await,
                52..68 => self.own_value().await,
                68..76 => self.swap().await,
                76..84 => self.add().await,
                84..87 => self.next_id().await,
                87..91 => self.bloom().await,
                91..94 => self.batch().await,
                _ => self.publish().await,
            }
        }
    }

    pub(super) fn must_stop(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// A number that is used once in a run, and is not 0.
    pub(super) fn unique(&mut self) -> u64 {
        self.numbers += 1;
        self.owner * NUMBERS + self.numbers
    }

    /// A short random time, which is often 0 and seldom longer than a lease.
    pub(super) fn short_time(&mut self) -> Duration {
        Duration::from_millis(match self.random.u8(..200) {
            0 => self.random.u64(..1_600),
            1..20 => self.random.u64(..50),
            _ => 0,
        })
    }

    /// Makes a call, and records it. Returns the number of the call, and its result if it was successful.
    pub(super) async fn call<T>(
        &mut self,
        (object, op): (Object, Op),
        limit: Duration,
        future: impl Future<Output = Result<T>>,
        result: impl FnOnce(&T) -> Outcome,
    ) -> (CallId, Option<T>) {
        let call = self.context.begin(self.number, object, op, limit);
        (call, self.finish(call, object, future, result).await)
    }

    /// Makes a call whose beginning is recorded, and records its end. Returns its result if it was successful.
    pub(super) async fn finish<T>(
        &mut self,
        call: CallId,
        object: Object,
        future: impl Future<Output = Result<T>>,
        result: impl FnOnce(&T) -> Outcome,
    ) -> Option<T> {
        let dropped_after = DROPPED_AFTER.mul_f64(self.random.f64() * self.random.f64());
        let answer = match self.random.u32(..DROPPED) {
            0 => timeout(dropped_after, future).await.ok(),
            _ => Some(future.await),
        };
        let (recorded, value) = match answer {
            None => (Outcome::Cancelled, None),
            Some(Ok(value)) => (result(&value), Some(value)),
            Some(Err(error)) => (outcome(object, &error), None),
        };
        self.context.end(call, recorded);
        self.count(1);
        value
    }

    /// Counts calls that have ended.
    pub(super) fn count(&self, calls: u64) {
        self.calls.fetch_add(calls, Relaxed);
    }
}
