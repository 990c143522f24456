//! The rows of a queue that a transaction has read and locked, and its changes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
};

use bandog_core::{
    Fence,
    queues::{Body, Element, ElementId, Outcome, Phase, Position, Priority, QueueSettings, Rows, TakeId, rules::Now},
};

type Done<T> = Result<T, Infallible>;

/// The rows of one transaction. The rules change them, and the transaction writes the changes.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) now: i64,
    pub(super) settings: QueueSettings,
    pub(super) next_delivery: i64,
    /// The elements that were read or are new.
    elements: HashMap<ElementId, Element>,
    /// Their texts, with the lengths of their payloads: long payloads are not read.
    bodies: HashMap<ElementId, (usize, Body)>,
    pub(super) known_push: bool,
    pub(super) once: HashMap<String, (ElementId, u64)>,
    /// The number of elements that are taken, as it was read.
    pub(super) taken: u64,
    /// The greatest fence of the elements with each key of order.
    key_fences: HashMap<String, u64>,
    last_fence: u64,
    pub(super) changes: Changes,
}

/// What a transaction writes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) written: BTreeSet<ElementId>,
    pub(super) inserted: BTreeSet<ElementId>,
    pub(super) removed: BTreeSet<ElementId>,
    pub(super) texts: BTreeMap<ElementId, (Option<String>, Option<String>)>,
    pub(super) results: BTreeMap<ElementId, (Outcome, u64)>,
    pub(super) forgotten: BTreeSet<ElementId>,
    pub(super) once: BTreeMap<String, (ElementId, u64)>,
    pub(super) worker: Option<(u64, String, u64)>,
    pub(super) has_settings: bool,
}

impl Changes {
    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.removed.is_empty() && !self.has_settings
    }
}

impl View {
    pub(super) fn new(now: i64) -> Self {
        Self { now, ..Self::default() }
    }

    /// The times for the rules. Both clocks are that of the server.
    pub(super) fn times(&self) -> Now {
        let now = u64::try_from(self.now).unwrap_or(0);
        Now { wall: now, lease: now }
    }

    /// Adds an element that was read. One that is known stays as it is.
    pub(super) fn load(&mut self, element: Element, body: Option<(usize, Body)>) {
        self.last_fence = self.last_fence.max(element.fence.get());
        if let Some(key) = &element.order_key {
            let last = self.key_fences.entry(key.to_string()).or_default();
            *last = element.fence.get().max(*last);
        }
        if let Some(body) = body {
            self.bodies.insert(element.id, body);
        }
        self.elements.entry(element.id).or_insert(element);
    }

    /// Adds an element of the answer to `around`: nothing is known of it but its time.
    pub(super) fn load_next(&mut self, phase: Phase, at: Option<i64>) {
        let Some(at) = at.and_then(|at| u64::try_from(at).ok()) else { return };
        let id = ElementId { client: 0, number: u64::MAX - u64::from(phase == Phase::Taken) };
        let element = Element {
            id,
            phase,
            at,
            place: at,
            pushed: at,
            priority: Priority::default(),
            order_key: None,
            attempt: 0,
            fence: Fence::new(0),
            taken_by: None,
            keep_result: None,
            before: None,
            waits_for: 0,
            is_cancelled: false,
        };
        self.elements.insert(id, element);
    }

    /// Records the fence of an element with this key that has ended.
    pub(super) fn raise(&mut self, key: &str, fence: u64) {
        let last = self.key_fences.entry(key.to_owned()).or_default();
        *last = fence.max(*last);
    }

    pub(super) fn get(&self, id: ElementId) -> Option<&Element> {
        self.elements.get(&id)
    }

    pub(super) fn payload(&self, id: ElementId) -> &[u8] {
        self.bodies.get(&id).map_or(&[], |(_, body)| &body.payload)
    }

    /// Whether the payload of an element was read.
    pub(super) fn has_payload(&self, id: ElementId) -> bool {
        self.bodies.get(&id).is_some_and(|(length, body)| body.payload.len() == *length)
    }

