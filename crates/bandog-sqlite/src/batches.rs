//! Combines the requests into transactions, and decides which transaction is the next. Durable writes, which must
//! survive a power failure, wait for the disk. Other requests must not wait for durable writes.

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

/// Maximum number of requests in the channel to the writer. It is also the maximum number of requests in the queues
/// `quick` and `durable` of [`Batches`] together. Further requests wait until there is room in the channel, and enter
/// the channel in the order of their arrival.
pub(crate) const MAX_QUEUED: usize = 512;
/// Maximum number of queued durable writes. It is less than [`MAX_QUEUED`], so durable writes alone cannot fill the
/// queue.
pub(crate) const MAX_DURABLE: usize = 256;
/// Number of steps after which no further request is added to a transaction. The steps of a request measure its work:
/// see `Work::steps`. So a transaction lasts some milliseconds at most, and then other processes can write.
const MAX_STEPS: usize = 512;
/// Time for which the writer polls an empty queue before it sleeps. A caller often sends its next request right after
/// an answer, and waking a sleeping thread takes longer than most requests. In a measurement, one caller took and
/// released a lock 6,000 times a second without this polling, and 13,000 times a second with it. A longer time gave no
/// further improvement.
const SPIN: Duration = Duration::from_micros(50);
/// After a durable transaction, durable writes pause for the duration of the transaction divided by this number.
const PAUSE_DIVISOR: u32 = 4;
/// Maximum pause after a durable transaction.
const MAX_PAUSE: Duration = Duration::from_millis(2);
/// Interval between attempts to begin a durable transaction while another process is writing.
const BUSY_INTERVAL: Duration = Duration::from_micros(500);
/// Number of attempts with the interval [`BUSY_INTERVAL`]. If all of them fail, the other process probably has a slow
/// disk. So the next attempts have the interval [`SLOW_BUSY_INTERVAL`].
const BUSY_ATTEMPTS: u32 = 20;
/// Interval between attempts after the first [`BUSY_ATTEMPTS`] attempts.
const SLOW_BUSY_INTERVAL: Duration = Duration::from_millis(4);

/// The requests that wait for a transaction.
///
/// In a durable transaction, a process holds SQLite's write lock until the data is on the disk. The write lock has no
/// queue. If a process with durable writes takes the write lock again immediately, or polls the write lock as often as
/// the other processes do, the other processes rarely get the write lock. Then their short lease transactions starve.
/// So a process pauses its durable writes after each durable transaction, and rarely polls the write lock for them.
/// Durable writes also have their own queue, so that quick requests of the same process overtake them.
///
/// The table shows how long a lease request in a separate process waited while 4 or 8 other processes did nothing but
/// swap records. A write to the disk took 20 ms or 100 ms. The last two columns show the times without these measures:
///
/// | | p99 | worst | without these measures: p99 | worst |
/// |---|---|---|---|---|
/// | 4 processes, 20 ms | 20 ms | 84 ms | 0.26 s | 1.8 s |
/// | 8 processes, 20 ms | 20 to 40 ms | 81 ms | 0.75 s | 1.5 s |
/// | 4 processes, 100 ms | 0.10 s | 0.30 s | no write lock in 3 s | |
/// | 8 processes, 100 ms | 0.20 s | 0.80 s | no write lock in 3 s | |
pub(crate) struct Batches {
    /// The channel from the handle.
    queue: mpsc::Receiver<Request>,
    /// Requests that do not wait for the disk.
    quick: VecDeque<Request>,
    /// Requests whose writes must survive a power failure.
    durable: VecDeque<Request>,
    /// Number of quick requests that must be executed before the next durable batch. These are the quick requests that
    /// were queued when the previous durable batch ended. None if a durable batch has ended and these requests are not
    /// counted yet.
    quick_first: Option<usize>,
    /// Durable writes pause until this moment, so that other requests and processes can write.
    pause_until: Moment,
    /// Number of times that another process has blocked the durable writes since their last transaction.
    busy_attempts: u32,
}

impl Batches {
    pub(crate) fn new(queue: mpsc::Receiver<Request>) -> Self {
        Self {
            queue,
            quick: VecDeque::new(),
            durable: VecDeque::new(),
            quick_first: Some(0),
            pause_until: Clock::system().now(),
            busy_attempts: 0,
        }
    }

    /// Waits until there is a request. Returns the requests of the next transaction. Returns None when all senders are
    /// dropped and the queue is empty.
    pub(crate) fn next(&mut self) -> Option<Vec<Request>> {
        self.fill();
        if self.quick.is_empty() && self.durable.is_empty() {
            let first = self.spin().or_else(|| self.queue.blocking_recv())?;
            self.put(first);
            self.fill();
        }
        let quick_first = *self.quick_first.get_or_insert(self.quick.len());
        let is_pause_over = self.wait_for_pause_end();
        if self.quick.is_empty() || (quick_first == 0 && is_pause_over && !self.durable.is_empty()) {
            self.quick_first = None;
            return Some(take_batch(&mut self.durable));
        }
        let requests = take_batch(&mut self.quick);
        self.quick_first = Some(quick_first.saturating_sub(requests.len()));
        Some(requests)
    }

    /// Starts the pause that follows a durable transaction. During the pause, other requests and processes can write.
    /// `begun` is the moment at which the transaction began.
    pub(crate) fn pause_after(&mut self, begun: Moment) {
        let now = Clock::system().now();
        self.pause_until = now + (now.since(begun) / PAUSE_DIVISOR).min(MAX_PAUSE);
        self.busy_attempts = 0;
    }

    /// Puts durable writes back into their queue, because another process blocks them. So quick requests do not wait
    /// for the durable writes.
    pub(crate) fn put_back(&mut self, requests: Vec<Request>) {
        requests.into_iter().rev().for_each(|request| self.durable.push_front(request));
        let interval = if self.busy_attempts < BUSY_ATTEMPTS { BUSY_INTERVAL } else { SLOW_BUSY_INTERVAL };
        self.pause_until = Clock::system().now() + interval;
        self.busy_attempts += 1;
    }

    /// Waits until the pause is over or a quick request arrives. Returns whether the pause is over.
    fn wait_for_pause_end(&mut self) -> bool {
        loop {
            let left = self.pause_until.since(Clock::system().now());
            if left.is_zero() || !self.quick.is_empty() {
                return left.is_zero();
            }
            self.wait(left);
            self.fill();
        }
    }

    /// Waits until the next request arrives or this time has passed. If a request arrives, it is put into its queue.
    fn wait(&mut self, timeout: Duration) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        match self.queue.poll_recv(&mut Context::from_waker(&waker)) {
            Poll::Ready(Some(request)) => self.put(request),
            Poll::Ready(None) => thread::sleep(timeout), // All senders are dropped.
            Poll::Pending => thread::park_timeout(timeout),
        }
    }

    /// Moves requests from the channel into the two queues, as long as there is room.
    fn fill(&mut self) {
        while self.quick.len() + self.durable.len() < MAX_QUEUED
            && let Ok(request) = self.queue.try_recv()
        {
            self.put(request);
        }
    }

    /// Puts a request into the queue of its kind.
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

/// Takes the requests of one transaction from the front of the queue. A request of [`AccessMode::Read`] has its own
/// transaction.
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
