//! Laws of elements that wait for others.

use std::time::Duration;

use bandog_core::queues::{Change, NewElement, Phase, Priority, SettleEnd, Settled, Take, When};
use bandog_testkit::eventually_async;

use super::{
    QueueWorld,
    kit::{HOUR, Program, SOON, new, texts, with_key},
};

/// Law 359: elements with the same key are delivered one after another, in the order of their pushes, also if one is
/// repeated or its taker dies. Others go on.
// Promise: W3, W6
pub async fn elements_of_a_key_come_one_by_one<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    let urgent = |text: &str| NewElement { priority: Priority::MAX, ..with_key(text, "a") };
    ours.push_all(&[with_key("a1", "a"), with_key("a2", "a"), with_key("b1", "b"), urgent("a3"), new("plain")]).await;
    let first = ours.take_all(10).await;
    assert_eq!(texts(&first), ["a1", "b1", "plain"]);
    assert_eq!(ours.count(Phase::Blocked).await, 2);
    ours.settle(&first[0], SettleEnd::Retry(Duration::ZERO, "again".into())).await;
    let again = theirs.run(Take { lease: Duration::from_millis(50), ..theirs.take(10) }).await.elements;
    assert_eq!(texts(&again), ["a1"]);
    let third = ours.take_soon().await;
    assert_eq!(texts(std::slice::from_ref(&third)), ["a1"], "the same one, after the lease");
    assert_eq!(ours.settle(&third, SettleEnd::HandBack(Duration::ZERO)).await, Settled::Applied);
    let fourth = ours.take_one().await;
    assert_eq!(ours.done(&fourth).await, Settled::Applied);
    let second = theirs.take_one().await;
    assert_eq!(texts(std::slice::from_ref(&second)), ["a2"]);
    assert!(second.fence > fourth.fence);
    ours.push(with_key("a4", "a")).await;
    assert!(theirs.take_all(10).await.is_empty());
    theirs.done(&second).await;
    assert_eq!(texts(&theirs.take_all(10).await), ["a3"]);
}

/// Law 360: an element that is dead or removed does not hold back the next ones with its key. One that is delayed does.
pub async fn keys_go_on_after_dead_elements<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    let first_two = [with_key("a1", "a"), with_key("a2", "a")];
    let later = NewElement { when: When::After(HOUR), ..with_key("later", "a") };
    ours.push_all(&[&first_two[..], &[later.clone(), with_key("a4", "a")]].concat()).await;
    let first = ours.take_one().await;
    ours.settle(&first, SettleEnd::Fail("no".into())).await;
    let second = ours.take_one().await;
    assert_eq!(texts(std::slice::from_ref(&second)), ["a2"]);
    // Later than the pushes, also for a clock that Tokio has paused.
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(ours.change(Change::Retry(Vec::new())).await, 1);
    assert!(ours.take_all(10).await.is_empty(), "the retried one waits behind the others");
    ours.done(&second).await;
    assert!(ours.take_all(10).await.is_empty());
    assert_eq!(ours.phase(later.id).await, Some(Phase::Delayed));
    assert_eq!(ours.change(Change::Remove(vec![later.id])).await, 1);
    let fourth = ours.take_one().await;
    assert_eq!(texts(std::slice::from_ref(&fourth)), ["a4"]);
    ours.done(&fourth).await;
    let retried = ours.take_one().await;
    assert_eq!((retried.id, retried.attempt), (first.id, 1));
    ours.done(&retried).await;
    ours.push(with_key("a5", "a")).await;
    assert_eq!(texts(&ours.take_all(10).await), ["a5"]);
    // One whose taker dies in the last delivery, too.
    ours.push_all(&[with_key("b1", "b"), with_key("b2", "b")]).await;
    let last = ours.run(Take { lease: Duration::from_millis(50), ..ours.take(10) }).await;
    assert_eq!(texts(&last.elements), ["b1"]);
    let mut next = Vec::new();
    eventually_async(SOON, async || {
        next = ours.run(Take { deliveries: 1, ..ours.take(10) }).await.elements;
        !next.is_empty()
    })
    .await;
    assert_eq!(texts(&next), ["b2"]);
}

/// Law 361: an element becomes ready when its predecessors are done, each once, and not while one of them is dead.
pub async fn elements_wait_for_their_predecessors<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    let last = NewElement { waits_for: 3, keep_result: Some(HOUR), ..new("last") };
    let before = |text: &str| NewElement { before: Some(last.id), ..new(text) };
    let of_key = |text: &str| NewElement { before: Some(last.id), ..with_key(text, "k") };
    ours.push_all(&[last.clone(), before("a"), before("b"), of_key("c")]).await;
    let taken = ours.take_all(10).await;
    assert_eq!(texts(&taken), ["a", "b", "c"]);
    assert_eq!(ours.phase(last.id).await, Some(Phase::Blocked));
    ours.done(&taken[0]).await;
    ours.done(&taken[0]).await;
    ours.settle(&taken[1], SettleEnd::Fail("no".into())).await;
    theirs.done(&taken[2]).await;
    assert!(ours.take_all(10).await.is_empty());
    ours.change(Change::Retry(vec![taken[1].id])).await;
    let again = theirs.take_one().await;
    theirs.done(&again).await;
    let end = ours.take_one().await;
    assert_eq!(end.id, last.id);
    ours.done(&end).await;

    // A continuation with a delay and a key waits for both.
    let last = NewElement {
        waits_for: 1,
        when: When::After(Duration::from_millis(300)),
        order_key: Some("k".into()),
        ..new("last")
    };
    let before = last.id;
    ours.push_all(&[last, with_key("in the way", "k"), NewElement { before: Some(before), ..new("first") }]).await;
    let taken = ours.take_all(10).await;
    assert_eq!(texts(&taken), ["in the way", "first"]);
    ours.done(&taken[1]).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(ours.take_all(10).await.is_empty());
    ours.done(&taken[0]).await;
    eventually_async(SOON, async || ours.take_all(10).await.len() == 1).await;
}
