//! Laws of settlements and results.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bandog_core::{
    Notifier,
    queues::{Bell, Change, NewElement, Outcome, Phase, SettleEnd, Settled, Take},
};
use bandog_testkit::eventually_async;

use super::{
    QueueWorld,
    kit::{HOUR, Program, SECOND, SOON, new, texts},
};
use crate::ends_itself::EndsItself;

/// Law 352: an element that is done is gone. A repeated settlement finds nothing.
pub async fn elements_that_are_done_are_gone<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    ours.push_texts(&["a", "b"]).await;
    let taken = ours.take_all(2).await;
    assert_eq!(ours.done(&taken[1]).await, Settled::Applied);
    assert_eq!(ours.done(&taken[1]).await, Settled::Absent);
    assert_eq!(ours.phase(taken[1].id).await, None);
    assert_eq!(ours.phase(taken[0].id).await, Some(Phase::Taken));
    assert_eq!(ours.settle(&taken[1], SettleEnd::HandBack(Duration::ZERO)).await, Settled::Absent);
    assert_eq!(ours.done(&taken[0]).await, Settled::Applied);
    for phase in Phase::IN_QUEUE {
        assert_eq!(ours.count(phase).await, 0, "{phase:?}");
    }
}

/// Law 353: an element that failed comes again after its time, with the error and the next attempt. Repeating the settlement
/// changes nothing.
// Promise: W4
pub async fn elements_that_failed_come_again<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    ours.push_texts(&["a"]).await;
    let first = ours.take_one().await;
    let retry = SettleEnd::Retry(SECOND, "it \"broke\" \0\n中".to_owned());
    let settled = tokio::time::Instant::now();
    assert_eq!(ours.settle(&first, retry.clone()).await, Settled::Applied);
    assert_eq!(ours.settle(&first, retry.clone()).await, Settled::Applied);
    assert_eq!(ours.phase(first.id).await, Some(Phase::Delayed));
    let second = theirs.take_soon().await;
    assert!(settled.elapsed() >= SECOND - Duration::from_millis(2), "{:?}", settled.elapsed());
    assert_eq!(second.attempt, 2);
    // A database may not store the character 0.
    assert!(
        second.error.as_deref().is_some_and(|error| error.starts_with("it \"broke\" ") && error.ends_with("\n中")),
        "{second:?}"
    );
    assert!(second.fence > first.fence);
    assert_eq!(ours.settle(&first, retry).await, Settled::Lost);
    assert_eq!(theirs.settle(&second, SettleEnd::Retry(Duration::ZERO, "again".to_owned())).await, Settled::Applied);
    let third = ours.take_one().await;
    assert_eq!((third.attempt, third.error.as_deref()), (3, Some("again")));
    assert_eq!(ours.done(&third).await, Settled::Applied);
}

/// Law 354: an element that is handed back is the next one again, and the delivery does not count.
// Promise: W7
pub async fn elements_that_are_handed_back_keep_their_place<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    ours.push_texts(&["a", "b", "c"]).await;
    let taken = ours.take_all(2).await;
    assert_eq!(ours.settle(&taken[0], SettleEnd::HandBack(Duration::ZERO)).await, Settled::Applied);
    assert_eq!(ours.settle(&taken[0], SettleEnd::HandBack(Duration::ZERO)).await, Settled::Applied);
    ours.push_texts(&["d"]).await;
    let again = ours.take_all(3).await;
    assert_eq!(texts(&again), ["a", "c", "d"]);
    assert_eq!(again[0].attempt, 1);
    assert!(again[0].fence > taken[0].fence);
    assert_eq!(ours.settle(&taken[0], SettleEnd::HandBack(Duration::ZERO)).await, Settled::Lost);
}

