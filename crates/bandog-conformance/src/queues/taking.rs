//! Laws of takes and leases.

use std::{collections::HashMap, time::Duration};

use bandog_core::queues::{Delivered, Extended, NewElement, Outcome, Phase, Priority, SettleEnd, Settled, Take};
use bandog_testkit::eventually_async;
use futures_util::future::join_all;

use super::{
    QueueWorld,
    kit::{HOUR, Program, SECOND, SOON, new, texts},
};

/// The same elements at any time.
fn without_age(elements: &[Delivered]) -> Vec<Delivered> {
    elements.iter().map(|element| Delivered { age: Duration::ZERO, ..element.clone() }).collect()
}

/// Law 347: an element is delivered to no other taker during its lease. After the lease it is delivered again, before later
/// ones, with a greater fence.
// Promise: W1, W2, W3
pub async fn deliveries_have_leases<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    ours.push_texts(&["a", "b"]).await;
    let begun = tokio::time::Instant::now();
    let first = ours.run(Take { lease: SECOND, ..ours.take(1) }).await.elements.remove(0);
    let mut second = None;
    eventually_async(SOON, async || {
        let taken = theirs.run(theirs.take(1)).await;
        if taken.elements.is_empty() {
            assert!(taken.next.is_some_and(|next| next <= SECOND), "{taken:?}");
        } else if taken.elements[0].payload == b"a" {
            second = taken.elements.into_iter().next();
        }
        second.is_some()
    })
    .await;
    let second = second.expect("the element comes again");
    assert!(begun.elapsed() >= SECOND - Duration::from_millis(2), "{:?}", begun.elapsed());
    assert!(second.fence > first.fence);
    assert_eq!((second.attempt, first.attempt), (2, 1));
    assert_eq!(ours.extend(&first, HOUR, None).await, Extended::Lost);
    assert_eq!(ours.done(&first).await, Settled::Lost);
    assert_eq!(theirs.done(&second).await, Settled::Applied);
}

/// Law 348: a repeated take gets the elements that it has got before, with the same fences, and no one else gets them.
// Promise: W4
pub async fn deliveries_of_a_repeated_take_are_the_same<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    ours.push_texts(&["a", "b", "c"]).await;
    let take = ours.take(2);
    let first = ours.run(take.clone()).await;
    let again = ours.run(Take { is_repeated: true, ..take.clone() }).await;
    assert_eq!(without_age(&again.elements), without_age(&first.elements));
    assert!(again.has_more);
    assert_eq!(texts(&theirs.take_all(10).await), ["c"]);
    for element in &first.elements {
        assert_eq!(ours.done(element).await, Settled::Applied);
    }
}

/// Law 388: a repeated take of which the store knows nothing gets nothing. If the first request arrives later, what it gets can
/// be given back, and was not delivered.
pub async fn takes_that_arrive_late_are_given_back<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    ours.push_texts(&["a", "b"]).await;
    let late = ours.take(1);
    let repeated = ours.run(Take { is_repeated: true, ..late.clone() }).await;
    assert!(repeated.elements.is_empty() && repeated.has_more, "{repeated:?}");
    let gives_back = Take { is_repeated: true, at_most: 0, ..late.clone() };
    let nothing = ours.run(gives_back.clone()).await;
    assert!(nothing.elements.is_empty() && !nothing.has_more, "{nothing:?}");
    assert_eq!(texts(&ours.run(late).await.elements), ["a"]);
    let held = ours.take_one().await;
    let back = ours.run(gives_back).await;
    assert!(back.elements.is_empty() && back.has_more, "{back:?}");
    let again = theirs.take_soon().await;
    assert_eq!((texts(std::slice::from_ref(&again)), again.attempt), (vec!["a".to_owned()], 1));
    for element in [held, again] {
        assert_eq!(theirs.done(&element).await, Settled::Applied);
    }
}

