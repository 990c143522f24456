use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn counter() -> (Notifier, impl Fn() -> usize) {
    let count = Arc::new(AtomicUsize::new(0));
    let rung = count.clone();
    (Notifier::new(move || _ = rung.fetch_add(1, Ordering::Relaxed)), move || count.load(Ordering::Relaxed))
}

#[test]
fn many_listeners_share_one_subscription() {
    let mut table = Table::default();
    let (notifier, rung) = counter();
    let ids: Vec<u64> = (0..3).map(|_| table.join("c", notifier.clone()).id).collect();
    assert_eq!(table.next("c"), Some(Ask::Subscribe));
    assert_eq!(table.next("c"), None, "one request at a time");
    table.subscribed("c");
    assert!(table.join("c", notifier).answer.is_none(), "it is on already");
    table.ring("c");
    assert_eq!(rung(), 4);
    for id in ids {
        table.leave("c", id);
        assert_eq!(table.next("c"), None, "one still listens");
    }
    table.leave("c", 4);
    assert_eq!(table.next("c"), Some(Ask::Unsubscribe));
    table.unsubscribed("c");
    assert!(!table.is_wanted());
}

#[test]
fn who_joins_while_it_is_left_is_subscribed_anew() {
    let mut table = Table::default();
    let (notifier, _) = counter();
    let id = table.join("c", notifier.clone()).id;
    table.next("c");
    table.subscribed("c");
    table.leave("c", id);
    assert_eq!(table.next("c"), Some(Ask::Unsubscribe));
    let mut joined = table.join("c", notifier);
    assert_eq!(table.next("c"), None, "the end is still under way");
    table.unsubscribed("c");
    assert_eq!(table.next("c"), Some(Ask::Subscribe));
    table.subscribed("c");
    assert_eq!(joined.answer.as_mut().unwrap().try_recv().unwrap().unwrap(), Armed::Notifications);
}

#[test]
fn who_leaves_while_it_is_asked_for_leaves_nothing_behind() {
    let mut table = Table::default();
    let id = table.join("c", counter().0).id;
    table.next("c");
    table.leave("c", id);
    assert_eq!(table.next("c"), None);
    table.subscribed("c");
    assert_eq!(table.next("c"), Some(Ask::Unsubscribe));
    table.unsubscribed("c");
    assert!(!table.is_wanted());
}

#[test]
fn a_subscription_without_an_answer_is_ended_before_it_is_asked_for_again() {
    let mut table = Table::default();
    let mut joined = table.join("c", counter().0);
    table.next("c");
    table.unsure("c", &Error::unavailable("late"));
    assert!(joined.answer.as_mut().unwrap().try_recv().unwrap().is_err());
    assert_eq!(table.next("c"), Some(Ask::Unsubscribe));
    table.unsubscribed("c");
    assert_eq!(table.next("c"), Some(Ask::Subscribe));
}

#[test]
fn after_a_loss_everybody_is_rung_once_it_is_on_again() {
    let mut table = Table::default();
    let (notifier, rung) = counter();
    table.join("c", notifier);
    let gone = table.join("gone", counter().0).id;
    for channel in ["c", "gone"] {
        table.next(channel);
        table.subscribed(channel);
    }
    table.leave("gone", gone);
    table.lose();
    assert_eq!(table.channels().count(), 1, "a subscription that nobody wants ended with the connection");
    assert!(!table.hears("c"));
    assert_eq!(table.next("c"), Some(Ask::Subscribe));
    assert_eq!(rung(), 0);
    table.subscribed("c");
    assert_eq!(rung(), 1);
}

#[test]
fn a_refusal_answers_the_waiting_and_rings_the_believers() {
    let mut table = Table::default();
    let (notifier, rung) = counter();
    table.join("c", notifier);
    table.next("c");
    table.subscribed("c");
    table.lose();
    let mut waiting = table.join("c", counter().0);
    table.next("c");
    table.refused("c", &Ok(Armed::Denied));
    assert_eq!(rung(), 1);
    assert_eq!(waiting.answer.as_mut().unwrap().try_recv().unwrap().unwrap(), Armed::Denied);
}
