//! Helper functions of the laws of work queues.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bandog_core::{
    Key,
    queues::{
        Change, Delivered, DeliveryId, ElementId, ElementRow, Extend, Extended, NewElement, Phase, Push, Pushed,
        Queues, Settle, SettleEnd, Settled, Take, TakeId, Taken,
    },
    structures::Cursor,
};
use bandog_testkit::eventually_async;

/// Time in which something happens, on a machine under load.
pub(super) const SOON: Duration = Duration::from_secs(30);
/// A time that does not pass in a test.
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A queue, as a program sees it.
pub(super) struct Program {
    pub(super) store: Arc<dyn Queues>,
    pub(super) queue: Key,
    taker: u64,
    takes: AtomicU64,
}

/// A new id of an element: later ones are greater.
pub(super) fn new_id() -> ElementId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    ElementId { client: 7, number: NEXT.fetch_add(1, Ordering::Relaxed) }
}

pub(super) fn new(payload: &str) -> NewElement {
    NewElement::new(new_id(), payload.into())
}

pub(super) fn with_key(payload: &str, key: &str) -> NewElement {
    NewElement { order_key: Some(key.into()), ..new(payload) }
}

pub(super) fn delivery(element: &Delivered) -> DeliveryId {
    DeliveryId { id: element.id, fence: element.fence }
}

/// The payloads as texts.
pub(super) fn texts(elements: &[Delivered]) -> Vec<String> {
    elements.iter().map(|element| String::from_utf8(element.payload.clone()).expect("a text")).collect()
}

impl Program {
    pub(super) fn of(store: Arc<dyn Queues>) -> Self {
        Self::named(store, "orders")
    }

    pub(super) fn named(store: Arc<dyn Queues>, name: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let queue = Key::new(name).expect("a valid name");
        Self { store, queue, taker: NEXT.fetch_add(1, Ordering::Relaxed), takes: AtomicU64::new(0) }
    }

    pub(super) async fn push_all(&self, elements: &[NewElement]) -> Vec<Pushed> {
        let push = Push { queue: self.queue.clone(), elements: elements.to_vec() };
        let answer = self.store.push(&[push]).await.pop().expect("an answer").expect("the elements are pushed");
        assert_eq!(answer.len(), elements.len(), "each element has one answer");
        answer
    }

    pub(super) async fn push(&self, element: NewElement) -> Pushed {
        self.push_all(&[element]).await[0]
    }

    pub(super) async fn push_texts(&self, texts: &[&str]) {
        let elements: Vec<_> = texts.iter().map(|text| new(text)).collect();
        self.push_all(&elements).await;
    }

    /// A take of this number of elements.
    pub(super) fn take(&self, at_most: u32) -> Take {
        let id = TakeId { taker: self.taker, number: self.takes.fetch_add(1, Ordering::Relaxed) };
        Take {
            queue: self.queue.clone(),
            id,
            is_repeated: false,
            at_most,
            bytes: 1 << 20,
            rest_after: Duration::ZERO,
            lease: HOUR,
            deliveries: 5,
        }
    }

    pub(super) async fn run(&self, take: Take) -> Taken {
        self.store.take(&[take]).await.pop().expect("an answer").expect("the take succeeds")
    }

    pub(super) async fn take_all(&self, at_most: u32) -> Vec<Delivered> {
        self.run(self.take(at_most)).await.elements
    }

    /// Takes one element, which must be ready.
    pub(super) async fn take_one(&self) -> Delivered {
        self.take_all(1).await.pop().expect("an element is ready")
    }

    /// Takes one element as soon as one is ready.
    pub(super) async fn take_soon(&self) -> Delivered {
        let mut taken = Vec::new();
        eventually_async(SOON, async || {
            taken = self.take_all(1).await;
            !taken.is_empty()
        })
        .await;
        taken.pop().expect("an element")
    }

    pub(super) async fn settle(&self, element: &Delivered, end: SettleEnd) -> Settled {
        let settle = [Settle { delivery: delivery(element), end }];
        let mut answer = Settled::Busy;
        // Requests of others may have locked it.
        eventually_async(SOON, async || {
            answer = self.store.settle(&self.queue, &settle).await.expect("the settlement succeeds")[0];
            answer != Settled::Busy
        })
        .await;
        answer
    }

    pub(super) async fn done(&self, element: &Delivered) -> Settled {
        self.settle(element, SettleEnd::Done(Vec::new())).await
    }

    pub(super) async fn extend(&self, element: &Delivered, lease: Duration, progress: Option<&str>) -> Extended {
        let deliveries = vec![(delivery(element), progress.map(str::to_owned))];
        let extend = Extend { queue: self.queue.clone(), deliveries, lease };
        let mut answer = Extended::Busy;
        eventually_async(SOON, async || {
            answer = self.store.extend(&extend).await.expect("the extension succeeds")[0];
            answer != Extended::Busy
        })
        .await;
        answer
    }

    pub(super) async fn find(&self, id: ElementId) -> Option<ElementRow> {
        self.store.find(&self.queue, &[id], 1 << 20).await.expect("the element is looked for").pop().expect("an answer")
    }

    pub(super) async fn phase(&self, id: ElementId) -> Option<Phase> {
        self.find(id).await.map(|row| row.phase)
    }

    pub(super) async fn change(&self, change: Change) -> u64 {
        self.store.change(&self.queue, &change).await.expect("the change succeeds")
    }

    pub(super) async fn count(&self, phase: Phase) -> u64 {
        self.store.status(&self.queue).await.expect("the status").count(phase)
    }

    /// All elements of a phase.
    pub(super) async fn elements(&self, phase: Phase) -> Vec<ElementRow> {
        let (mut all, mut from) = (Vec::new(), Cursor::default());
        loop {
            let page = self.store.elements(&self.queue, phase, &from, 2, 1 << 20).await.expect("a page");
            all.extend(page.0);
            match page.1 {
                Some(next) => from = next,
                None => return all,
            }
        }
    }
}
