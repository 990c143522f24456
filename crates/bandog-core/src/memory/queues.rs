//! Work queues in memory.

use std::ops::Bound::{Excluded, Unbounded};

use async_trait::async_trait;

use super::{
    Memory, MemoryState,
    work_queues::{Done, View},
};
use crate::{
    Key, Notifier, Pattern, Result, Subscription,
    queues::{
        Bell, Change, ElementId, ElementRow, Extend, Extended, Phase, Push, Pushed, QueueStatus, Queues, Settle,
        Settled, Take, Taken,
        rules::{self, Now},
    },
    structures::Cursor,
};

impl Memory {
    fn on_queue<T>(&self, key: &Key, apply: impl FnOnce(&mut View<'_>, Now) -> Done<T>) -> T {
        self.change(|MemoryState { queues, reports, .. }, now| {
            let now = Now { wall: rules::wall_micros(self.clock.wall()), lease: now.as_nanos() / 1000 };
            queues.with_queue(key, now, reports, |view| apply(view, now))
        })
    }
}

#[async_trait]
impl Queues for Memory {
    async fn push(&self, pushes: &[Push]) -> Vec<Result<Vec<Pushed>>> {
        let push = |push: &Push| Ok(self.on_queue(&push.queue, |view, now| rules::push(view, &push.elements, now)));
        pushes.iter().map(push).collect()
    }

    async fn take(&self, takes: &[Take]) -> Vec<Result<Taken>> {
        let take = |take: &Take| Ok(self.on_queue(&take.queue, |view, now| rules::take(view, take, now)));
        takes.iter().map(take).collect()
    }

    async fn extend(&self, extend: &Extend) -> Result<Vec<Extended>> {
        Ok(self.on_queue(&extend.queue, |view, now| rules::extend(view, extend, now)))
    }

    async fn settle(&self, queue: &Key, settles: &[Settle]) -> Result<Vec<Settled>> {
        Ok(self.on_queue(queue, |view, now| rules::settle(view, settles, now)))
    }

    async fn find(&self, queue: &Key, ids: &[ElementId], payload: usize) -> Result<Vec<Option<ElementRow>>> {
        Ok(self.on_queue(queue, |view, now| rules::find(view, ids, payload, now)))
    }

    async fn status(&self, queue: &Key) -> Result<QueueStatus> {
        Ok(self.on_queue(queue, |view, now| rules::status(view, now)))
    }

    async fn elements(
        &self,
        queue: &Key,
        phase: Phase,
        from: &Cursor,
        about: usize,
        payload: usize,
    ) -> Result<(Vec<ElementRow>, Option<Cursor>)> {
        Ok(self.on_queue(queue, |view, now| rules::page(view, phase, from, about, payload, now)))
    }

    async fn change(&self, queue: &Key, change: &Change) -> Result<u64> {
        Ok(self.on_queue(queue, |view, now| rules::change(view, change, now)))
    }

    async fn queues(&self, pattern: &Pattern, from: &Cursor, about: usize) -> Result<(Vec<Key>, Option<Cursor>)> {
        let state = self.state();
        let first = if from.0.is_empty() { Unbounded } else { Excluded(Key::new(&from.0)?) };
        let page: Vec<&Key> = state.queues.queues.range((first, Unbounded)).map(|(key, _)| key).take(about).collect();
        let next = page.get(about.wrapping_sub(1)).map(|key| Cursor(key.as_str().to_owned()));
        Ok((page.into_iter().filter(|key| pattern.matches(key.as_str())).cloned().collect(), next))
    }

    async fn subscribe_bell(&self, bell: &Bell, notifier: Notifier) -> Result<Subscription> {
        let (Bell::Ready { queue, .. } | Bell::Results { queue, .. }) = bell;
        let id = self.state().queues.subscribers.add(queue, (bell.clone(), notifier));
        let shared = self.clone();
        Ok(Subscription::new(move || {
            let removed = shared.state().queues.subscribers.remove(&id);
            drop(removed);
        }))
    }
}
