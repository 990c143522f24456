//! A law that compares a store with the one in memory.

use std::{slice::from_ref, sync::Arc, time::Duration};

use bandog_core::{
    Clock, Fence, Memory,
    queues::{
        Change, Delivered, DeliveryId, ElementId, ElementRow, Extend, Headers, NewElement, OnceId, Phase, Priority,
        Push, Queues, Settle, SettleEnd, Take, TakeId, When, envelope,
    },
    structures::Cursor,
};

use super::{
    QueueWorld,
    kit::{HOUR, new_id},
};

/// The number of operations.
const OPERATIONS: u32 = 1500;

/// An element that was delivered by both stores.
struct Held {
    id: ElementId,
    real: Fence,
    model: Fence,
}

/// Law 369: after random operations, the store answers as the one in memory does.
// Promise: W1
pub async fn queues_agree_with_the_model<W: QueueWorld>(world: &W) {
    let seed =
        std::env::var("BANDOG_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    eprintln!("BANDOG_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (real, model): (Arc<dyn Queues>, Arc<dyn Queues>) = (world.queues(), Arc::new(Memory::new(Clock::tokio())));
    let queue = bandog_core::Key::new("model").expect("a valid name");
    let (mut known, mut held): (Vec<ElementId>, Vec<Held>) = (Vec::new(), Vec::new());
    let mut takes = 0;
    for at in 0..OPERATIONS {
        match random.u32(0..100) {
            0..35 => {
                let elements: Vec<_> = (0..random.usize(1..6)).map(|_| random_element(&mut random, &known)).collect();
                known.extend(elements.iter().map(|element| element.id));
                let push = [Push { queue: queue.clone(), elements }];
                let (ours, theirs) = (real.push(&push).await, model.push(&push).await);
                assert_eq!(
                    ours[0].as_ref().expect("pushed"),
                    theirs[0].as_ref().expect("pushed"),
                    "operation {at}: {push:?}"
                );
            }
            35..60 => {
                let take = random_take(&mut random, &queue, &mut takes);
                let (mut ours, mut theirs) = (real.take(from_ref(&take)).await, model.take(from_ref(&take)).await);
                let (ours, theirs) = (ours.remove(0).expect("taken"), theirs.remove(0).expect("taken"));
                let strip = |elements: &[Delivered]| -> Vec<_> {
                    let strip = |element: &Delivered| {
                        (element.id, element.attempt, element.payload.clone(), element.error.clone())
                    };
                    elements.iter().map(strip).collect()
                };
                assert_eq!(strip(&ours.elements), strip(&theirs.elements), "operation {at}: {take:?}");
                assert_eq!((ours.has_more, ours.died), (theirs.has_more, theirs.died), "operation {at}: {take:?}");
                for (ours, theirs) in ours.elements.iter().zip(&theirs.elements) {
                    held.push(Held { id: ours.id, real: ours.fence, model: theirs.fence });
                }
            }
            60..90 if !held.is_empty() => {
                let mut chosen: Vec<usize> = (0..random.usize(1..4)).map(|_| random.usize(0..held.len())).collect();
                chosen.sort_by_key(|at| held[*at].id);
                chosen.dedup_by_key(|at| held[*at].id);
                let ends: Vec<_> = chosen.iter().map(|_| random_end(&mut random)).collect();
                let settles = |fence: fn(&Held) -> Fence| -> Vec<Settle> {
                    let of = |(at, end): (&usize, &SettleEnd)| {
                        let delivery = DeliveryId { id: held[*at].id, fence: fence(&held[*at]) };
                        Settle { delivery, end: end.clone() }
                    };
                    chosen.iter().zip(&ends).map(of).collect()
                };
                let (ours, theirs) = (settles(|held| held.real), settles(|held| held.model));
                let answers = (real.settle(&queue, &ours).await, model.settle(&queue, &theirs).await);
                assert_eq!(answers.0.expect("settled"), answers.1.expect("settled"), "operation {at}: {ours:?}");
                if random.u8(0..3) > 0 {
                    let mut at = 0;
                    held.retain(|_| {
                        at += 1;
                        !chosen.contains(&(at - 1))
                    });
                }
            }
            90..94 if !held.is_empty() => {
                let held = &held[random.usize(0..held.len())];
                let progress = [None, Some(String::new()), Some("half".to_owned())][random.usize(0..3)].clone();
                let extend = |fence| Extend {
                    queue: queue.clone(),
                    deliveries: vec![(DeliveryId { id: held.id, fence }, progress.clone())],
                    lease: HOUR,
                };
                let (ours, theirs) = (real.extend(&extend(held.real)).await, model.extend(&extend(held.model)).await);
                assert_eq!(ours.expect("extended"), theirs.expect("extended"), "operation {at}");
            }
            94..97 => {
                let change = random_change(&mut random, &known);
                let (ours, theirs) = (real.change(&queue, &change).await, model.change(&queue, &change).await);
                assert_eq!(ours.expect("changed"), theirs.expect("changed"), "operation {at}: {change:?}");
            }
            _ if !known.is_empty() => {
                let ids: Vec<_> = (0..5).map(|_| known[random.usize(0..known.len())]).collect();
                let (ours, theirs) = (real.find(&queue, &ids, 1 << 20).await, model.find(&queue, &ids, 1 << 20).await);
                let (ours, theirs) = (ours.expect("found"), theirs.expect("found"));
                for (ours, theirs) in ours.into_iter().zip(theirs) {
                    assert_eq!(ours.map(strip), theirs.map(strip), "operation {at}");
                }
            }
            _ => {}
        }
    }
    assert_same_elements(&*real, &*model, &queue).await;
}

/// Asserts that both stores list the same elements.
async fn assert_same_elements(real: &dyn Queues, model: &dyn Queues, queue: &bandog_core::Key) {
    for phase in Phase::IN_QUEUE {
        let (ours, theirs) = (all(real, queue, phase).await, all(model, queue, phase).await);
        assert_eq!(ours, theirs, "{phase:?}");
    }
}

fn random_element(random: &mut fastrand::Rng, known: &[ElementId]) -> NewElement {
    let id = new_id();
    let mut headers = Headers::default();
    if random.u8(0..8) == 0 {
        headers.set("trace", &"t".repeat(random.usize(0..1000))).expect("valid headers");
    }
    let mut element = NewElement::new(id, envelope::close(&headers, id.number.to_string().into_bytes()));
    if random.u8(0..3) == 0 {
        element.priority = Priority::new(random.u8(0..10)).expect("valid");
    }
    if random.u8(0..3) == 0 {
        element.order_key = Some(format!("key {}", random.u8(0..3)).into());
    }
    if random.u8(0..6) == 0 {
        element.when = When::After(HOUR);
    }
    if random.u8(0..5) == 0 {
        element.once = Some(OnceId { id: format!("once {}", random.u8(0..20)).into(), window: HOUR });
    }
    if random.bool() {
        element.keep_result = Some(HOUR);
    }
    if random.u8(0..8) == 0 {
        element.waits_for = random.u32(1..3);
    } else if random.u8(0..3) == 0 && !known.is_empty() {
        element.before = Some(known[known.len() - 1 - random.usize(0..known.len().min(20))]);
    }
    element
}

fn random_end(random: &mut fastrand::Rng) -> SettleEnd {
    match random.u8(0..8) {
        0..4 => SettleEnd::Done(vec![random.u8(..); random.usize(0..4)]),
        4 => SettleEnd::Retry(Duration::ZERO, "at once".to_owned()),
        5 => SettleEnd::Retry(HOUR, "later".to_owned()),
        6 => SettleEnd::Fail("for good".to_owned()),
        _ => SettleEnd::HandBack(Duration::ZERO),
    }
}

fn random_change(random: &mut fastrand::Rng, known: &[ElementId]) -> Change {
    let ids: Vec<_> = (0..random.usize(0..4)).filter_map(|_| random.choice(known).copied()).collect();
    match random.u8(0..12) {
        0..4 => Change::Retry(ids),
        4..6 => Change::Remove(ids),
        6..8 => Change::Withdraw(ids),
        8 => Change::Purge(Phase::Dead),
        9 => Change::Purge(Phase::Delayed),
        _ => Change::Pause(random.u8(0..4) == 0),
    }
}

/// The row without what depends on the time or the fences.
fn strip(row: ElementRow) -> ElementRow {
    let taker = row.taker.map(|_| 0);
    ElementRow { age: None, left: None, fence: Fence::new(0), taker, ..row }
}

/// A take. Some are those before, repeated.
fn random_take(random: &mut fastrand::Rng, queue: &bandog_core::Key, takes: &mut u64) -> Take {
    let is_new = *takes == 0 || random.u32(0..3) > 0;
    *takes += u64::from(is_new);
    Take {
        queue: queue.clone(),
        id: TakeId { taker: 1, number: *takes },
        is_repeated: !is_new || random.bool(),
        at_most: random.u32(u32::from(is_new)..5),
        bytes: *random.choice(&[0, 5, 12, 1 << 20]).expect("a number"),
        rest_after: Duration::ZERO,
        lease: HOUR,
        deliveries: 3,
    }
}

async fn all(
    store: &dyn Queues,
    queue: &bandog_core::Key,
    phase: Phase,
) -> Vec<impl PartialEq + std::fmt::Debug + use<>> {
    let (mut rows, mut from) = (Vec::new(), Cursor::default());
    loop {
        let (page, next) = store.elements(queue, phase, &from, 7, 1 << 20).await.expect("a page");
        rows.extend(page.into_iter().map(strip));
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    // Elements that became dead or were taken in one call have the same time.
    if phase != Phase::Ready {
        rows.sort_by_key(|row| row.id);
    }
    rows
}