/// Law 355: an element that failed for good is dead, with its error, until it is retried or removed.
pub async fn elements_that_failed_for_good_are_dead<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    ours.push_texts(&["a", "b", "c"]).await;
    let taken = ours.take_all(3).await;
    let fail = || SettleEnd::Fail("no such card".to_owned());
    for element in &taken {
        assert_eq!(ours.settle(element, fail()).await, Settled::Applied);
        assert_eq!(ours.settle(element, fail()).await, Settled::Applied);
        assert_eq!(ours.settle(element, SettleEnd::HandBack(Duration::ZERO)).await, Settled::Lost);
    }
    assert!(ours.take_all(3).await.is_empty());
    let dead = ours.elements(Phase::Dead).await;
    assert_eq!(
        dead.iter().map(|row| row.id).collect::<Vec<_>>(),
        taken.iter().map(|element| element.id).collect::<Vec<_>>()
    );
    assert!(dead.iter().all(|row| row.error.as_deref() == Some("no such card") && row.attempt == 1), "{dead:?}");
    assert_eq!(dead[0].payload, b"a");

    assert_eq!(ours.change(Change::Retry(vec![taken[1].id, taken[1].id])).await, 1);
    assert_eq!(ours.change(Change::Retry(vec![taken[1].id])).await, 0);
    let again = ours.take_one().await;
    assert_eq!((again.id, again.attempt), (taken[1].id, 1));
    assert!(again.fence > taken[1].fence);
    assert_eq!(ours.done(&again).await, Settled::Applied);
    assert_eq!(ours.change(Change::Remove(vec![taken[0].id])).await, 1);
    assert_eq!(ours.change(Change::Retry(Vec::new())).await, 1);
    assert_eq!(texts(&ours.take_all(9).await), ["c"]);
    assert_eq!(ours.count(Phase::Dead).await, 0);
}

/// Law 356: a taker that settles after its lease has ended succeeds while no later delivery has begun.
pub async fn settlements_of_a_late_taker_count_until_the_next_delivery<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    for end in [SettleEnd::Done(Vec::new()), SettleEnd::Fail("no".into()), SettleEnd::HandBack(Duration::ZERO)] {
        ours.push_texts(&["a"]).await;
        let late = ours.run(Take { lease: Duration::from_millis(20), ..ours.take(1) }).await.elements.remove(0);
        tokio::time::sleep(Duration::from_millis(60)).await;
        // A take of nothing makes the element ready again.
        theirs.change(Change::Pause(true)).await;
        assert!(theirs.take_all(1).await.is_empty());
        theirs.change(Change::Pause(false)).await;
        assert_eq!(ours.settle(&late, end.clone()).await, Settled::Applied, "{end:?}");
        let next = theirs.take_all(1).await;
        assert_eq!(next.len(), usize::from(end == SettleEnd::HandBack(Duration::ZERO)), "{end:?}");
        for element in next {
            assert!(element.fence > late.fence);
            assert_eq!(ours.done(&late).await, Settled::Lost);
            theirs.done(&element).await;
        }
    }
}

/// Law 357: the result of an element is kept for its time, also that of a dead or a removed one.
pub async fn results_are_kept_for_a_time<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    let with_result = |text: &str, keep: Duration| NewElement { keep_result: Some(keep), ..new(text) };
    let elements = ["done", "failed", "removed", "retried"].map(|text| with_result(text, HOUR));
    ours.push_all(&elements).await;
    ours.push_all(&[with_result("short", Duration::from_millis(100)), new("without")]).await;
    let taken = theirs.take_all(10).await;
    theirs.settle(&taken[0], SettleEnd::Done(vec![0, 255, 10])).await;
    theirs.settle(&taken[1], SettleEnd::Fail("why".into())).await;
    theirs.settle(&taken[2], SettleEnd::HandBack(Duration::ZERO)).await;
    ours.change(Change::Remove(vec![taken[2].id])).await;
    theirs.settle(&taken[3], SettleEnd::Fail("first".into())).await;
    ours.change(Change::Retry(vec![taken[3].id])).await;
    theirs.done(&taken[4]).await;
    theirs.done(&taken[5]).await;
    let ours = &ours;
    let outcome = async |at: usize| ours.find(taken[at].id).await.map(|row| (row.phase, row.outcome));
    assert_eq!(outcome(0).await, Some((Phase::Ended, Some(Outcome::Done(vec![0, 255, 10])))));
    assert_eq!(outcome(1).await, Some((Phase::Dead, Some(Outcome::Failed("why".into())))));
    assert_eq!(outcome(2).await, Some((Phase::Ended, Some(Outcome::Cancelled))));
    assert_eq!(outcome(3).await, Some((Phase::Ready, None)));
    assert_eq!(outcome(5).await, None);
    eventually_async(SOON, async || outcome(4).await.is_none()).await;
    // A repeated settlement does not change the result.
    assert_eq!(theirs.settle(&taken[0], SettleEnd::Done(vec![1])).await, Settled::Absent);
    assert_eq!(outcome(0).await, Some((Phase::Ended, Some(Outcome::Done(vec![0, 255, 10])))));
}