/// Law 380: a take gets no more bytes of payloads than it asks for, beside its first element.
pub async fn takes_are_limited_in_bytes<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    for length in [1, 1_000, 300_000] {
        let payload = "p".repeat(length);
        let bytes = u32::try_from(length * 2).expect("a small number");
        let elements = [&*payload, &*payload, "", &*payload, ""].map(new);
        ours.push_all(&elements).await;
        let lengths = |taken: &[Delivered]| taken.iter().map(|element| element.payload.len()).collect::<Vec<_>>();
        let first = ours.run(Take { bytes, ..ours.take(10) }).await;
        assert_eq!((lengths(&first.elements), first.has_more), (vec![length, length, 0], true), "{length}");
        let second = ours.run(Take { bytes: 0, ..ours.take(10) }).await;
        assert_eq!((lengths(&second.elements), second.has_more), (vec![length], true), "{length}");
        let third = ours.run(Take { bytes: 0, ..ours.take(10) }).await;
        assert_eq!((lengths(&third.elements), third.has_more), (vec![0], false), "{length}");
        for element in [first.elements, second.elements, third.elements].concat() {
            assert_eq!((element.attempt, ours.done(&element).await), (1, Settled::Applied));
        }
    }
}

/// Law 381: a repeated take may ask for less. Its other elements are given back to their places, and were not delivered.
pub async fn repeated_takes_give_back_what_they_do_not_get<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    ours.push_texts(&["aaaa", "bbbb", "cccc", "dddd"]).await;
    let take = ours.take(3);
    let first = ours.run(take.clone()).await.elements;
    assert_eq!(texts(&first), ["aaaa", "bbbb", "cccc"]);
    let fewer = ours.run(Take { is_repeated: true, bytes: 8, ..take.clone() }).await;
    assert_eq!((without_age(&fewer.elements), fewer.has_more), (without_age(&first[..2]), true));
    let again = theirs.take_one().await;
    assert_eq!(
        (again.id, again.attempt, texts(std::slice::from_ref(&again))),
        (first[2].id, 1, vec!["cccc".to_owned()])
    );
    assert!(again.fence > first[2].fence);
    assert_eq!(ours.done(&first[2]).await, Settled::Lost);
    let one = ours.run(Take { is_repeated: true, at_most: 1, ..take.clone() }).await;
    assert_eq!(without_age(&one.elements), without_age(&first[..1]));
    let none = ours.run(Take { is_repeated: true, at_most: 0, ..take.clone() }).await;
    assert!(none.elements.is_empty() && none.has_more, "{none:?}");
    let nothing = ours.run(Take { is_repeated: true, at_most: 0, ..take }).await;
    assert!(nothing.elements.is_empty(), "{nothing:?}");
    let rest = theirs.take_all(9).await;
    assert_eq!(texts(&rest), ["aaaa", "bbbb", "dddd"]);
    assert!(rest.iter().all(|element| element.attempt == 1), "{rest:?}");
}

/// Law 382: a take of a program that died counts, whatever other programs do: an element that ends its programs is dead after
/// its deliveries.
pub async fn deliveries_of_programs_that_died_count<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    ours.push_texts(&["poison"]).await;
    for attempt in 1..=2 {
        let dying = Program::of(world.queues());
        let mut taken = Vec::new();
        eventually_async(SOON, async || {
            let short = Take { lease: Duration::from_millis(50), deliveries: 2, ..dying.take(1) };
            taken = dying.run(short).await.elements;
            !taken.is_empty()
        })
        .await;
        assert_eq!(taken[0].attempt, attempt);
        drop(dying);
    }
    let is_dead = async || {
        let taken = ours.run(Take { deliveries: 2, ..ours.take(1) }).await;
        assert!(taken.elements.is_empty(), "{taken:?}");
        ours.count(Phase::Dead).await == 1
    };
    eventually_async(SOON, is_dead).await;
}

/// Law 349: a lease is extended for its taker, also after its end until the next delivery, and the progress is shown.
// Promise: W2
pub async fn deliveries_are_extended<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    ours.push_texts(&["a"]).await;
    let element = ours.run(Take { lease: SECOND, ..ours.take(1) }).await.elements.remove(0);
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < 2 * SECOND {
        assert_eq!(ours.extend(&element, SECOND * 10, Some("half")).await, Extended::Held);
        assert!(theirs.take_all(1).await.is_empty());
        tokio::time::sleep(SECOND / 5).await;
    }
    assert_eq!(ours.extend(&element, HOUR, None).await, Extended::Held);
    let row = theirs.find(element.id).await.expect("the element");
    assert_eq!(
        (row.phase, row.progress.as_deref(), row.attempt, row.fence),
        (Phase::Taken, Some("half"), 1, element.fence)
    );
    assert!(row.taker.is_some());
    assert!(row.left.is_some_and(|left| left > HOUR - SOON && left <= HOUR), "{row:?}");
    assert_eq!(ours.extend(&element, HOUR, Some("")).await, Extended::Held);
    assert_eq!(theirs.find(element.id).await.and_then(|row| row.progress), None);
    assert_eq!(ours.done(&element).await, Settled::Applied);
    assert_eq!(ours.extend(&element, HOUR, None).await, Extended::Lost);
}

