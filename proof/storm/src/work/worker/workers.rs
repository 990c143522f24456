//! Workers that run, stop and start again.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bandog::work::{Backoff, Delivery, Running};

use super::{handler::handle, task::Task};
use crate::{
    calls::{Outcome, item::Item},
    work::history::{Op, Queue},
};

/// The number of deliveries after which an element is dead.
pub(in crate::work) const DELIVERIES: u32 = 5;
/// The leases, in milliseconds.
const LEASES: [u64; 3] = [1_000, 1_500, 2_000];
/// Maximum time for which workers run, in milliseconds.
const RUN: u64 = 10_000;
/// Maximum time for which workers wait for their handlers when they stop, in milliseconds.
const DRAIN: u64 = 3_000;
/// Maximum number of slots.
const SLOTS: u32 = 6;
/// Interval of the checks whether the workers must stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum duration of a stop, besides that of the handlers: they are aborted, and all elements are handed back.
const STOPS: Duration = Duration::from_secs(3);

/// Runs workers again and again.
pub(super) async fn run(mut task: Task, queue: Queue) {
    while !task.must_stop() {
        let drain = Duration::from_millis(task.random.u64(..DRAIN));
        let running = task.start(queue, drain);
        let until = Instant::now() + Duration::from_millis(task.random.u64(..RUN));
        while Instant::now() < until && !task.must_stop() {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        if task.random.u8(..4) == 0 && !task.must_stop() {
            drop(running);
            continue;
        }
        task.call((queue, Op::Stop), drain + STOPS, running.stop(), |()| Outcome::Ok).await;
    }
}

impl Task {
    fn start(&mut self, queue: Queue, drain: Duration) -> Running {
        let lease = Duration::from_millis(self.random.choice(LEASES).unwrap_or(LEASES[0]));
        let backoff = Backoff::exponential(Duration::from_millis(20), Duration::from_millis(400));
        let workers = self.context.queue(queue).workers(self.random.u32(1..=SLOTS)).lease(lease);
        let workers = workers.deliveries(DELIVERIES).backoff(backoff.expect("it rises")).drain(drain);
        let seeds = Mutex::new(fastrand::Rng::with_seed(self.random.u64(..)));
        let (context, counter) = (Arc::clone(&self.context), self.counter());
        workers.answer(move |delivery: Delivery<Item>| {
            let random = seeds.lock().unwrap_or_else(PoisonError::into_inner).fork();
            handle(Arc::clone(&context), counter.clone(), queue, delivery, random)
        })
    }
}
