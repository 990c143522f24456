//! The data of work queues.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use super::receivers::Receivers;
use crate::{
    Fence, Key, Notifier, Reports,
    queues::{
        Bell, Body, Element, ElementId, MAX_COUNT, Outcome, Phase, Position, Priority, QueueSettings, Rows, TakeId,
        rules::Now,
    },
};

/// The work queues of a store.
#[derive(Debug, Default)]
pub(super) struct WorkQueues {
    pub(super) queues: BTreeMap<Key, WorkQueue>,
    pub(super) subscribers: Receivers<(Bell, Notifier)>,
    last_fence: u64,
}

/// What is kept for a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kept {
    Once(Arc<str>),
    Push(ElementId),
    Result(ElementId),
    Worker(u64),
}

/// The content of what is kept.
#[derive(Debug)]
enum Content {
    Element(ElementId),
    Nothing,
    Outcome(Outcome),
    Text(String),
}

/// The order of elements: the phase, ready ones by their priority, the time, and the id.
type Order = (Phase, Reverse<Priority>, u64, ElementId);

fn order(element: &Element) -> Order {
    position(element.phase, &Position { priority: element.priority, at: element.at, id: element.id })
}

fn position(phase: Phase, position: &Position) -> Order {
    let priority = if phase == Phase::Ready { position.priority } else { Priority::default() };
    (phase, Reverse(priority), position.at, position.id)
}

#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    settings: QueueSettings,
    next_delivery: u64,
    elements: HashMap<ElementId, (Element, Body)>,
    order: BTreeSet<Order>,
    /// The blocked elements of each key of order whose predecessors are done.
    blocked: BTreeSet<(Arc<str>, u64, ElementId)>,
    /// The keys of order that an element has which is ready, delayed or taken.
    heads: BTreeSet<Arc<str>>,
    kept: HashMap<Kept, (Content, u64)>,
    expiry: BTreeSet<(u64, Kept)>,
}

impl WorkQueue {
    fn is_unused(&self) -> bool {
        self.elements.is_empty() && self.kept.is_empty() && self.settings == QueueSettings::default()
    }

    /// Adds the element to the indexes.
    fn index(&mut self, element: &Element) {
        self.order.insert(order(element));
        let Some(key) = &element.order_key else { return };
        match element.phase {
            Phase::Blocked if element.waits_for == 0 => {
                self.blocked.insert((key.clone(), element.at, element.id));
            }
            Phase::Ready | Phase::Delayed | Phase::Taken => {
                self.heads.insert(key.clone());
            }
            Phase::Blocked | Phase::Dead | Phase::Ended => {}
        }
    }

    /// Removes the element from the indexes.
    fn unindex(&mut self, id: ElementId) {
        let Some((element, _)) = self.elements.get(&id) else { return };
        self.order.remove(&order(element));
        let Some(key) = &element.order_key else { return };
        self.blocked.remove(&(key.clone(), element.at, element.id));
        if matches!(element.phase, Phase::Ready | Phase::Delayed | Phase::Taken) {
            self.heads.remove(key);
        }
    }

    fn keep(&mut self, what: Kept, content: Content, until: u64) {
        if let Some((_, before)) = self.kept.insert(what.clone(), (content, until)) {
            self.expiry.remove(&(before, what.clone()));
        }
        self.expiry.insert((until, what));
    }

    fn forget_one(&mut self, what: &Kept) {
        if let Some((_, until)) = self.kept.remove(what) {
            self.expiry.remove(&(until, what.clone()));
        }
    }

    fn each(&self, of: impl Iterator<Item = ElementId>) -> Vec<Element> {
        of.filter_map(|id| self.elements.get(&id)).map(|(element, _)| element.clone()).collect()
    }
}

/// The rows of one queue, and what the operation reports.
pub(super) struct View<'q> {
    queue: &'q mut WorkQueue,
    last_fence: &'q mut u64,
    now: Now,
    rings: bool,
    results: BTreeSet<u64>,
}

