//! `RPermitExpirableSemaphore` with semaphores of bandog, and `RSemaphore`.

use std::time::Duration;

use super::{for_pairs, java_alone, java_and_bandog};
use crate::{
    neighbour::SOON,
    objects::{Lease, PermitIds},
    rig::{Pair, blocked, settle},
};

const MINUTE: Lease = Lease::Of(Duration::from_secs(60));

for_pairs! {
    leased_permits_are_granted_all_or_none_and_a_release_wakes_the_waiter: java_alone java_and_bandog;
    a_permit_of_both_sides_is_in_use_until_both_release_it: java_and_bandog;
}

fn leased_permits_are_granted_all_or_none_and_a_release_wakes_the_waiter(pair: &Pair) {
    let java = pair.one.leased("java", "gpus", 3);
    assert!(java.set_if_absent(3));
    assert!(!java.set_if_absent(5));
    for (one, two) in pair.both_ways() {
        settle(&pair.server);
        let (ours, other) = (one.leased("a", "gpus", 3), two.leased("a", "gpus", 3));
        let both = ours.acquire(2, MINUTE);
        assert_eq!(both.count(), 2);
        assert!(other.try_acquire(2, MINUTE).is_none());
        assert_eq!(java.available(), 1);
        let endless = other.try_acquire(1, Lease::Endless).expect("available");

        let pending = blocked(&pair.server, || other.waits(2, MINUTE));
        assert!(pending.answered().is_none());
        ours.release(&both);
        let granted = PermitIds::read(&pending.answer(SOON)).expect("granted");
        assert_eq!((granted.count(), java.available()), (2, 0));
        other.release(&granted);
        other.release(&endless);
        assert_eq!(java.available(), 3);
    }
}

/// The permits of both sides are taken from one number, and Java's queries see them all.
fn a_permit_of_both_sides_is_in_use_until_both_release_it(pair: &Pair) {
    let (java, bandog) = (pair.one.leased("a", "gpus", 2), pair.two.leased("a", "gpus", 2));
    let second = bandog.acquire(1, Lease::Endless);
    let first = java.acquire(1, MINUTE);
    assert_eq!((java.available(), java.limit()), (0, 2));
    assert!(java.try_acquire(1, MINUTE).is_none());
    assert!(bandog.try_acquire(1, MINUTE).is_none());
    java.release(&first);
    let first = bandog.acquire(1, MINUTE);
    bandog.release(&second);
    assert_eq!(java.available(), 1);
    bandog.release(&first);
    assert_eq!((java.available(), java.limit()), (2, 2));
}

#[test]
fn plain_permits_are_granted_all_or_none_and_a_release_wakes_the_waiter() {
    let pair = java_alone();
    let (ours, other) = (pair.one.semaphore("a", "gpus", 3), pair.two.semaphore("a", "gpus", 3));
    assert!(ours.set_if_absent(3));
    assert!(!other.set_if_absent(5));
    ours.acquire(2);
    assert!(!other.try_acquire(2));
    assert_eq!(other.available(), 1);
    assert_eq!(other.waits_for(2, Duration::from_millis(100)).answer(SOON), "busy");

    settle(&pair.server);
    let pending = blocked(&pair.server, || other.waits(2));
    assert!(pending.answered().is_none());
    ours.release(1);
    assert_eq!(pending.answer(SOON), "held");
    assert_eq!(ours.available(), 0);
}

#[test]
fn a_higher_limit_of_java_wakes_waiters_of_java() {
    let pair = java_alone();
    let leased = pair.one.leased("a", "leased", 1);
    leased.set(1);
    leased.acquire(1, MINUTE);
    let pending = blocked(&pair.server, || pair.two.leased("a", "leased", 1).waits(2, MINUTE));
    leased.set(3);
    assert_eq!(PermitIds::read(&pending.answer(SOON)).expect("granted").count(), 2);
    assert_eq!((leased.available(), leased.limit()), (0, 3));

    settle(&pair.server);
    let plain = pair.one.semaphore("a", "plain", 1);
    assert!(plain.set_if_absent(1));
    plain.acquire(1);
    let pending = blocked(&pair.server, || pair.two.semaphore("a", "plain", 1).waits(2));
    plain.add(2);
    assert_eq!(pending.answer(SOON), "held");
}

#[test]
fn a_higher_limit_of_bandog_wakes_waiters_of_both_sides() {
    let pair = java_and_bandog();
    let (java, bandog) = (pair.one.leased("a", "gpus", 2), pair.two.leased("a", "gpus", 2));
    java.set(2);
    let held = java.acquire(2, MINUTE);
    let theirs = blocked(&pair.server, || pair.one.leased("waiter", "gpus", 2).waits(1, MINUTE));
    let ours = blocked(&pair.server, || pair.two.leased("waiter", "gpus", 2).waits(1, MINUTE));
    bandog.set(4);
    for waiter in [theirs, ours] {
        assert_eq!(PermitIds::read(&waiter.answer(SOON)).expect("granted").count(), 1);
    }
    assert_eq!((java.available(), java.limit()), (0, 4));
    java.release(&held);
    assert_eq!(java.available(), 2);
}

/// A client of bandog that counts with another limit than the store is refused, and the error names both limits.
#[test]
fn a_limit_that_java_changes_is_an_error_for_bandog_with_the_old_limit() {
    let pair = java_and_bandog();
    let java = pair.one.leased("a", "gpus", 2);
    java.set(2);
    let held = java.acquire(2, MINUTE);
    let waiter = blocked(&pair.server, || pair.two.leased("waiter", "gpus", 2).waits(1, MINUTE));
    java.set(3);
    let refused = waiter.answer(SOON);
    assert!(refused.starts_with("error ") && refused.contains('2') && refused.contains('3'), "{refused}");
    let granted = pair.two.leased("a", "gpus", 3).try_acquire(1, MINUTE).expect("available");
    assert_eq!(granted.count(), 1);
    java.release(&held);
}

/// The plain semaphore has no lease, so the permits of a killed JVM are lost.
#[test]
fn permits_of_a_killed_jvm_come_back_only_if_they_are_leased() {
    let pair = java_alone();
    let (leased, plain) = (pair.one.leased("a", "leased", 1), pair.one.semaphore("a", "plain", 1));
    leased.set(1);
    assert!(plain.set_if_absent(1));
    plain.acquire(1);
    leased.acquire(1, Lease::Of(Duration::from_secs(1)));
    pair.one.kill();
    let other = pair.two.leased("a", "leased", 1);
    let granted = PermitIds::read(&other.waits_for(1, MINUTE, Duration::from_secs(5)).answer(SOON));
    assert!(granted.is_some(), "the permit did not come back");
    assert!(!pair.two.semaphore("a", "plain", 1).try_acquire(1));
}
