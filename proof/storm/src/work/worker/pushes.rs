//! Pushes.

use std::time::Duration;

use bandog::work::{ElementId, Outcome as Ended, Push, Pushed};

use super::{
    handler::RESULT_BYTE,
    task::{ONCE, Task},
};
use crate::{
    calls::{
        Context as _, Outcome,
        item::{Item, size_of},
    },
    history::now,
    settings::Profile,
    work::{
        context::Context,
        history::{Op, Queue},
    },
};

/// The window of `once`: longer than a run.
const WINDOW: Duration = Duration::from_secs(3600);
/// Number of ids of `once`.
const ONCE_IDS: u32 = 2_000;
/// Number of keys of order in each queue.
const KEYS: u32 = 8;
/// Maximum delay, in milliseconds.
const DELAY: u64 = 1_500;
/// Maximum number of elements of one push.
const ELEMENTS: u64 = 8;

/// Maximum time for which a result is kept, in milliseconds.
const KEPT: u64 = 3_000;
/// Maximum time for which a task waits for a result, in milliseconds.
const RESULT: u64 = 500;

fn op(value: u64, key: u32, once: u32, parts: u32) -> Op {
    Op::Push { value, key, once, parts, bytes: u32::try_from(size_of(value)).unwrap_or(u32::MAX) }
}

impl Task {
    pub(super) fn any_queue(&mut self) -> Queue {
        self.random.choice(Queue::ALL).unwrap_or(Queue::Limited)
    }

    /// A random key of order, which is often 0: none.
    fn key(&mut self) -> u32 {
        if self.random.u8(..4) == 0 { self.random.u32(1..=KEYS) } else { 0 }
    }

    /// Pushes one element.
    pub(super) async fn push(&mut self) {
        let queue = self.any_queue();
        if self.context.is_crowded(queue) {
            return;
        }
        let (value, key) = (self.unique(), self.key());
        let once = if self.random.u8(..8) == 0 { self.random.u32(1..=ONCE_IDS) } else { 0 };
        let push = self.context.queue(queue).push(&Item::new(value));
        let push = self.with_options(push, key);
        let keeps = self.context.has(Profile::Sizes) && self.random.u8(..8) == 0;
        let push = if keeps { push.keep_result(Duration::from_millis(self.random.u64(1..KEPT))) } else { push };
        let push = if once == 0 { push } else { push.once(once.to_string(), WINDOW) };
        let pushed = |pushed: &Pushed| Outcome::Pushed { element: pushed.id, is_new: pushed.is_new };
        let op = op(value, key, once, 0);
        if let (_, Some(pushed)) = self.call((queue, op), self.push_limit(), async { push.await }, pushed).await {
            let context = self.context.clone();
            context.learn(queue, pushed.id, &mut self.random);
            if keeps && self.random.bool() {
                self.result(queue, pushed.id).await;
            }
        }
    }

    /// Waits for the result of an element, for a short time. Some results are not kept for so long.
    async fn result(&mut self, queue: Queue, element: ElementId) {
        let (context, at_most) = (self.context.clone(), Duration::from_millis(self.random.u64(..RESULT)));
        let result = context.queue(queue).result(element, at_most);
        let outcome = |ended: &Option<Ended>| match ended {
            None => Outcome::No,
            Some(Ended::Done(bytes)) if bytes.iter().all(|byte| *byte == RESULT_BYTE) => Outcome::Ok,
            Some(Ended::Done(_)) => Outcome::Broken,
            Some(Ended::Failed(_) | Ended::Cancelled) => Outcome::Ok,
        };
        self.call((queue, Op::Result(element)), at_most + ONCE * 2, result, outcome).await;
    }

    /// A push with a random delay and priority.
    fn with_options(&mut self, push: Push, key: u32) -> Push {
        let push = if key == 0 { push } else { push.key(key.to_string()) };
        let push = match self.random.u8(..10) {
            0 => push.after(Duration::from_millis(self.random.u64(..DELAY))),
            1 => push.after(Duration::from_millis(self.random.u64(..20))),
            _ => push,
        };
        if self.random.u8(..5) == 0 { push.priority(self.random.u8(..10)) } else { push }
    }

    /// Pushes several elements in one step. In half of the cases, one more element waits for them.
    pub(super) async fn push_all(&mut self) {
        let queue = self.any_queue();
        if self.context.is_crowded(queue) {
            return;
        }
        let (elements, waits) = (self.random.u64(1..ELEMENTS), self.random.bool());
        let values: Vec<u64> = (0..elements).map(|_| self.unique()).collect();
        let key = if waits { 0 } else { self.key() };
        let handle = self.context.queue(queue);
        let payloads: Vec<Item> = values.iter().map(|value| Item::new(*value)).collect();
        let push = handle.push_all(&payloads);
        let push = if key == 0 { push } else { push.key(key.to_string()) };
        let (push, last) = match waits {
            true => {
                let last = self.unique();
                (push.then(self.context.queue(queue).push(&Item::new(last))).into_future(), Some(last))
            }
            false => (push.into_future(), None),
        };
        let parts = u32::try_from(elements).unwrap_or(u32::MAX);
        // The one that waits comes first in the history, and last in the answer.
        let first = if waits { values.len() } else { 0 };
        let ops = last.into_iter().map(|value| op(value, 0, 0, parts));
        let ops = ops.chain(values.iter().map(|value| op(*value, key, 0, 0)));
        let at = now();
        let limit = self.push_limit();
        let begin = |op| self.context.recorder().begin_at(at, self.number, queue, op, limit);
        let calls: Vec<_> = ops.map(begin).collect();
        let answer = self.answer(push).await;
        let outcome = |at: usize| match &answer {
            None => Outcome::Cancelled,
            Some(Ok(pushed)) => pushed
                .get((at + first) % pushed.len().max(1))
                .map_or(Outcome::Broken, |pushed| Outcome::Pushed { element: pushed.id, is_new: pushed.is_new }),
            Some(Err(error)) => Context::failed(queue, error),
        };
        for (at, call) in calls.iter().enumerate() {
            self.context.recorder().end(*call, outcome(at));
        }
        self.count(calls.len() as u64);
    }
}