/// Law 350: an element whose takers have died too often is dead, instead of being delivered once more. The take says so, and
/// goes on with the next one.
// Promise: W5
pub async fn elements_that_are_delivered_too_often_are_dead<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    let poison = NewElement { keep_result: Some(HOUR), ..new("poison") };
    ours.push(poison.clone()).await;
    for attempt in 1..=2 {
        let mut element = None;
        eventually_async(SOON, async || {
            let taken = ours.run(Take { lease: Duration::from_millis(50), ..ours.take(1) }).await;
            assert_eq!(taken.died, 0);
            element = taken.elements.into_iter().next();
            element.is_some()
        })
        .await;
        assert_eq!(element.map(|element| element.attempt), Some(attempt));
    }
    ours.push_texts(&["next"]).await;
    let mut died = 0;
    eventually_async(SOON, async || {
        let taken = ours.run(Take { deliveries: 2, ..ours.take(1) }).await;
        died += taken.died;
        if let Some(element) = taken.elements.first() {
            assert_eq!(element.payload, b"next");
        }
        died > 0
    })
    .await;
    assert_eq!(died, 1);
    let row = ours.find(poison.id).await.expect("the dead element");
    assert_eq!((row.phase, row.attempt), (Phase::Dead, 2));
    assert!(row.error.as_deref().is_some_and(|error| error.contains("2 deliveries")), "{row:?}");
    assert!(matches!(row.outcome, Some(Outcome::Failed(_))), "{row:?}");
}

/// Law 351: many takers in several programs get each element exactly once, although some are handed back, and elements of the
/// same key never overlap.
// Promise: W1
pub async fn elements_are_delivered_once_to_many_takers<W: QueueWorld>(world: &W) {
    const ELEMENTS: u32 = 600;
    let pusher = Program::of(world.queues());
    let takers: Vec<_> = (0..6).map(|_| Program::of(world.queues())).collect();
    let counts = std::sync::Mutex::new(HashMap::<Vec<u8>, u32>::new());
    let busy = std::sync::Mutex::new(HashMap::<u32, u32>::new());
    let elements: Vec<_> = (0..ELEMENTS)
        .map(|number| {
            let priority = Priority::new([0, 1, 2, 3][number as usize % 4]).expect("valid");
            let order_key = (number.is_multiple_of(3)).then(|| format!("key {}", number % 7).into());
            NewElement { priority, order_key, ..new(&number.to_string()) }
        })
        .collect();
    let push = async {
        for chunk in elements.chunks(50) {
            pusher.push_all(chunk).await;
        }
    };
    let work = takers.iter().zip(0..).map(async |(taker, at): (&Program, u32)| {
        let mut round = at;
        while counts.lock().expect("no panic").len() < ELEMENTS as usize {
            round += 1;
            let taken = taker.take_all(1 + round % 8).await;
            if taken.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            for element in &taken {
                let number: u32 = texts(std::slice::from_ref(element))[0].parse().expect("a number");
                if number.is_multiple_of(3) {
                    let mut busy = busy.lock().expect("no panic");
                    let of_key = busy.entry(number % 7).or_default();
                    *of_key += 1;
                    assert_eq!(*of_key, 1, "two elements of key {} at once", number % 7);
                }
            }
            tokio::task::yield_now().await;
            for element in &taken {
                let number: u32 = texts(std::slice::from_ref(element))[0].parse().expect("a number");
                if number.is_multiple_of(3) {
                    *busy.lock().expect("no panic").entry(number % 7).or_default() -= 1;
                }
                if (number + round).is_multiple_of(5) && element.fence.get().is_multiple_of(2) {
                    assert_eq!(taker.settle(element, SettleEnd::HandBack(Duration::ZERO)).await, Settled::Applied);
                } else {
                    *counts.lock().expect("no panic").entry(element.payload.clone()).or_default() += 1;
                    assert_eq!(taker.done(element).await, Settled::Applied);
                }
            }
        }
    });
    tokio::join!(push, join_all(work));
    let counts = counts.into_inner().expect("no panic");
    assert!(counts.len() == ELEMENTS as usize && counts.values().all(|count| *count == 1), "{counts:?}");
    assert!(pusher.take_all(1).await.is_empty());
}