/// Law 379: a notifier of a bell may drop its own subscription, and the store goes on.
pub async fn queue_bells_end_themselves<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    let bells = [
        Bell::Ready { queue: ours.queue.clone(), taker: ours.take(1).id.taker },
        Bell::Results { queue: ours.queue.clone(), client: new("").id.client },
    ];
    for bell in bells {
        let ends = EndsItself::new();
        let subscription = ours.store.subscribe_bell(&bell, ends.slot().notifier()).await.expect("a subscription");
        let change = async || {
            // A store may notify only takers that have found nothing.
            while !ours.take_all(9).await.is_empty() {}
            theirs.push(NewElement { keep_result: Some(HOUR), ..new("a") }).await;
            for element in theirs.take_all(9).await {
                theirs.done(&element).await;
            }
        };
        ends.ends(subscription, change).await;
    }
}

/// Law 358: a bell rings when an element may be ready: after a push, a hand-back, a retry or the end of a pause. The bell of
/// a client rings when the result of its element is there. A subscription may be silent.
pub async fn bells_ring<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    let rung = Arc::new(AtomicBool::new(false));
    let notifier = || {
        let rung = rung.clone();
        Notifier::new(move || rung.store(true, Ordering::SeqCst))
    };
    let heard = async |what: &str| {
        let is_rung = async || rung.swap(false, Ordering::SeqCst);
        eventually_async(SOON, is_rung).await;
        eprintln!("the bell has rung: {what}");
    };
    let take = ours.take(1);
    let bell = Bell::Ready { queue: ours.queue.clone(), taker: take.id.taker };
    let subscription = ours.store.subscribe_bell(&bell, notifier()).await.expect("a subscription");
    if subscription.is_silent() {
        eprintln!("the store does not notify");
        return;
    }
    // A store may notify only takers that have found nothing.
    assert!(ours.take_all(1).await.is_empty());
    theirs.push_texts(&["a"]).await;
    heard("a push").await;
    let element = theirs.take_one().await;
    assert!(ours.take_all(1).await.is_empty());
    theirs.settle(&element, SettleEnd::HandBack(Duration::ZERO)).await;
    heard("a hand-back").await;
    let element = theirs.take_one().await;
    assert!(ours.take_all(1).await.is_empty());
    theirs.settle(&element, SettleEnd::Retry(Duration::ZERO, String::new())).await;
    heard("a retry").await;
    theirs.change(Change::Pause(true)).await;
    assert!(ours.take_all(1).await.is_empty());
    rung.store(false, Ordering::SeqCst);
    theirs.change(Change::Pause(false)).await;
    heard("the end of a pause").await;
    drop(subscription);

    let asked = NewElement { keep_result: Some(HOUR), ..new("b") };
    let bell = Bell::Results { queue: ours.queue.clone(), client: asked.id.client };
    let subscription = ours.store.subscribe_bell(&bell, notifier()).await.expect("a subscription");
    ours.push(asked).await;
    for element in theirs.take_all(2).await {
        theirs.done(&element).await;
    }
    heard("a result").await;
    drop(subscription);
}