pub(super) type Done<T> = std::result::Result<T, Infallible>;

impl Rows for View<'_> {
    type Error = Infallible;

    fn settings(&mut self) -> Done<QueueSettings> {
        Ok(self.queue.settings)
    }

    fn set_settings(&mut self, settings: &QueueSettings) -> Done<()> {
        self.queue.settings = *settings;
        Ok(())
    }

    fn next_delivery(&mut self) -> Done<u64> {
        Ok(self.queue.next_delivery)
    }

    fn set_next_delivery(&mut self, at: u64) -> Done<()> {
        self.queue.next_delivery = at;
        Ok(())
    }

    fn next_fence(&mut self) -> Done<Fence> {
        *self.last_fence = (*self.last_fence + 1).max(self.now.wall);
        Ok(Fence::new(*self.last_fence))
    }

    fn element(&mut self, id: ElementId) -> Done<Option<Element>> {
        Ok(self.queue.elements.get(&id).map(|(element, _)| element.clone()))
    }

    fn insert(&mut self, element: &Element, payload: &[u8]) -> Done<()> {
        self.queue.index(element);
        let body = Body { payload: payload.to_vec(), ..Body::default() };
        self.queue.elements.insert(element.id, (element.clone(), body));
        Ok(())
    }

    fn update(&mut self, element: &Element) -> Done<()> {
        self.queue.unindex(element.id);
        self.queue.index(element);
        if let Some((stored, _)) = self.queue.elements.get_mut(&element.id) {
            *stored = element.clone();
        }
        Ok(())
    }

    fn remove(&mut self, id: ElementId) -> Done<()> {
        self.queue.unindex(id);
        self.queue.elements.remove(&id);
        Ok(())
    }

    fn payload_len(&mut self, id: ElementId) -> Done<usize> {
        Ok(self.queue.elements.get(&id).map_or(0, |(_, body)| body.payload.len()))
    }

    fn body(&mut self, id: ElementId) -> Done<Body> {
        Ok(self.queue.elements.get(&id).map(|(_, body)| body.clone()).unwrap_or_default())
    }

    fn set_texts(&mut self, id: ElementId, error: Option<&str>, progress: Option<&str>) -> Done<()> {
        if let Some((_, body)) = self.queue.elements.get_mut(&id) {
            (body.error, body.progress) = (error.map(str::to_owned), progress.map(str::to_owned));
        }
        Ok(())
    }

    fn first(&mut self, phase: Phase, at_most: usize) -> Done<Vec<Element>> {
        let first = (phase, Reverse(Priority::MAX), 0, ElementId { client: 0, number: 0 });
        let of_phase = self.queue.order.range(first..).take_while(|order| order.0 == phase);
        Ok(self.queue.each(of_phase.map(|order| order.3).take(at_most)))
    }

    fn after(&mut self, phase: Phase, last: &Position, at_most: usize) -> Done<Vec<Element>> {
        let following = self.queue.order.range((Excluded(position(phase, last)), Unbounded));
        Ok(self.queue.each(following.take_while(|order| order.0 == phase).map(|order| order.3).take(at_most)))
    }

    fn count(&mut self, phase: Phase) -> Done<u64> {
        let first = (phase, Reverse(Priority::MAX), 0, ElementId { client: 0, number: 0 });
        let of_phase = self.queue.order.range(first..).take_while(|order| order.0 == phase);
        Ok((of_phase.count() as u64).min(MAX_COUNT))
    }

    fn blocked(&mut self, order_key: &str) -> Done<Option<Element>> {
        let first = (Arc::from(order_key), 0, ElementId { client: 0, number: 0 });
        let next = self.queue.blocked.range(first..).next().filter(|(key, ..)| &**key == order_key);
        Ok(next.and_then(|(_, _, id)| self.queue.elements.get(id)).map(|(element, _)| element.clone()))
    }

    fn has_head(&mut self, order_key: &str) -> Done<bool> {
        Ok(self.queue.heads.contains(order_key))
    }

    fn taken_by(&mut self, take: TakeId) -> Done<Vec<Element>> {
        let mut taken = self.first(Phase::Taken, usize::MAX)?;
        taken.retain(|element| element.taken_by == Some(take));
        taken.sort_by_key(|element| element.fence);
        Ok(taken)
    }

    fn once(&mut self, id: &str) -> Done<Option<(ElementId, u64)>> {
        Ok(match self.queue.kept.get(&Kept::Once(id.into())) {
            Some((Content::Element(by), until)) => Some((*by, *until)),
            _ => None,
        })
    }

    fn set_once(&mut self, id: &str, by: ElementId, until: u64) -> Done<()> {
        self.queue.keep(Kept::Once(id.into()), Content::Element(by), until);
        Ok(())
    }

    fn was_pushed(&mut self, first: ElementId) -> Done<bool> {
        Ok(self.queue.kept.contains_key(&Kept::Push(first)))
    }

    fn set_pushed(&mut self, first: ElementId, until: u64) -> Done<()> {
        self.queue.keep(Kept::Push(first), Content::Nothing, until);
        Ok(())
    }

    fn result(&mut self, id: ElementId) -> Done<Option<(Outcome, u64)>> {
        Ok(match self.queue.kept.get(&Kept::Result(id)) {
            Some((Content::Outcome(outcome), until)) => Some((outcome.clone(), *until)),
            _ => None,
        })
    }

    fn set_result(&mut self, id: ElementId, outcome: &Outcome, until: u64) -> Done<()> {
        self.queue.keep(Kept::Result(id), Content::Outcome(outcome.clone()), until);
        Ok(())
    }

    fn forget_result(&mut self, id: ElementId) -> Done<()> {
        self.queue.forget_one(&Kept::Result(id));
        Ok(())
    }

    fn workers(&mut self, now: u64) -> Done<Vec<String>> {
        let mut workers = BTreeMap::new();
        for (what, (content, until)) in &self.queue.kept {
            if let (Kept::Worker(id), Content::Text(text), true) = (what, content, *until > now) {
                workers.insert(*id, text.clone());
            }
        }
        Ok(workers.into_values().collect())
    }

    fn set_worker(&mut self, worker: u64, text: &str, until: u64) -> Done<()> {
        self.queue.keep(Kept::Worker(worker), Content::Text(text.to_owned()), until);
        Ok(())
    }

    fn forget(&mut self, until: u64, at_most: usize) -> Done<()> {
        let over = self.queue.expiry.iter().take_while(|(time, _)| *time <= until).take(at_most);
        for (_, what) in over.cloned().collect::<Vec<_>>() {
            self.queue.forget_one(&what);
        }
        Ok(())
    }

    fn ring(&mut self) -> Done<()> {
        self.rings = true;
        Ok(())
    }

    fn ring_result(&mut self, client: u64) -> Done<()> {
        self.results.insert(client);
        Ok(())
    }
}

impl WorkQueues {
    /// Applies an operation to a queue, and notifies its subscribers.
    pub(super) fn with_queue<T>(
        &mut self,
        key: &Key,
        now: Now,
        reports: &mut Reports,
        apply: impl FnOnce(&mut View<'_>) -> Done<T>,
    ) -> T {
        let Self { queues, subscribers, last_fence } = self;
        let queue = queues.entry(key.clone()).or_default();
        let mut view = View { queue, last_fence, now, rings: false, results: BTreeSet::new() };
        let Ok(answer) = apply(&mut view);
        let View { rings, results, .. } = view;
        if queue.is_unused() {
            queues.remove(key);
        }
        for (bell, notifier) in subscribers.of(key) {
            let is_meant = match bell {
                Bell::Ready { .. } => rings,
                Bell::Results { client, .. } => results.contains(client),
            };
            if is_meant {
                let notifier = notifier.clone();
                reports.add(move || notifier.notify());
            }
        }
        answer
    }
}
