//! The writer's queue in two lanes: what waits for the disk, and what must not.

use std::{collections::VecDeque, thread, time::Duration};

use bandog_core::Clock;
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

/// What stands in the queue.
pub(crate) struct Lanes {
    queue: mpsc::Receiver<Order>,
    quick: VecDeque<Order>,
    /// What must outlive a power failure.
    durable: VecDeque<Order>,
    /// How many of the quick ones come before the next durable ones: those that stood there when the last durable ones
    /// were done. None until they are counted.
    first: Option<usize>,
}

impl Lanes {
    pub(crate) fn new(queue: mpsc::Receiver<Order>) -> Self {
        Self { queue, quick: VecDeque::new(), durable: VecDeque::new(), first: Some(0) }
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
        if self.quick.is_empty() || (first == 0 && !self.durable.is_empty()) {
            self.first = None;
            return Some(batch(&mut self.durable));
        }
        let orders = batch(&mut self.quick);
        self.first = Some(first.saturating_sub(orders.len()));
        Some(orders)
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
