//! `RCountDownLatch`.

use std::time::Duration;

use bandog_testkit::eventually;

use crate::{
    java::{SOON, Version},
    rig::{JavaPair, latch_channel, subscribers},
};

#[test]
fn a_latch_that_both_count_down_opens_for_waiters_of_both() {
    let pair = JavaPair::start(Version::Current);
    let (one, two) = (pair.one.latch("a", "start"), pair.two.latch("a", "start"));
    assert!(one.set(3));
    assert!(!two.set(5));
    assert_eq!(two.count(), 3);
    let waiting = [&pair.one, &pair.two].map(|java| java.latch("waiter", "start").waits());
    eventually(SOON, || subscribers(&pair.server, &latch_channel("start")) == 2);

    one.count_down();
    two.count_down();
    assert_eq!(one.count(), 1);
    assert!(waiting.iter().all(|waiter| waiter.answered().is_none()));
    two.count_down();
    for waiter in waiting {
        assert_eq!(waiter.answer(SOON), "open");
    }
    assert_eq!(pair.server.keys(), Vec::<String>::new());
    assert_eq!(pair.one.latch("late", "start").waits().answer(SOON), "open");
}

#[test]
fn a_wait_ends_when_its_time_is_up() {
    let pair = JavaPair::start(Version::Current);
    let (one, two) = (pair.one.latch("a", "start"), pair.two.latch("a", "start"));
    assert!(one.set(1));
    assert_eq!(two.waits_for(Duration::from_millis(100)).answer(SOON), "closed");
    assert!(one.delete());
    assert!(!one.delete());
    assert_eq!(two.waits_for(Duration::from_millis(100)).answer(SOON), "open");
}

/// Redisson's message about a deleted latch does not wake waiters. They see only when their time is up that the latch
/// is open.
#[test]
fn a_deleted_latch_does_not_wake_waiters() {
    let pair = JavaPair::start(Version::Current);
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
