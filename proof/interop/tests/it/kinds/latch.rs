//! Count-down latches.

use std::time::Duration;

use bandog_testkit::eventually;

use super::{for_pairs, java_alone};
use crate::{
    neighbour::{PendingAnswer, SOON},
    rig::{Pair, latch_channel, subscribers},
};

for_pairs! {
    // Promise: X9
    a_latch_that_both_count_down_opens_for_waiters_of_both: java_alone java_and_bandog;
    a_wait_ends_when_its_time_is_up: java_alone java_and_bandog;
}

fn a_latch_that_both_count_down_opens_for_waiters_of_both(pair: &Pair) {
    for (first, second) in pair.both_ways() {
        let (one, two) = (first.latch("a", "start"), second.latch("a", "start"));
        assert!(one.set(3));
        assert!(!two.set(5));
        assert_eq!((one.count(), two.count()), (3, 3));
        let waiting = [first, second].map(|neighbour| neighbour.latch("waiter", "start").waits());
        eventually(SOON, || subscribers(&pair.server, &latch_channel("start")) == 2);
        waiting.iter().for_each(PendingAnswer::wait_for_sleep);

        one.count_down();
        two.count_down();
        assert_eq!((one.count(), two.count()), (1, 1));
        assert!(waiting.iter().all(|waiter| waiter.answered().is_none()));
        two.count_down();
        for waiter in waiting {
            assert_eq!(waiter.answer(SOON), "open");
        }
        assert_eq!(pair.server.cmd(&["EXISTS", "start"]).int(), 0);
        assert_eq!(first.latch("late", "start").waits().answer(SOON), "open");
        eventually(SOON, || subscribers(&pair.server, &latch_channel("start")) == 0);
    }
}

fn a_wait_ends_when_its_time_is_up(pair: &Pair) {
    for (first, second) in pair.both_ways() {
        let (one, two) = (first.latch("a", "start"), second.latch("a", "start"));
        assert!(one.set(1));
        assert_eq!(two.waits_for(Duration::from_millis(100)).answer(SOON), "closed");
        assert!(one.delete());
        assert!(!one.delete());
        assert_eq!(two.waits_for(Duration::from_millis(100)).answer(SOON), "open");
    }
}

/// Redisson's message about a deleted latch does not wake waiters. They see only when their time is up that the latch
/// is open.
#[test]
fn a_deleted_latch_does_not_wake_waiters_of_java() {
    let pair = java_alone();
    let latch = pair.one.latch("a", "start");
    assert!(latch.set(1));
    pair.server.cmd(&["CONFIG", "RESETSTAT"]);
    let endless = pair.two.latch("endless", "start").waits();
    let bounded = pair.two.latch("bounded", "start").waits_for(Duration::from_secs(3));
    // A waiter reads the count before and after its subscription, and then sleeps.
    eventually(SOON, || pair.server.calls("get") == 4);
    assert!(latch.delete());
    assert_eq!(bounded.answer(SOON), "open");
    assert!(endless.answered().is_none());
    assert!(latch.set(1));
    latch.count_down();
    assert_eq!(endless.answer(SOON), "open");
}

/// The reason why bandog's waiters wake when Java deletes a latch.
#[test]
fn a_latch_that_java_deletes_opens_for_waiters_of_bandog() {
    let pair = super::java_and_bandog();
    let latch = pair.one.latch("a", "start");
    assert!(latch.set(1));
    let waiter = pair.two.latch("waiter", "start").waits();
    eventually(SOON, || subscribers(&pair.server, &latch_channel("start")) == 1);
    assert!(latch.delete());
    assert_eq!(waiter.answer(SOON), "open");
}
