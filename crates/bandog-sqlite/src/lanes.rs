//! The writer's queue in two lanes: what waits for the disk, and what must not.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use bandog_core::{Clock, Moment};
use tokio::sync::mpsc;

use crate::{queue::Order, work::Way};

/// How many requests may stand in the queue, and as many again in the lanes; more wait for room, in the order in which
/// they came.
pub(crate) const QUEUE: usize = 512;
/// How many of them may wait for the disk, so that the others find room.
pub(crate) const DURABLE: usize = 256;
/// A transaction takes no more requests when it has this many steps, so that it lasts some milliseconds at most and
/// other processes have their turn.
const STEPS: usize = 512;
/// Whoever has just been answered often asks again at once, and to wake a thread that sleeps takes longer than most
/// requests: one caller had 6,000 turns a second without this and 13,000 with it. More gains nothing.
const LINGER: Duration = Duration::from_micros(50);
/// How long the durable ones rest after a transaction, as a part of what it took and at most.
const REST: (u32, Duration) = (4, Duration::from_millis(2));
/// How long they wait when another process is writing, and when it has been for so many times: its disk is slow.
const BUSY: Duration = Duration::from_micros(500);
const VERY_BUSY: (u32, Duration) = (20, Duration::from_millis(4));

/// What stands in the queue.
///
/// SQLite's lock of writing is kept while the disk writes, and has no queue: whoever takes it again at once, or asks for
/// it as often as the others, shuts out the short transactions of leases, in other processes too. So the durable ones
/// rest after each transaction, ask seldom, and wait here, where the quick ones pass them by. The waits of a lease in a
/// process of its own beside 4 and 8 processes that did nothing but swap records, on a disk that took 20 ms and 100 ms:
///
/// | | p99 | worst | without all that: p99 | worst |
/// |---|---|---|---|---|
/// | 4 processes, 20 ms | 20 ms | 84 ms | 0.26 s | 1.8 s |
/// | 8 processes, 20 ms | 20 to 40 ms | 81 ms | 0.75 s | 1.5 s |
/// | 4 processes, 100 ms | 0.10 s | 0.30 s | no turn in 3 s | |
/// | 8 processes, 100 ms | 0.20 s | 0.80 s | no turn in 3 s | |
pub(crate) struct Lanes {
    queue: mpsc::Receiver<Order>,
    quick: VecDeque<Order>,
    /// What must outlive a power failure.
    durable: VecDeque<Order>,
    /// How many of the quick ones come before the next durable ones: those that stood there when the last durable ones
    /// were done. None until they are counted.
    first: Option<usize>,
    /// Until when the durable ones let others go first.
    rest_until: Moment,
    /// How often another process was in their way since they were done last.
    busy: u32,
}

impl Lanes {
    pub(crate) fn new(queue: mpsc::Receiver<Order>) -> Self {
        Self {
            queue,
            quick: VecDeque::new(),
            durable: VecDeque::new(),
            first: Some(0),
            rest_until: Clock::system().now(),
            busy: 0,
        }
    }

    /// Waits for a request and takes along what can share its transaction. None when nobody can ask any more.
    pub(crate) fn next(&mut self) -> Option<Vec<Order>> {
        self.fill();
        if self.quick.is_empty() && self.durable.is_empty() {
            let first = self.linger().or_else(|| self.queue.blocking_recv())?;
            self.put(first);
            self.fill();
        }
        let first = *self.first.get_or_insert(self.quick.len());
        let is_rested = self.rest();
        if self.quick.is_empty() || (first == 0 && is_rested && !self.durable.is_empty()) {
            self.first = None;
            return Some(batch(&mut self.durable));
        }
        let orders = batch(&mut self.quick);
        self.first = Some(first.saturating_sub(orders.len()));
        Some(orders)
    }

    /// After a durable transaction: lets others have their turn.
    pub(crate) fn rest_after(&mut self, begun: Moment) {
        let (now, (part, most)) = (Clock::system().now(), REST);
        self.rest_until = now + (now.since(begun) / part).min(most);
        self.busy = 0;
    }

    /// Puts durable ones back, in whose way another process is: they wait, and others do not.
    pub(crate) fn put_back(&mut self, orders: Vec<Order>) {
        orders.into_iter().rev().for_each(|order| self.durable.push_front(order));
        let (many, long) = VERY_BUSY;
        self.rest_until = Clock::system().now() + if self.busy < many { BUSY } else { long };
        self.busy += 1;
    }

    /// Whether the rest is over. Waits for that, or for something quick to be done meanwhile.
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

    /// Waits for the next request for so long, or less.
    fn wait(&mut self, long: Duration) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        match self.queue.poll_recv(&mut Context::from_waker(&waker)) {
            Poll::Ready(Some(order)) => self.put(order),
            Poll::Ready(None) => thread::sleep(long), // Nobody can ask any more.
            Poll::Pending => thread::park_timeout(long),
        }
    }

    fn fill(&mut self) {
        while self.quick.len() + self.durable.len() < QUEUE
            && let Ok(order) = self.queue.try_recv()
        {
            self.put(order);
        }
    }

    fn put(&mut self, order: Order) {
        match order.way() {
            Way::Durable => self.durable.push_back(order),
            Way::Read | Way::Look | Way::Write => self.quick.push_back(order),
        }
    }

    /// Looks for the next request for a moment, before it sleeps.
    fn linger(&mut self) -> Option<Order> {
        let until = Clock::system().now() + LINGER;
        while Clock::system().now() < until {
            if let Ok(order) = self.queue.try_recv() {
                return Some(order);
            }
            thread::yield_now();
        }
        None
    }
}

/// Wakes the writer.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The first requests of a lane that go into one transaction.
fn batch(lane: &mut VecDeque<Order>) -> Vec<Order> {
    let (mut orders, mut steps) = (Vec::new(), 0);
    while let Some(order) = lane.front() {
        let alone = order.way() == Way::Read;
        if steps >= STEPS || (alone && !orders.is_empty()) {
            break;
        }
        steps += if alone { STEPS } else { order.steps() };
        orders.extend(lane.pop_front());
    }
    orders
}
