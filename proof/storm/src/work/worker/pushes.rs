//! Pushes.

use std::time::Duration;

use bandog::work::{Push, Pushed};

use super::task::{PUSHES, Task};
use crate::{
    calls::{Context as _, Outcome},
    history::now,
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
        let push = self.context.queue(queue).push(&value);
        let push = self.with_options(push, key);
        let push = if once == 0 { push } else { push.once(once.to_string(), WINDOW) };
        let pushed = |pushed: &Pushed| Outcome::Pushed { element: pushed.id, is_new: pushed.is_new };
        let op = Op::Push { value, key, once, parts: 0 };
        if let (_, Some(pushed)) = self.call((queue, op), PUSHES, async { push.await }, pushed).await {
            let context = self.context.clone();
            context.learn(queue, pushed.id, &mut self.random);
        }
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
        let push = handle.push_all(&values);
        let push = if key == 0 { push } else { push.key(key.to_string()) };
        let (push, last) = match waits {
            true => {
                let last = self.unique();
                (push.then(self.context.queue(queue).push(&last)).into_future(), Some(last))
            }
            false => (push.into_future(), None),
        };
        let parts = u32::try_from(elements).unwrap_or(u32::MAX);
        // The one that waits comes first in the history, and last in the answer.
        let first = if waits { values.len() } else { 0 };
        let ops = last.into_iter().map(|value| Op::Push { value, key: 0, once: 0, parts });
        let ops = ops.chain(values.iter().map(|value| Op::Push { value: *value, key, once: 0, parts: 0 }));
        let at = now();
        let begin = |op| self.context.recorder().begin_at(at, self.number, queue, op, PUSHES);
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
