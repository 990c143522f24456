//! Calls that push elements, and that take them out.

use std::time::Duration;

use bandog::grid::{Deque, Queue, Set, SortedSet, Taken};

use super::task::{EXACT, ONCE, SETTLES, TAKES, Task};
use crate::{
    calls::{Context as _, Outcome, item::Item},
    grid::history::{How, Kind, OBJECTS, Object, Op},
    history::now,
};

/// The lease of taken elements: the shortest one that is allowed.
const LEASE: Duration = Duration::from_secs(1);

impl Task {
    fn element_object(&mut self) -> Object {
        let kind = self.random.choice([Kind::Queue, Kind::Queue, Kind::Deque, Kind::Sorted, Kind::Bag]);
        Object(kind.unwrap_or(Kind::Queue), self.random.u32(..OBJECTS))
    }

    pub(super) fn queue(&self, object: Object) -> Queue<Item> {
        self.context.grid.queue(object.name()).expect("a handle").lease(LEASE)
    }

    fn deque(&self, object: Object) -> Deque<Item> {
        self.context.grid.deque(object.name()).expect("a handle").lease(LEASE)
    }

    fn sorted(&self, object: Object) -> SortedSet<Item> {
        self.context.grid.sorted_set(object.name()).expect("a handle")
    }

    fn bag(&self, object: Object) -> Set<Item> {
        self.context.grid.set(object.name()).expect("a handle")
    }

    pub(super) async fn push(&mut self) {
        let (object, element, is_exact) = (self.element_object(), self.unique(), self.random.bool());
        let is_list = matches!(object.0, Kind::Queue | Kind::Deque);
        let (op, limit) = match is_exact && is_list {
            true => (Op::ExactPush(element), EXACT),
            false => (Op::Push(element), ONCE),
        };
        let (at, element) = ((object, op), Item::new(element));
        match object.0 {
            Kind::Sorted => {
                let (set, score) = (self.sorted(object), self.random.f64());
                let is_new = |is_new: &bool| if *is_new { Outcome::Ok } else { Outcome::Broken };
                self.call(at, limit, async { set.insert(score, &element).await }, is_new).await;
            }
            Kind::Bag => {
                let bag = self.bag(object);
                let is_new = |is_new: &bool| if *is_new { Outcome::Ok } else { Outcome::Broken };
                self.call(at, limit, async { bag.insert(&element).await }, is_new).await;
            }
            Kind::Deque => {
                let deque = self.deque(object);
                let deque = if is_exact { deque.exact() } else { deque };
                let push = if self.random.bool() { deque.push(&element) } else { deque.push_front(&element) };
                self.call(at, limit, async { push.await }, |_| Outcome::Ok).await;
            }
            _ => {
                let queue = self.queue(object);
                let push = if is_exact { queue.exact().push(&element) } else { queue.push(&element) };
                self.call(at, limit, async { push.await }, |_| Outcome::Ok).await;
            }
        }
    }

    pub(super) async fn pop(&mut self) {
        let (object, wait) = (self.element_object(), self.short_time());
        let (waits, is_back) = (self.random.u8(..4) == 0, self.random.bool());
        let (at, limit) = ((object, Op::Pop), if waits { wait + TAKES } else { TAKES });
        let found = |popped: &Option<Item>| popped.as_ref().map_or(Outcome::No, |item| Outcome::Found(**item));
        match object.0 {
            Kind::Sorted => {
                let set = self.sorted(object);
                let popped = async {
                    let popped = match (waits, is_back) {
                        (false, false) => set.pop_min().await,
                        (false, true) => set.pop_max().await,
                        (true, false) => set.pop_min_wait(wait).await,
                        (true, true) => set.pop_max_wait(wait).await,
                    };
                    Ok(popped?.map(|(member, _)| member))
                };
                self.call(at, limit, popped, found).await;
            }
            Kind::Bag => {
                let bag = self.bag(object);
                self.call(at, limit, bag.pop(), found).await;
            }
            Kind::Deque => {
                let deque = self.deque(object);
                let popped = async {
                    match (waits, is_back) {
                        (false, false) => deque.pop().await,
                        (false, true) => deque.pop_back().await,
                        (true, false) => deque.pop_wait(wait).await,
                        (true, true) => deque.pop_back_wait(wait).await,
                    }
                };
                self.call(at, limit, popped, found).await;
            }
            _ => {
                let queue = self.queue(object);
                let popped = async { if waits { queue.pop_wait(wait).await } else { queue.pop().await } };
                self.call(at, limit, popped, found).await;
            }
        }
    }

    /// Takes an element with a lease, holds it for some time, and ends it.
    pub(super) async fn take(&mut self) {
        let object =
            Object(self.random.choice([Kind::Queue, Kind::Deque]).unwrap_or(Kind::Queue), self.random.u32(..OBJECTS));
        let (wait, is_back) = (self.short_time(), self.random.bool());
        let (queue, deque) = (self.queue(object), self.deque(object));
        let taken = async {
            match (object.0, is_back) {
                (Kind::Deque, false) => deque.take(wait).await,
                (Kind::Deque, true) => deque.take_back(wait).await,
                _ => queue.take(wait).await,
            }
        };
        let result = |taken: &Option<Taken<Item>>| match taken {
            Some(taken) => {
                let (fence, delivery) = (taken.fence().get(), taken.delivery());
                Outcome::Taken { element: ***taken, fence, delivery }
            }
            None => Outcome::No,
        };
        let (of, Some(Some(taken))) = self.call((object, Op::Take), wait + TAKES, taken, result).await else { return };
        let hold = self.short_time();
        if !hold.is_zero() {
            tokio::select! {
                () = taken.lost() => {}
                () = tokio::time::sleep(hold) => {}
            }
        }
        let how = match self.random.u8(..8) {
            0 => How::Release,
            1 => How::Drop,
            _ => How::Done,
        };
        // The time is read before the check: at this time, the holder had not lost the element if `held` is true.
        let at = now();
        let op = Op::Settle { of, how, held: !taken.is_lost() };
        let call = self.context.recorder().begin_at(at, self.number, object, op, SETTLES);
        let settled = async {
            match how {
                How::Done => taken.done().await,
                How::Release => taken.release().await,
                How::Drop => {
                    drop(taken);
                    Ok(())
                }
            }
        };
        self.finish(call, object, settled, |()| Outcome::Ok).await;
    }
}
