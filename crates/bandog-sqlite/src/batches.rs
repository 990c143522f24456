//! Orders the requests into transactions: durable writes wait for the disk, and other requests must not.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use bandog_core::{Clock, Moment};
use tokio::sync::mpsc;

use crate::{request::Request, work::AccessMode};

/// Maximum number of requests in the queue, and again in `quick` and `durable` together. Further requests wait for room
/// in their order.
pub(crate) const MAX_QUEUED: usize = 512;
/// Maximum number of queued durable writes, so that other requests find room.
pub(crate) const MAX_DURABLE: usize = 256;
/// Number of steps after which a transaction takes no further request. So a transaction lasts some milliseconds at
/// most, and other processes get their turn.
const MAX_STEPS: usize = 512;
/// Time for which the writer polls an empty queue before it sleeps. A caller often sends its next request right after
/// an answer, and to wake a sleeping thread takes longer than most requests. One caller reached 6,000 cycles a second
/// without this and 13,000 with it. A longer time gains nothing.
const SPIN: Duration = Duration::from_micros(50);
/// After a durable transaction, durable writes rest for its duration divided by this.
const REST_DIVISOR: u32 = 4;
/// Maximum rest after a durable transaction.
const MAX_REST: Duration = Duration::from_millis(2);
/// Interval between attempts of durable writes while another process is writing.
const BUSY_INTERVAL: Duration = Duration::from_micros(500);
/// Number of such attempts after which the interval grows: the other process has a slow disk.
const BUSY_ATTEMPTS: u32 = 20;
/// Interval after that many attempts.
const SLOW_BUSY_INTERVAL: Duration = Duration::from_millis(4);

/// The requests that wait for a transaction.
///
/// SQLite's write lock is held while the disk writes, and it has no queue. A process that takes it again at once, or
/// that polls it as often as the others, starves the short transactions of leases, in other processes too. So durable
/// writes rest after each transaction, poll rarely, and wait in a queue of their own, where quick requests overtake
/// them. The table shows the waits of a lease in a separate process, beside 4 and 8 processes that only swapped
/// records, on a disk that took 20 ms and 100 ms:
///
/// | | p99 | worst | without these measures: p99 | worst |
/// |---|---|---|---|---|
/// | 4 processes, 20 ms | 20 ms | 84 ms | 0.26 s | 1.8 s |
/// | 8 processes, 20 ms | 20 to 40 ms | 81 ms | 0.75 s | 1.5 s |
/// | 4 processes, 100 ms | 0.10 s | 0.30 s | no turn in 3 s | |
/// | 8 processes, 100 ms | 0.20 s | 0.80 s | no turn in 3 s | |
pub(crate) struct Batches {
    queue: mpsc::Receiver<Request>,
    quick: VecDeque<Request>,
    /// Requests whose writes must survive a power failure.
    durable: VecDeque<Request>,
    /// Number of quick requests that precede the next durable batch: those that were queued when the last durable batch
    /// ended. None until they are counted.
    quick_first: Option<usize>,
    /// Durable writes let other requests and processes go first until this moment.
    rest_until: Moment,
    /// Number of times that another process blocked the durable writes since their last transaction.
    busy_attempts: u32,
}

impl Batches {
    pub(crate) fn new(queue: mpsc::Receiver<Request>) -> Self {
        Self {
            queue,
            quick: VecDeque::new(),
            durable: VecDeque::new(),
            quick_first: Some(0),
            rest_until: Clock::system().now(),
            busy_attempts: 0,
        }
    }

    /// Waits for a request and adds those that can share its transaction. None when all senders are gone and the queue
    /// is empty.
    pub(crate) fn next(&mut self) -> Option<Vec<Request>> {
        self.fill();
        if self.quick.is_empty() && self.durable.is_empty() {
            let first = self.spin().or_else(|| self.queue.blocking_recv())?;
            self.put(first);
            self.fill();
        }
        let quick_first = *self.quick_first.get_or_insert(self.quick.len());
        let is_rested = self.rest();
        if self.quick.is_empty() || (quick_first == 0 && is_rested && !self.durable.is_empty()) {
            self.quick_first = None;
            return Some(take_batch(&mut self.durable));
        }
        let requests = take_batch(&mut self.quick);
        self.quick_first = Some(quick_first.saturating_sub(requests.len()));
        Some(requests)
    }

    /// Starts the rest after a durable transaction, in which others get their turn.
    pub(crate) fn rest_after(&mut self, begun: Moment) {
        let now = Clock::system().now();
        self.rest_until = now + (now.since(begun) / REST_DIVISOR).min(MAX_REST);
        self.busy_attempts = 0;
    }

    /// Returns durable writes to the queue because another process blocks them. Other requests do not wait for them.
    pub(crate) fn put_back(&mut self, requests: Vec<Request>) {
        requests.into_iter().rev().for_each(|request| self.durable.push_front(request));
        let interval = if self.busy_attempts < BUSY_ATTEMPTS { BUSY_INTERVAL } else { SLOW_BUSY_INTERVAL };
        self.rest_until = Clock::system().now() + interval;
        self.busy_attempts += 1;
    }

    /// Waits until the rest is over or a quick request arrives. Returns whether the rest is over.
    fn rest(&mut self) -> bool {
        loop {
            let left = self.rest_until.since(Clock::system().now());
            if left.is_zero() || !self.quick.is_empty() {
                return left.is_zero();
            }
            self.wait(left);
            self.fill();
        }
    }

    /// Waits for the next request, at most for this time.
    fn wait(&mut self, timeout: Duration) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        match self.queue.poll_recv(&mut Context::from_waker(&waker)) {
            Poll::Ready(Some(request)) => self.put(request),
            Poll::Ready(None) => thread::sleep(timeout), // All senders are gone.
            Poll::Pending => thread::park_timeout(timeout),
        }
    }

    fn fill(&mut self) {
        while self.quick.len() + self.durable.len() < MAX_QUEUED
            && let Ok(request) = self.queue.try_recv()
        {
            self.put(request);
        }
    }

    fn put(&mut self, request: Request) {
        match request.access_mode() {
            AccessMode::DurableWrite => self.durable.push_back(request),
            AccessMode::Read | AccessMode::ReadFirst | AccessMode::Write => self.quick.push_back(request),
        }
    }

    /// Polls the queue for a moment, before the thread sleeps.
    fn spin(&mut self) -> Option<Request> {
        let until = Clock::system().now() + SPIN;
        while Clock::system().now() < until {
            if let Ok(request) = self.queue.try_recv() {
                return Some(request);
            }
            thread::yield_now();
        }
        None
    }
}

/// Wakes the writer thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Takes the first requests that go into one transaction. An [`AccessMode::Read`] goes alone.
fn take_batch(queue: &mut VecDeque<Request>) -> Vec<Request> {
    let (mut requests, mut steps) = (Vec::new(), 0);
    while let Some(request) = queue.front() {
        let is_alone = request.access_mode() == AccessMode::Read;
        if steps >= MAX_STEPS || (is_alone && !requests.is_empty()) {
            break;
        }
        steps += if is_alone { MAX_STEPS } else { request.steps() };
        requests.extend(queue.pop_front());
    }
    requests
}