    /// The elements that were read or are new, and have this key.
    fn of_key<'v>(&'v self, key: &'v str) -> impl Iterator<Item = &'v Element> {
        self.elements.values().filter(move |element| element.order_key.as_deref() == Some(key))
    }

    fn sorted(&self, phase: Phase) -> Vec<Element> {
        let mut found: Vec<_> = self.elements.values().filter(|element| element.phase == phase).cloned().collect();
        let rank = |element: &Element| if phase == Phase::Ready { u8::MAX - element.priority.get() } else { 0 };
        found.sort_by_key(|element| (rank(element), element.at, element.id));
        found
    }

    /// Makes the first blocked element of a key ready or delayed, if the key has no other one that is.
    pub(super) fn decide(&mut self, key: &str) -> Done<()> {
        if !self.has_head(key)?
            && let Some(mut next) = self.blocked(key)?
        {
            self.admit(&mut next);
            self.update(&next)?;
        }
        Ok(())
    }

    /// Counts a predecessor that is done.
    pub(super) fn count_done(&mut self, id: ElementId) -> Done<()> {
        let Some(mut next) = self.get(id).filter(|next| next.waits_for > 0).cloned() else { return Ok(()) };
        next.waits_for -= 1;
        match &next.order_key {
            _ if next.waits_for > 0 => {}
            Some(_) => next.at = self.times().wall,
            None => self.admit(&mut next),
        }
        self.update(&next)
    }

    fn count_taken(&mut self, before: bool, now: bool) {
        self.taken = (self.taken + u64::from(now)).saturating_sub(u64::from(before));
    }

    fn admit(&self, element: &mut Element) {
        element.phase = if element.place > self.times().wall { Phase::Delayed } else { Phase::Ready };
        element.at = element.place;
    }
}

impl Rows for View {
    type Error = Infallible;

    fn settings(&mut self) -> Done<QueueSettings> {
        Ok(self.settings)
    }

    fn set_settings(&mut self, settings: &QueueSettings) -> Done<()> {
        (self.settings, self.changes.has_settings) = (*settings, true);
        Ok(())
    }

    fn next_delivery(&mut self) -> Done<u64> {
        Ok(u64::try_from(self.next_delivery).unwrap_or(0))
    }

    fn set_next_delivery(&mut self, at: u64) -> Done<()> {
        (self.next_delivery, self.changes.has_settings) = (i64::try_from(at).unwrap_or(i64::MAX), true);
        Ok(())
    }

    fn next_fence(&mut self) -> Done<Fence> {
        self.last_fence = (self.last_fence + 1).max(self.times().wall);
        Ok(Fence::new(self.last_fence))
    }

    fn element(&mut self, id: ElementId) -> Done<Option<Element>> {
        Ok(self.get(id).cloned())
    }

    fn insert(&mut self, element: &Element, payload: &[u8]) -> Done<()> {
        self.changes.inserted.insert(element.id);
        self.bodies.insert(element.id, (payload.len(), Body { payload: payload.to_vec(), ..Body::default() }));
        self.update(element)
    }

    fn update(&mut self, element: &Element) -> Done<()> {
        let mut element = element.clone();
        // The next delivery exceeds that of the predecessor with the same key.
        if let Some(key) = element.order_key.as_deref().filter(|_| element.phase != Phase::Blocked) {
            let was_blocked = self.get(element.id).is_some_and(|old| old.phase == Phase::Blocked);
            let known = self.key_fences.entry(key.to_owned()).or_default();
            *known = element.fence.get().max(*known);
            let fence = *known;
            if element.phase != Phase::Dead && was_blocked {
                element.fence = Fence::new(fence);
                self.last_fence = self.last_fence.max(fence);
            }
        }
        self.changes.written.insert(element.id);
        let is_taken = element.phase == Phase::Taken;
        let was_taken = self.elements.insert(element.id, element).is_some_and(|old| old.phase == Phase::Taken);
        self.count_taken(was_taken, is_taken);
        Ok(())
    }

    fn remove(&mut self, id: ElementId) -> Done<()> {
        let was_taken = self.elements.remove(&id).is_some_and(|old| old.phase == Phase::Taken);
        self.count_taken(was_taken, false);
        self.changes.written.remove(&id);
        self.changes.removed.insert(id);
        Ok(())
    }

    fn payload_len(&mut self, id: ElementId) -> Done<usize> {
        Ok(self.bodies.get(&id).map_or(0, |(length, _)| *length))
    }

    fn body(&mut self, id: ElementId) -> Done<Body> {
        Ok(self.bodies.get(&id).map(|(_, body)| body.clone()).unwrap_or_default())
    }

    fn set_texts(&mut self, id: ElementId, error: Option<&str>, progress: Option<&str>) -> Done<()> {
        self.changes.texts.insert(id, (error.map(str::to_owned), progress.map(str::to_owned)));
        Ok(())
    }

    fn first(&mut self, phase: Phase, at_most: usize) -> Done<Vec<Element>> {
        let mut found = self.sorted(phase);
        found.truncate(at_most);
        Ok(found)
    }

    /// Pages are read with statements of their own.
    fn after(&mut self, _: Phase, _: &Position, _: usize) -> Done<Vec<Element>> {
        Ok(Vec::new())
    }

    /// Only taken elements are counted. The status is read with a statement of its own.
    fn count(&mut self, _: Phase) -> Done<u64> {
        Ok(self.taken)
    }

    fn blocked(&mut self, order_key: &str) -> Done<Option<Element>> {
        let blocked =
            self.of_key(order_key).filter(|element| element.phase == Phase::Blocked && element.waits_for == 0);
        Ok(blocked.min_by_key(|element| (element.at, element.id)).cloned())
    }

    fn has_head(&mut self, order_key: &str) -> Done<bool> {
        let is_head = |element: &Element| matches!(element.phase, Phase::Ready | Phase::Delayed | Phase::Taken);
        Ok(self.of_key(order_key).any(is_head))
    }

    fn taken_by(&mut self, take: TakeId) -> Done<Vec<Element>> {
        let mut taken = self.sorted(Phase::Taken);
        taken.retain(|element| element.taken_by == Some(take));
        taken.sort_by_key(|element| element.fence);
        Ok(taken)
    }

    fn once(&mut self, id: &str) -> Done<Option<(ElementId, u64)>> {
        Ok(self.once.get(id).copied())
    }

    fn set_once(&mut self, id: &str, by: ElementId, until: u64) -> Done<()> {
        self.once.insert(id.to_owned(), (by, until));
        self.changes.once.insert(id.to_owned(), (by, until));
        Ok(())
    }

    fn was_pushed(&mut self, _: ElementId) -> Done<bool> {
        Ok(self.known_push)
    }

    /// The transaction has written the row before.
    fn set_pushed(&mut self, _: ElementId, _: u64) -> Done<()> {
        Ok(())
    }

    /// Results are read with a statement of their own.
    fn result(&mut self, _: ElementId) -> Done<Option<(Outcome, u64)>> {
        Ok(None)
    }

    fn set_result(&mut self, id: ElementId, outcome: &Outcome, until: u64) -> Done<()> {
        self.changes.results.insert(id, (outcome.clone(), until));
        Ok(())
    }

    /// Workers are read with a statement of their own.
    fn workers(&mut self, _: u64) -> Done<Vec<String>> {
        Ok(Vec::new())
    }

    fn set_worker(&mut self, worker: u64, text: &str, until: u64) -> Done<()> {
        self.changes.worker = Some((worker, text.to_owned(), until));
        Ok(())
    }

    fn forget_result(&mut self, id: ElementId) -> Done<()> {
        self.changes.forgotten.insert(id);
        Ok(())
    }

    /// The transaction does this itself.
    fn forget(&mut self, _: u64, _: usize) -> Done<()> {
        Ok(())
    }

    /// There are no notifications: takers poll.
    fn ring(&mut self) -> Done<()> {
        Ok(())
    }

    fn ring_result(&mut self, _: u64) -> Done<()> {
        Ok(())
    }
}
